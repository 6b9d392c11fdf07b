package paths_test

import (
	"testing"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

// A client that leaves ends its request in the engine, on each path, whether the engine is silent or generates, and the permit is free.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	s := start(t, simengine.Config{ITL: -1})
	each(t, func(t *testing.T, c pathCase, stream bool) {
		id, e := idOf(c, stream), s.engines[c.engine]
		fault := simengine.FaultStallHead
		if stream {
			fault = simengine.FaultStallStream
		}
		e.SetFault(simengine.Fault{Fault: fault, Count: 1})
		before := e.Stats()
		conn := s.send(t, c, stream, id)
		testkit.WaitFor(t, "the engine to have it", func() bool { return fleettest.InFlight(e) == 1 })
		if stream {
			conn.ReadUntil("takes", 1) // the last word before the engine falls silent
		}
		conn.Close()
		s.rested(t, c)
		if after := e.Stats(); after.Aborted != before.Aborted+1 || after.Requests != before.Requests+1 {
			t.Errorf("the engine's counts are %+v, before %+v", after, before)
		}
		for _, kind := range []analytics.Kind{analytics.KindRequest, analytics.KindInference} {
			if final := s.In(t).FinalEvent(kind, id); final.Outcome != analytics.OutcomeClientGone || !final.Partial {
				t.Errorf("the %s event says %s (partial: %v)", kind, final.Outcome, final.Partial)
			}
		}
	})
}
