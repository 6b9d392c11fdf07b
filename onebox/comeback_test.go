package onebox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/admission"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// Of a burst that is more than two colos and their queues can take, which nobody has asked before, those who come back
// when they were told are admitted by one of them.
func TestWhoObeysIsAdmittedByOneOfTwoColos(t *testing.T) {
	t.Parallel()
	const clients = 240
	f := startFleet(t, onebox.Config{Colos: []string{"ams", "fra"},
		Engine: simengine.Config{Slots: 8, TTFT: 200 * time.Millisecond}},
		"key: pools/demo\nqueue: {limit: 100, per_account: 20, max_wait: 3s}")
	f.watchBeside(clients)
	var refused, admitted atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 500 * time.Millisecond / clients)
			ask := func() answer {
				a, err := f.post(context.Background(), "/chat/completions", chatBody(1, false))
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
	if refused.Load() < clients/4 || 5*admitted.Load() < 4*refused.Load() {
		t.Errorf("%s, want four of five", result)
	}
}

// A client that two colos refuse comes back once, and so they reckon with it together as one.
func TestComebackIsCountedOnce(t *testing.T) {
	t.Parallel()
	c := onebox.Config{Colos: []string{"ams", "fra"}, Engine: quick(1)}
	f := startFleet(t, c, "key: pools/demo\nqueue: {limit: 0}")
	f.watchBeside(8)
	engines := []*simengine.Engine{f.engine("ams"), f.engine("fra")}
	var blockers []*wire
	for _, e := range engines {
		e.SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: 1})
	}
	for range engines {
		blockers = append(blockers, f.begin(chatBody(1, false)))
	}
	testkit.WaitFor(t, "both slots to be taken", func() bool { return inHand(engines...) == 2 })
	const clients = 16
	for range clients {
		outOfCapacity.because("queue_full").expect(t, f.ask(chatBody(1, false)))
	}
	ams, fra := f.told("ams"), f.told("fra")
	if ams == 0 || fra == 0 || ams+fra > clients+2 { // of each, parts count as one
		t.Errorf("%d are told to come back, ams reckons with %d of them and fra with %d", clients, ams, fra)
	}
	for _, c := range blockers {
		c.Close()
	}
}

// told is how many were told to come back, as the page of a colo with one pool has it.
func (f *testFleet) told(colo string) int {
	f.t.Helper()
	i := slices.IndexFunc(f.Colos, func(n onebox.ColoNode) bool { return n.Colo == colo })
	r, err := f.client.Get("http://" + f.Colos[i].Admin + "/debug/pools")
	if err != nil {
		f.t.Fatal(err)
	}
	defer r.Body.Close()
	var pools []admission.Census
	if err := json.NewDecoder(r.Body).Decode(&pools); err != nil || len(pools) != 1 {
		f.t.Fatalf("%v: %+v", err, pools)
	}
	return pools[0].ToldToComeBack
}
