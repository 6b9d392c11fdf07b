package paths_test

import (
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

// A request that finds no slot, and does not want to wait, is refused with 429 and Retry-After, in the words of its own API. The engine does
// not hear of it.
func TestFullPool(t *testing.T) {
	t.Parallel()
	s := start(t, simengine.Config{ITL: -1})
	each(t, func(t *testing.T, c pathCase, stream bool) {
		e := s.engines[c.engine]
		e.SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: 1})
		held := s.send(t, c, stream, "holds-"+idOf(c, stream))
		testkit.WaitFor(t, "the slot to be taken", func() bool { return fleettest.InFlight(e) == 1 })
		before := e.Stats().Requests
		a := s.send(t, c, stream, idOf(c, stream), "x-colonnade-queue: never").Read()
		if a.Status != 429 || a.Header.Get("Retry-After") == "" || !strings.HasPrefix(a.Body, c.refusal.begins) {
			t.Errorf("%d %v, retry after %q: %s; want 429 and %s", a.Status, a.Err, a.Header.Get("Retry-After"), a.Body, c.refusal.begins)
		}
		if after := e.Stats().Requests; after != before {
			t.Errorf("the engine got %d requests, before %d", after, before)
		}
		held.Close()
		s.rested(t, c)
	})
}
