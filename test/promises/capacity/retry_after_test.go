package capacity_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// After a burst larger than two idle colos and their queues can take, at least four of five refused clients that come back
// after Retry-After are admitted.
func TestRetryAfterIsKept(t *testing.T) {
	t.Parallel()
	const clients = 240
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams", "fra"},
		Engine: simengine.Config{Slots: 4, TTFT: 200 * time.Millisecond}},
		"key: pools/demo\nqueue: {limit: 100, per_account: 20, max_wait: 3s}")
	f.WatchShared(clients)
	var refused, admitted atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 500 * time.Millisecond / clients)
			ask := func() wiretest.Response {
				a, err := f.Post(context.Background(), "/chat/completions", fleettest.ChatBody(1, false))
				if err != nil {
					t.Error(err)
				}
				return a
			}
			a := ask()
			if a.Status != 429 {
				return
			}
			refused.Add(1)
			ms, err := strconv.Atoi(a.Header.Get("retry-after-ms"))
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Duration(ms) * time.Millisecond)
			if a = ask(); a.Status == 200 {
				admitted.Add(1)
			}
		})
	}
	all.Wait()
	result := fmt.Sprintf("%d refused, %d of them admitted when they came back", refused.Load(), admitted.Load())
	t.Log(result)
	// The clients are of one account, and so many that the entry refuses most of them itself.
	if refused.Load() < clients/4 || 5*admitted.Load() < 4*refused.Load() {
		t.Errorf("%s, want four of five", result)
	}
}

// Two colos that refuse a client expect one retry together, not one each.
func TestRefusedByTwoColosIsOnePendingRetry(t *testing.T) {
	t.Parallel()
	c := onebox.Config{Colos: []string{"ams", "fra"}, Engine: fleettest.QuickEngine(1)}
	f := fleettest.Start(t, c, "key: pools/demo\nqueue: {limit: 0}")
	f.WatchShared(8)
	engines := []*simengine.Engine{f.Engine("ams"), f.Engine("fra")}
	var blockers []*wiretest.Conn
	for _, e := range engines {
		e.SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: 1})
	}
	for range engines {
		blockers = append(blockers, f.BeginChat(fleettest.ChatBody(1, false)))
	}
	testkit.WaitFor(t, "both slots to be taken", func() bool { return fleettest.InFlight(engines...) == 2 })
	const clients = 16
	for range clients {
		fleettest.OutOfCapacity.WithReason("queue_full").Expect(t, f.RawChat(fleettest.ChatBody(1, false)))
	}
	ams, fra := f.Pool("ams", "demo").PendingRetries, f.Pool("fra", "demo").PendingRetries
	if ams == 0 || fra == 0 || ams+fra > clients+2 { // of each, parts count as one
		t.Errorf("%d clients will come back; ams expects %d of them and fra %d", clients, ams, fra)
	}
	for _, c := range blockers {
		c.Close()
	}
}
