package capacity_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// While engines have random faults and half of all requests are cancelled, no engine is over its limit, nothing is left
// behind, and every request has one final event.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	const limit = 3
	period := 2500 * time.Millisecond
	if testkit.Soak() {
		period = time.Minute
	}
	f := fleettest.Start(t, onebox.Config{Engines: 2, Engine: simengine.Config{Slots: limit, TTFT: 2 * time.Millisecond, ITL: time.Millisecond}}, `
key: pools/demo
queue: {limit: 8, per_account: 8, max_wait: 500ms}
---
key: models/demo-chat
pool: demo
timeouts: {first_byte: 300ms, idle: 300ms, total: 2s}
`)
	f.WatchShared(100)
	faults := slices.DeleteFunc(simengine.Faults(), func(name string) bool {
		return name == simengine.FaultBigAnswer && !testkit.Soak() // slow under the race detector
	})
	c := startCancellingClients(f, 32, fleettest.ChatBody)
	for end := time.Now().Add(period); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		e := f.Engines[rand.IntN(len(f.Engines))].Simulated
		if rand.IntN(3) == 0 {
			e.ClearFaults()
		} else {
			e.SetFault(simengine.Fault{Fault: faults[rand.IntN(len(faults))], Count: 1 + rand.IntN(4)})
		}
	}
	c.stop()
	f.ClearFaults()
	c.check(t, true)
	for _, e := range f.Engines {
		if peak := e.Simulated.Stats().Peak; peak > limit {
			t.Errorf("engine %s/%s had %d in flight at once, its limit is %d", e.Colo, e.ID, peak, limit)
		}
	}
	testkit.WaitFor(t, "a request to be served again", func() bool { return f.RawChat(fleettest.ChatBody(1, false)).Status == 200 })
}
