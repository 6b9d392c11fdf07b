package journal_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"colonnade/analytics"
	"colonnade/analytics/journal"
)

// crashedByKill returns how many requests the next run would end as crashed if the process were killed now.
func crashedByKill(t *testing.T, c journal.Config) uint64 {
	t.Helper()
	left := t.TempDir()
	if err := os.CopyFS(left, os.DirFS(c.Dir)); err != nil {
		t.Fatal(err)
	}
	c.Dir = left
	l := open(t, c)
	defer closeLog(t, l)
	return l.Stats().Crashed
}

// A storm of refusals, each with a begin, drops refusals only, also when billing segments fill the bound. A kill at any
// time would end the open requests as crashed, and no others.
func TestStormOfRefusals(t *testing.T) {
	t.Parallel()
	for name, billing := range map[string]int{"few billing events": 200, "billing events fill the bound": 3000} {
		t.Run(name, func(t *testing.T) { stormOfRefusals(t, billing) })
	}
}

func stormOfRefusals(t *testing.T, billing int) {
	dir := t.TempDir()
	c := journal.Config{Dir: dir, SegmentBytes: 8 << 10, MaxBytes: 256 << 10}
	l := open(t, c)
	const storm, inFlight = 20_000, 10
	for i := range inFlight {
		l.Append(request(fmt.Sprintf("open%d", i), analytics.PhaseBegin, ""))
	}
	for i := range billing {
		id := fmt.Sprintf("bill%d", i)
		l.Append(request(id, analytics.PhaseBegin, ""))
		l.Append(request(id, analytics.PhaseEnd, analytics.OutcomeCompleted))
	}
	before, kept := l.Stats(), outcomes(t, dir)[analytics.OutcomeCompleted]
	if fills := before.Dropped.Total() > 0; fills != (billing > 1000) || kept+int(before.Dropped.Total()) != billing {
		t.Fatalf("%d billing of %d are kept before the storm; %+v", kept, billing, before)
	}
	for i := range storm {
		id := fmt.Sprintf("no%d", i)
		l.Append(request(id, analytics.PhaseBegin, ""))
		l.Append(request(id, analytics.PhaseEnd, analytics.OutcomeRefused))
		if i%100 == 0 {
			if s := l.Stats(); s.Bytes > c.MaxBytes {
				t.Fatalf("%d bytes on disk, the bound is %d", s.Bytes, c.MaxBytes)
			}
		}
		if i%977 == 0 {
			if n := crashedByKill(t, c); n != inFlight {
				t.Fatalf("after %d refusals, a kill has %d requests ended as crashed, want %d", i+1, n, inFlight)
			}
		}
	}
	s := l.Stats()
	got := outcomes(t, dir)
	if got[analytics.OutcomeCompleted] != kept {
		t.Errorf("%d of %d billing are left", got[analytics.OutcomeCompleted], kept)
	}
	dropped := s.Dropped.Total() - before.Dropped.Total()
	if n := got[analytics.OutcomeRefused]; n == 0 || uint64(storm-n) != dropped || dropped != s.Dropped.Refusals {
		t.Errorf("%d refusals of %d are left; %+v", n, storm, s)
	}
	closeLog(t, l)
	if s := open(t, c).Stats(); s.Crashed != inFlight {
		t.Errorf("%d requests were ended as crashed, want %d", s.Crashed, inFlight)
	}
}

// At the disk bound, ends are dropped with their segments, and the next run does not take those requests for crashed.
func TestEndedIsNotCrashedAtTheBound(t *testing.T) {
	t.Parallel()
	c := journal.Config{Dir: t.TempDir(), SegmentBytes: 64 << 10, MaxBytes: 5 * 64 << 10}
	l := open(t, c)
	n := 0
	one := func(o analytics.Outcome) {
		n++
		e := request(fmt.Sprint(n), analytics.PhaseBegin, "")
		l.Append(e)
		e.Phase, e.Outcome, e.Status, e.Reason, e.Code = analytics.PhaseEnd, o, 429, "queue_full", "out_of_capacity"
		e.ColoPath = []string{"ams-1", "fra-1"} // an end is longer than a begin
		l.Append(e)
	}
	for range 3000 {
		one(analytics.OutcomeCompleted)
	}
	for range 40 {
		for range 37 {
			one(analytics.OutcomeRefused)
		}
		if crashed := crashedByKill(t, c); crashed != 0 {
			t.Fatalf("of %d requests, all of which have ended, a kill has %d ended as crashed", n, crashed)
		}
	}
	// The same with billing segments alone, whose ends are longer still.
	for range 40 {
		for range 37 {
			e := request(fmt.Sprint("long", n), analytics.PhaseBegin, "")
			l.Append(e)
			e.Phase, e.Outcome, e.ColoPath = analytics.PhaseEnd, analytics.OutcomeCompleted, []string{strings.Repeat("x", 8<<10)}
			l.Append(e)
			n++
		}
		if crashed := crashedByKill(t, c); crashed != 0 {
			t.Fatalf("of %d requests, all of which have ended, a kill has %d ended as crashed", n, crashed)
		}
	}
	if s := l.Stats(); s.Bytes > c.MaxBytes || s.Errors != 0 {
		t.Errorf("%+v", s)
	}
}
