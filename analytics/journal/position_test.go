package journal_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
)

// readerOf returns a reader of the events of ams-1.
func readerOf(dir string) *tail {
	return &tail{Reader: journal.NewReader(journal.ReaderConfig{Dir: dir, Node: "ams-1"})}
}

// mixed writes inferences, served and refused requests in turns, one a second, into small segments, and returns their ids.
func mixed(t *testing.T, dir string, n int) (want []string) {
	t.Helper()
	l := open(t, journal.Config{Dir: dir, SegmentBytes: 2000, MaxBytes: 1 << 20})
	for i := range n {
		id := fmt.Sprintf("r%03d", i)
		e := at(id, i)
		if i%3 > 0 {
			e.Kind = analytics.KindRequest
		}
		if i%3 == 2 {
			e.Outcome = analytics.OutcomeRefused
		}
		l.Append(e)
		want = append(want, id)
	}
	return want
}

// A reader that stops after any event, and one that continues at its position, have each event once, in order.
func TestReaderContinuesAtAPosition(t *testing.T) {
	dir := t.TempDir()
	want := mixed(t, dir, 60)
	for stop := range 61 {
		first := readerOf(dir)
		read := 0
		if stop > 0 {
			for range first.Lines() {
				if read++; read == stop {
					break
				}
			}
			if read != stop {
				t.Fatalf("%d lines, want %d", read, stop)
			}
		}
		second := readerOf(dir)
		if text := first.Position(); text != "" {
			if err := second.ContinueFrom(text); err != nil {
				t.Fatal(err)
			}
		}
		wantNext(t, second, strings.Join(want[stop:], " "))
	}
	f := func(text string) {
		t.Helper()
		if err := readerOf(dir).ContinueFrom(text); err == nil || !strings.Contains(err.Error(), "is no position") {
			t.Errorf("%q: got %v", text, err)
		}
	}
	f("")
	f("1.log")
	f("1.log@-1")
	f("other-1.log@0")
	f("../1.log@0")
	f("1.log@0,x")
}

// An incident of an engine is written with its own time, and may be much older than what stands around it.
func TestReaderOfIncidents(t *testing.T) {
	dir := t.TempDir()
	incident := func(id string, second int) *analytics.Event {
		return &analytics.Event{EventID: id, RequestID: id, Kind: analytics.KindEngine, Phase: analytics.PhaseEnd, Time: at("", second).Time}
	}
	first := open(t, journal.Config{Dir: dir, Node: "ams-1"})
	for second := 30; second < 35; second++ {
		first.Append(at(fmt.Sprint(second), second))
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(t, journal.Config{Dir: dir, Node: "ams-1"}) // a segment that begins with incidents
	for _, id := range []string{"a", "b", "c"} {
		second.Append(incident(id, 10))
	}
	second.Append(at("40", 40))
	r := &tail{Reader: journal.NewReader(journal.ReaderConfig{Dir: dir, Node: "ams-1", Since: at("", 32).Time})}
	if got, err := r.next(); err != nil || !strings.HasPrefix(ids(got), "30 31 32 33 34 ") {
		t.Errorf("since the middle of the first segment: %q, %v", ids(got), err)
	}
	wantLast(t, newTail(dir), 5, "31 32 33 34 a b c 40") // more than were asked for, but none is missing
	wantLast(t, newTail(dir), 7, "30 31 32 33 34 a b c 40")
}

// Segments that were written before or after the wanted times are not read.
func TestReaderSkipsSegmentsByTime(t *testing.T) {
	dir := t.TempDir()
	want := mixed(t, dir, 120)
	start := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	read := func(since, until int) (ids string, bytes int) {
		t.Helper()
		r := &tail{Reader: journal.NewReader(journal.ReaderConfig{
			Dir: dir, Node: "ams-1", Since: start.Add(time.Duration(since) * time.Second), Until: start.Add(time.Duration(until) * time.Second),
			Pace: func(n int) error { bytes += n; return nil },
		})}
		events, err := r.next()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			ids += e.RequestID + " "
		}
		return ids, bytes
	}
	_, all := read(0, 1000)
	f := func(since, until int) {
		t.Helper()
		ids, bytes := read(since, until)
		if wanted := strings.Join(want[since:until], " "); !strings.Contains(ids, wanted) {
			t.Errorf("%d to %d: got %s", since, until, ids)
		}
		if bytes > all/2 {
			t.Errorf("%d to %d: %d bytes were read, of %d in all", since, until, bytes, all)
		}
	}
	f(100, 120)
	f(0, 20)
	f(60, 61)
}

// A pace that fails ends the reading with its error.
func TestReaderIsPaced(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	l.Append(at("a", 1))
	closeLog(t, l)
	stop := errors.New("stop")
	r := &tail{Reader: journal.NewReader(journal.ReaderConfig{Dir: dir, Pace: func(int) error { return stop }})}
	if _, err := r.next(); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

// With begins, a request that has not ended is there too, as often as it was carried.
func TestReaderOfBegins(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	begin := at("a", 1)
	begin.Kind, begin.Phase = analytics.KindRequest, analytics.PhaseBegin
	l.Append(begin)
	l.Append(at("b", 2))
	wantNext(t, readerOf(dir), "b")
	wantNext(t, &tail{Reader: journal.NewReader(journal.ReaderConfig{Dir: dir, Begins: true})}, "a b")
}

func BenchmarkReader(b *testing.B) {
	dir := b.TempDir()
	l, err := journal.Open(journal.Config{Dir: dir, Node: "ams-1"})
	if err != nil {
		b.Fatal(err)
	}
	e := finalEvent()
	for range 100_000 {
		l.Append(e)
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(l.Stats().Bytes)
	for b.Loop() {
		n := 0
		for _, err := range journal.NewReader(journal.ReaderConfig{Dir: dir, Want: func([]byte) bool { n++; return n%100 == 0 }}).Lines() {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
