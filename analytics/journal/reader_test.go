package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
)

// at returns a final event of a time.
func at(request string, second int) *analytics.Event {
	e := inference(request, analytics.PhaseEnd)
	e.Time = time.Date(2026, 10, 1, 12, 0, second, 0, time.UTC)
	return e
}

// tail reads events as a command that follows them does.
type tail struct {
	*journal.Reader
	bad int
}

// newTail returns a tail that wants all final events.
func newTail(dir string) *tail {
	return &tail{Reader: journal.NewReader(journal.ReaderConfig{Dir: dir})}
}

// next returns the events that were not read yet.
func (r *tail) next() (events []analytics.Event, err error) {
	for line, err := range r.Lines() {
		switch {
		case errors.Is(err, journal.ErrTorn), errors.Is(err, journal.ErrCorrupt):
			r.bad++
			continue
		case err != nil:
			return events, err
		}
		var e analytics.Event
		if err := json.Unmarshal(line.JSON, &e); err != nil {
			return events, err
		}
		if !e.Time.Equal(line.Time) {
			return events, fmt.Errorf("the time is %v, want %v", line.Time, e.Time)
		}
		events = append(events, e)
	}
	return events, nil
}

// last returns the newest n events.
func (r *tail) last(n int) ([]analytics.Event, error) {
	if err := r.SkipToLast(n); err != nil {
		return nil, err
	}
	return r.next()
}

func ids(events []analytics.Event) string {
	var out []string
	for _, e := range events {
		out = append(out, e.RequestID)
	}
	return strings.Join(out, " ")
}

func wantLast(t *testing.T, tail *tail, n int, want string) {
	t.Helper()
	if got, err := tail.last(n); err != nil || ids(got) != want {
		t.Errorf("last %d: got %q, %v, want %q", n, ids(got), err, want)
	}
}

func wantNext(t *testing.T, tail *tail, want string) {
	t.Helper()
	if got, err := tail.next(); err != nil || ids(got) != want {
		t.Errorf("next: got %q, %v, want %q", ids(got), err, want)
	}
}

func wantBad(t *testing.T, tail *tail, want int) {
	t.Helper()
	if got := tail.bad; got != want {
		t.Errorf("%d bad lines, want %d", got, want)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// lineOf returns the line of an event in a segment.
func lineOf(t testing.TB, e *analytics.Event) string {
	t.Helper()
	dir := t.TempDir()
	l, err := journal.Open(journal.Config{Dir: dir, Node: "ams-1"})
	if err != nil {
		t.Fatal(err)
	}
	l.Append(e)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "events", "*", "*.log"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	line, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

func TestReaderMergesNodes(t *testing.T) {
	dir := t.TempDir()
	one, two := open(t, journal.Config{Dir: dir}), open(t, journal.Config{Dir: dir, Node: "b/2"})
	tail := newTail(dir)
	one.Append(at("a", 1))
	one.Append(at("d", 4))
	one.Append(refusal("z")) // now, so the last of all
	two.Append(at("b", 2))
	two.Append(at("c", 3))
	wantLast(t, tail, 3, "c d z")
	wantNext(t, tail, "")
	two.Append(at("f", 6))
	one.Append(at("e", 5))
	wantNext(t, tail, "e f")
	three := open(t, journal.Config{Dir: dir, Node: "c"})
	three.Append(at("g", 7))
	wantNext(t, tail, "g")
	wantBad(t, tail, 0)
}

// Only wanted events are returned, and no begins.
func TestReaderFilters(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	tail := newTail(dir)
	tail.Reader = journal.NewReader(journal.ReaderConfig{Dir: dir, Want: func(b []byte) bool { return !bytes.Contains(b, []byte(`"request_id":"x"`)) }})
	l.Append(inference("a", analytics.PhaseBegin))
	l.Append(inference("b", analytics.PhaseBegin))
	l.Append(inference("x", analytics.PhaseEnd))
	l.Append(inference("a", analytics.PhaseEnd))
	wantLast(t, tail, 2, "a")
	l.Append(inference("x", analytics.PhaseEnd))
	l.Append(inference("b", analytics.PhaseEnd))
	wantNext(t, tail, "b")
	if _, err := newTail(filepath.Join(dir, "nowhere")).last(1); err == nil {
		t.Error("a directory that does not exist gives no error")
	}
}

// A line is returned once it is complete, in however many writes it comes. A corrupt line, and an incomplete one that no
// process will finish, are counted once.
func TestReaderOfTornLines(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "events", "x")
	if err := os.MkdirAll(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join(folder, "1.log"), filepath.Join(folder, "2.log")
	a, b, c := lineOf(t, at("a", 1)), lineOf(t, at("b", 2)), lineOf(t, at("c", 3))
	tail := newTail(dir)
	appendTo(t, first, a+b[:20])
	wantLast(t, tail, 9, "a")
	wantNext(t, tail, "")
	appendTo(t, first, b[20:len(b)-1])
	wantNext(t, tail, "")
	wantBad(t, tail, 0)
	appendTo(t, first, "\n"+"not a line\n"+c[:30])
	wantNext(t, tail, "b")
	wantBad(t, tail, 1)
	appendTo(t, second, c)
	wantNext(t, tail, "c")
	wantBad(t, tail, 2)
	wantNext(t, tail, "")
	wantBad(t, tail, 2)

	// A dropped segment is no event.
	remove(t, first)
	wantNext(t, tail, "")
	// A node that was set up anew starts with another segment 2, which is shorter, or with a lower number.
	remove(t, second)
	appendTo(t, second, "\n\n")
	wantNext(t, tail, "")
	remove(t, second)
	appendTo(t, first, lineOf(t, at("d", 4)))
	wantNext(t, tail, "d")
	wantBad(t, tail, 3)
}

// Last reads no more segments than necessary: a bad line in an old segment is not met. Carried begins, which are older
// than the events before them, do not matter.
func TestReaderReadsNoFurtherThanItMust(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir, SegmentBytes: 4000, MaxBytes: 1 << 20})
	long := inference("long", analytics.PhaseBegin)
	long.Time = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	l.Append(long)
	var want []string
	for i := range 60 {
		id := fmt.Sprintf("r%02d", i)
		l.Append(at(id, i))
		want = append(want, id)
	}
	all := files(t, dir, "*.log")
	if len(all) < 4 {
		t.Fatalf("%d segments, want several", len(all))
	}
	appendTo(t, filepath.Join(filepath.Dir(all[0]), "1.log"), "not a line\n")
	for n := range 30 { // also as many as the newest segment has, and one more
		tail := newTail(dir)
		wantLast(t, tail, n, strings.Join(want[60-n:], " "))
		wantNext(t, tail, "")
		wantBad(t, tail, 0)
	}
	tail := newTail(dir)
	wantLast(t, tail, 100, strings.Join(want, " "))
	wantNext(t, tail, "")
	wantBad(t, tail, 1)
}

// While small segments are written, each event is returned once and in order.
func TestReaderWhileItIsWritten(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir, SegmentBytes: 4000, MaxBytes: 1 << 24})
	tail := newTail(dir)
	wantLast(t, tail, 10, "")
	var want []string
	written := make(chan struct{})
	const requests = 1000
	go func() {
		defer close(written)
		l.Append(inference("long", analytics.PhaseBegin)) // carried into each segment
		for i := range requests {
			id := fmt.Sprint(i)
			l.Append(inference(id, analytics.PhaseBegin))
			l.Append(inference(id, analytics.PhaseEnd))
		}
	}()
	for i := range requests {
		want = append(want, fmt.Sprint(i))
	}
	var got []string
	for done := false; !done; {
		select {
		case <-written:
			done = true
		default:
		}
		events, err := tail.next()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Fields(ids(events))...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %d events, want %d, each once and in order", len(got), len(want))
	}
	wantBad(t, tail, 0)
}

// A directory that disappears has no events; when it is back, events that were returned are not returned again.
func TestReaderOfADirectoryThatWasAway(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	tail := newTail(dir)
	l.Append(at("a", 1))
	wantLast(t, tail, 9, "a")
	events := filepath.Join(dir, "events")
	if err := os.Rename(events, events+".away"); err != nil {
		t.Fatal(err)
	}
	l.Append(at("b", 2))
	wantNext(t, tail, "")
	if err := os.Rename(events+".away", events); err != nil {
		t.Fatal(err)
	}
	l.Append(at("c", 3))
	wantNext(t, tail, "b c")
}

// A line that is read while its writer stores it, and another behind it, is no corrupt line.
func TestReaderReadsALineAgainThatWasBeingStored(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	l.Append(at("1", 1))
	l.Append(at("2", 2))
	path := filepath.Join(dir, "events", "ams-1", "1.log")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	half := bytes.Clone(whole)
	clear(half[50:60])
	write := func(text []byte) {
		t.Helper()
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	write(half)
	stored := false
	r := journal.NewReader(journal.ReaderConfig{Dir: dir, Pace: func(int) error {
		if !stored {
			stored = true
			write(whole)
		}
		return nil
	}})
	read := 0
	for _, err := range r.Lines() {
		if err != nil {
			t.Fatal(err)
		}
		read++
	}
	if read != 2 {
		t.Errorf("read %d events, want 2", read)
	}
}
