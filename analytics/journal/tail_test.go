package journal_test

import (
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

// at is a final event of a time.
func at(request string, second int) *analytics.Event {
	e := inference(request, analytics.PhaseEnd)
	e.Time = time.Date(2026, 10, 1, 12, 0, second, 0, time.UTC)
	return e
}

func ids(events []analytics.Event) string {
	var out []string
	for _, e := range events {
		id := e.RequestID
		if e.Phase == analytics.PhaseBegin {
			id = "(" + id
		}
		out = append(out, id)
	}
	return strings.Join(out, " ")
}

func wantTail(t *testing.T, next func() ([]analytics.Event, error), want string) {
	t.Helper()
	got, err := next()
	if err != nil || ids(got) != want {
		t.Errorf("got %q, %v, want %q", ids(got), err, want)
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

// lineOf returns an event as it stands in a segment.
func lineOf(t *testing.T, e *analytics.Event) string {
	t.Helper()
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	l.Append(e)
	closeLog(t, l)
	line, err := os.ReadFile(files(t, dir, "*.log")[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

func TestTailMergesNodes(t *testing.T) {
	dir := t.TempDir()
	one, two := open(t, journal.Config{Dir: dir}), open(t, journal.Config{Dir: dir, Node: "b/2"})
	tail := journal.NewTail(dir, nil)
	one.Append(at("a", 1))
	one.Append(at("d", 4))
	one.Append(refusal("z")) // now, so the last of all
	two.Append(at("b", 2))
	two.Append(at("c", 3))
	wantTail(t, func() ([]analytics.Event, error) { return tail.Last(3) }, "c d z")
	wantTail(t, tail.Next, "")
	two.Append(at("f", 6))
	one.Append(at("e", 5))
	one.Append(at("e", 5)) // an event that is there twice
	wantTail(t, tail.Next, "e f")
	three := open(t, journal.Config{Dir: dir, Node: "c"})
	three.Append(at("g", 7))
	wantTail(t, tail.Next, "g")
	if s := tail.Stats(); s != (journal.TailStats{}) {
		t.Errorf("%+v", s)
	}
}

func TestTailWants(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	tail := journal.NewTail(dir, func(e *analytics.Event) bool { return e.Phase == analytics.PhaseEnd })
	l.Append(inference("a", analytics.PhaseBegin))
	l.Append(inference("b", analytics.PhaseBegin))
	l.Append(inference("a", analytics.PhaseEnd))
	wantTail(t, func() ([]analytics.Event, error) { return tail.Last(2) }, "a")
	l.Append(inference("b", analytics.PhaseEnd))
	wantTail(t, tail.Next, "b")
	if _, err := journal.NewTail(filepath.Join(dir, "nowhere"), nil).Last(1); err == nil {
		t.Error("a directory that is not there has no error")
	}
}

// A line is given once it is whole, however it comes; one that nobody will finish is counted, and so is one that is bad.
func TestTailOfTornLines(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "events", "x")
	if err := os.MkdirAll(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join(folder, "1.log"), filepath.Join(folder, "2.log")
	a, b, c := lineOf(t, at("a", 1)), lineOf(t, at("b", 2)), lineOf(t, at("c", 3))
	tail := journal.NewTail(dir, nil)
	stats := func(want journal.TailStats) {
		t.Helper()
		if got := tail.Stats(); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
	}
	appendTo(t, first, a+b[:20])
	wantTail(t, func() ([]analytics.Event, error) { return tail.Last(9) }, "a")
	stats(journal.TailStats{Unfinished: 1})
	wantTail(t, tail.Next, "")
	appendTo(t, first, b[20:len(b)-1])
	wantTail(t, tail.Next, "")
	appendTo(t, first, "\n"+"not a line\n"+c[:30])
	wantTail(t, tail.Next, "b")
	stats(journal.TailStats{Bad: 1, Unfinished: 1})
	appendTo(t, second, c)
	wantTail(t, tail.Next, "c")
	stats(journal.TailStats{Bad: 2})
	wantTail(t, tail.Next, "")
	stats(journal.TailStats{Bad: 2})

	// Dropped segments are no loss once they were read.
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	wantTail(t, tail.Next, "")
	stats(journal.TailStats{Bad: 2})
	// Another file under a known name is read from its beginning.
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	appendTo(t, second, lineOf(t, at("d", 4)))
	wantTail(t, tail.Next, "d")
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	wantTail(t, tail.Next, "")
	stats(journal.TailStats{Bad: 2, Missed: 1})
}

// The newest are found without reading everything: bad lines in old segments are not met. A begin that was carried into the
// newest segment is older than what stands in the one before.
func TestTailReadsNoFurtherThanItMust(t *testing.T) {
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
	for n := range 30 { // as many as are in the newest segment, too, and one more
		tail := journal.NewTail(dir, nil)
		wantTail(t, func() ([]analytics.Event, error) { return tail.Last(n) }, strings.Join(want[60-n:], " "))
		wantTail(t, tail.Next, "")
		if tail.Stats().Bad != 0 {
			t.Errorf("for the last %d of 60, the first segment was read", n)
		}
	}
	tail := journal.NewTail(dir, nil)
	wantTail(t, func() ([]analytics.Event, error) { return tail.Last(100) }, "(long "+strings.Join(want, " "))
	wantTail(t, tail.Next, "")
	if tail.Stats().Bad != 1 {
		t.Errorf("%d bad lines were counted, want 1", tail.Stats().Bad)
	}
}

// While it is written, in small segments, each event is given once and in order.
func TestTailWhileItIsWritten(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir, SegmentBytes: 4000, MaxBytes: 1 << 24})
	tail := journal.NewTail(dir, nil)
	wantTail(t, func() ([]analytics.Event, error) { return tail.Last(10) }, "")
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
	want = append(want, "(long")
	for i := range requests {
		want = append(want, fmt.Sprintf("(%d", i), fmt.Sprint(i))
	}
	var got []string
	for done := false; !done; {
		select {
		case <-written:
			done = true
		default:
		}
		events, err := tail.Next()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Fields(ids(events))...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %d events, want %d, each once and in order", len(got), len(want))
	}
	if s := tail.Stats(); s != (journal.TailStats{}) {
		t.Errorf("%+v", s)
	}
}

// A directory that has gone is an error; when it is back, what was read is not given again.
func TestTailOfADirectoryThatWasAway(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	tail := journal.NewTail(dir, nil)
	l.Append(at("a", 1))
	wantTail(t, func() ([]analytics.Event, error) { return tail.Last(9) }, "a")
	events := filepath.Join(dir, "events")
	if err := os.Rename(events, events+".away"); err != nil {
		t.Fatal(err)
	}
	l.Append(at("b", 2))
	if _, err := tail.Next(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that it is not there", err)
	}
	if err := os.Rename(events+".away", events); err != nil {
		t.Fatal(err)
	}
	l.Append(at("c", 3))
	wantTail(t, tail.Next, "b c")
}
