package hops_test

import (
	"fmt"
	"testing"

	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
)

// The session that a client names has one endpoint in the next colo too, also if the request comes there from a full colo.
func TestSessionKeepsItsEngineInTheNextColo(t *testing.T) {
	t.Parallel()
	c := farConfig(fleettest.SteadyEngine(2))
	c.Engines = 4
	f := &farFleet{Fleet: fleettest.Start(t, c, farDocuments(noSpill+"\nbalance: {policy: consistent_hash}"))}
	f.WatchShared(48)
	f.served = f.Chat(chat(onward, 1, false)).Header.Get("x-request-id")
	release := f.fill("ams")
	defer release()
	f.awaitWay(onward)
	engine := func(session, model string) (id string) {
		a := f.Chat(chat(model, 1, false), hop.HeaderSessionAffinity, session)
		if by := a.Header.Get("x-colonnade-colo"); a.Status != 200 || by != "fra" {
			t.Fatalf("%s: %d by %q: %s", session, a.Status, by, a.Body)
		}
		for _, e := range f.Engines {
			for _, r := range e.Simulated.Received() {
				if r.Header.Get("x-request-id") == a.Header.Get("x-request-id") {
					id += e.ID
				}
			}
		}
		return id
	}
	used := map[string]bool{}
	for n := range 16 {
		session := fmt.Sprint("session-", n)
		first := engine(session, "only-fra")
		for _, model := range both {
			if got := engine(session, model); got != first {
				t.Errorf("%s of %s is at %s, and at %s without a full colo before", session, model, got, first)
			}
		}
		used[first] = true
	}
	if len(used) < 2 {
		t.Errorf("all sessions are at one engine: %v", used)
	}
}
