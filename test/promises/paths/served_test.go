package paths_test

import (
	"strings"
	"testing"

	"colonnade/analytics"
	"colonnade/internal/simengine"
)

// Each path is served under a permit, by the engine that has it, with an answer that is the engine's own, and is billed by what the engine
// has counted.
func TestEachPathIsServed(t *testing.T) {
	t.Parallel()
	s := start(t, simengine.Config{ITL: -1})
	each(t, func(t *testing.T, c pathCase, stream bool) {
		id := idOf(c, stream)
		e := s.engines[c.engine]
		before := e.Stats()
		a := s.send(t, c, stream, id).Read()
		want := c.has
		if stream {
			want = c.end
		}
		if a.Status != 200 || a.Err != nil || !strings.Contains(a.Body, want) {
			t.Fatalf("%d, %v: %s", a.Status, a.Err, a.Body)
		}
		if stream && !strings.Contains(a.Body[strings.LastIndex(strings.TrimRight(a.Body, "\n"), "\n")+1:], want) {
			t.Errorf("the last line is not the stream's end: %s", a.Body)
		}
		s.rested(t, c)
		if after := e.Stats(); after.Served != before.Served+1 || after.Peak > 1 || after.Unknown != before.Unknown {
			t.Errorf("the engine's counts are %+v, before %+v", after, before)
		}
		if got := e.Received(); len(got) != 1 || got[0].Target != c.path {
			t.Errorf("the engine got %+v", got)
		}
		final := s.In(t).FinalEvent(analytics.KindInference, id)
		bill := c.bill
		if stream && c.streams != (pathCase{}).streams {
			bill = c.streams
		}
		if got := billOf(final); got != bill || final.Outcome != analytics.OutcomeCompleted || final.Partial {
			t.Errorf("bill %+v, outcome %s, partial %v; want %+v", got, final.Outcome, final.Partial, bill)
		}
		if request := s.In(t).FinalEvent(analytics.KindRequest, id); request.Outcome != analytics.OutcomeCompleted || request.Status != 200 {
			t.Errorf("the request event says %s, %d", request.Outcome, request.Status)
		}
	})
}
