package refusals_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/onebox"
)

// When all colos are full, the clients of one account that do not wait for Retry-After cost them few requests: at most one in five of those
// refused. An account that asks now and then is refused by colos only, and is served as soon as there is a slot, also amid the flood.
func TestFloodCostsColosFewRequests(t *testing.T) {
	const clients, each = 16, 40
	floodKey, floodDocuments := fleettest.NewAccountKey(t, "flood", "weight: 1")
	quietKey, quietDocuments := fleettest.NewAccountKey(t, "quiet", "weight: 1")
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1)}, floodDocuments+quietDocuments+"key: pools/demo\nqueue: {limit: 0}")
	f.Watch(4 * clients)
	f.InjectFault(simengine.FaultStallStream, 0)
	release := f.HoldStreams(t, len(f.Colos))
	f.ClearFaults()

	var refused atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range each {
				if a := f.Chat(fleettest.ChatBody(1, false), "Authorization", "Bearer "+floodKey); a.Status == 429 && a.Header.Get("x-colonnade-reason") != "" && a.Header.Get("retry-after") != "" {
					refused.Add(1)
				} else {
					t.Errorf("in a flood: %d %s", a.Status, a.Body)
				}
			}
		})
	}
	for i := range 8 {
		if a := f.Chat(fleettest.ChatBody(1, false), "Authorization", "Bearer "+quietKey, "x-request-id", fmt.Sprint("the-quiet-", i)); a.Status != 429 {
			t.Errorf("the quiet account: %d %s", a.Status, a.Body)
		}
	}
	all.Wait()
	asked := refused.Load() - int64(f.Metric(f.Entry.Admin, `colonnade_refusals_by_entry_total{model="demo-chat"}`))
	if refused.Load() != clients*each || 5*asked > refused.Load() {
		t.Errorf("%d requests of the flood were refused, and %d of them asked colos", refused.Load(), asked)
	}
	for i := range 8 {
		if e := f.FinalEvent(analytics.KindRequest, fmt.Sprint("the-quiet-", i)); e.RefusedByEntry || len(e.ColoPath) < len(f.Colos) {
			t.Errorf("the event of the quiet account: %+v", e)
		}
	}
	release()
	for range 16 { // one request in eight goes to the colos
		if a := f.Chat(fleettest.ChatBody(1, false), "Authorization", "Bearer "+floodKey); a.Status == 200 {
			break
		}
	}
	for range 8 {
		if a := f.Chat(fleettest.ChatBody(1, false), "Authorization", "Bearer "+floodKey); a.Status != 200 || strings.Contains(a.Body, "error") {
			t.Errorf("after the flood: %d %s", a.Status, a.Body)
		}
	}
}

// Requests that wait in a queue and get no slot in time are no flood, however many are refused at once: each of them goes to the colos.
func TestRequestsThatWaitAreNoFlood(t *testing.T) {
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), "key: pools/demo\nqueue: {max_wait: 20ms}")
	f.Watch(32)
	f.InjectFault(simengine.FaultStallStream, 0)
	release := f.HoldStreams(t, 1)
	f.ClearFaults()
	for range 4 {
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 429 || a.Header.Get("x-colonnade-reason") != "queue_timeout" {
					t.Errorf("%d %s", a.Status, a.Body)
				}
			})
		}
		all.Wait()
	}
	if page := string(f.Page(f.Entry.Admin, "/metrics")); strings.Contains(page, "\ncolonnade_refusals_by_entry_total{") {
		t.Error("the entry has refused some by itself")
	}
	release()
}
