package journal_test

import (
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

// newTail returns a tail that wants all final events.
func newTail(dir string) *journal.Tail {
	return journal.NewTail(dir, func(*analytics.Event) bool { return true })
}

func ids(events []analytics.Event) string {
	var out []string
	for _, e := range events {
		out = append(out, e.RequestID)
	}
	return strings.Join(out, " ")
}

func wantLast(t *testing.T, tail *journal.Tail, n int, want string) {
	t.Helper()
	if got, err := tail.Last(n); err != nil || ids(got) != want {
		t.Errorf("last %d: got %q, %v, want %q", n, ids(got), err, want)
	}
}

func wantNext(t *testing.T, tail *journal.Tail, want string) {
	t.Helper()
	if got, err := tail.Next(); err != nil || ids(got) != want {
		t.Errorf("next: got %q, %v, want %q", ids(got), err, want)
	}
}

func wantBad(t *testing.T, tail *journal.Tail, want int) {
	t.Helper()
	if got := tail.Bad(); got != want {
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

func TestTailMergesNodes(t *testing.T) {
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
func TestTailFilters(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	tail := journal.NewTail(dir, func(e *analytics.Event) bool { return e.RequestID != "x" })
	l.Append(inference("a", analytics.PhaseBegin))
	l.Append(inference("b", analytics.PhaseBegin))
	l.Append(inference("x", analytics.PhaseEnd))
	l.Append(inference("a", analytics.PhaseEnd))
	wantLast(t, tail, 2, "a")
	l.Append(inference("x", analytics.PhaseEnd))
	l.Append(inference("b", analytics.PhaseEnd))
	wantNext(t, tail, "b")
	if _, err := newTail(filepath.Join(dir, "nowhere")).Last(1); err == nil {
		t.Error("a directory that does not exist gives no error")
	}
}

// A line is returned once it is complete, in however many writes it comes. A corrupt line, and an incomplete one that no
// process will finish, are counted once.
func TestTailOfTornLines(t *testing.T) {
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
func TestTailWhileItIsWritten(t *testing.T) {
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
		events, err := tail.Next()
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
func TestTailOfADirectoryThatWasAway(t *testing.T) {
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
