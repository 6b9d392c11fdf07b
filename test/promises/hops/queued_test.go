package hops_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

// shortQueues lets a request wait in any colo whose queue is empty, for longer than any test takes.
const shortQueues = "queue: {limit: 1, per_account: 100, max_wait: 10m, spill_wait: 9m}"

// startQueued runs a fleet whose first colo is full, so that requests wait in the second one. release frees the slot of the second.
func startQueued(t *testing.T) (f *farFleet, release func()) {
	t.Helper()
	f = startFar(t, fleettest.SteadyEngine(1), shortQueues, "")
	f.warm("fra")
	f.fill("ams")
	f.enqueue("ams", 1)
	return f, f.fill("fra")
}

// A client that leaves while its request waits in the second colo is forgotten by both at once.
func TestClientLeavesQueueOfSecondColo(t *testing.T) {
	t.Parallel()
	f, release := startQueued(t)
	for n, model := range append(both, both...) {
		id := "left-queue-" + strconv.Itoa(n)
		c := f.BeginChat(chat(model, 1, n%2 == 0), "x-request-id: "+id)
		testkit.WaitFor(t, "the request to wait in fra", func() bool { return f.Pool("fra", "demo").Queued == 1 })
		c.Leave(n / 2)
		testkit.Within(t, 250*time.Millisecond, "the request is gone from the queue", func() bool { return f.Pool("fra", "demo").Queued == 0 })
		want := []string{"request entry-1 client_gone"}
		if model == onward {
			want = append(want, "forward ams-1 client_gone")
		}
		f.expectEvents(id, want...)
	}
	for n, model := range both { // the queue is as before
		id := "stayed-" + strconv.Itoa(n)
		c := f.BeginChat(chat(model, 1, true), "x-request-id: "+id)
		testkit.WaitFor(t, "the request to wait in fra", func() bool { return f.Pool("fra", "demo").Queued == 1 })
		time.Sleep(5 * time.Millisecond) // a wait that counts
		release()
		a := c.Read()
		f.expectServed(a, "ams, fra")
		if a.Header.Get("x-colonnade-queued-ms") == "0" {
			t.Errorf("%s: it has waited for no time", model)
		}
		release = f.fill("fra")
	}
}

// A client's deadline holds in the second colo: while the request waits, and while its engine is silent. Queue events come from there.
func TestDeadlinesAndQueueEventsReachSecondColo(t *testing.T) {
	t.Parallel()
	f, release := startQueued(t)
	f.fill("iad")
	f.enqueue("iad", 1)
	deadline := fmt.Sprintf("x-colonnade-deadline-ms: %d", testkit.AtScale(6000, 2000)) // time to get to the second colo
	for _, model := range both {
		id := model + "-late-in-queue"
		a := f.RawChat(chat(model, 1, false), "x-request-id: "+id, deadline)
		if e := a.APIError(t); a.Status != 429 || e.Reason != "deadline" && e.Reason != "queue_full" { // as time is left to ask the last colo, or not
			t.Errorf("%s: waiting past its deadline: %d %+v", model, a.Status, e)
		}
		want := []string{"request entry-1 refused"}
		if model == onward {
			want = append(want, "forward ams-1 refused")
			if got, _ := f.events(id); slices.Contains(got, "forward fra-1 refused") { // time was left for the last colo
				want = append(want, "forward fra-1 refused")
			}
		}
		f.expectEvents(id, want...)

		c := f.BeginChat(chat(model, 1, true), strings.Join(fleettest.QueueEventsHeader, ": "))
		c.ReadUntil(": queue position=1", 1)
		testkit.WaitFor(t, "the request to wait in fra", func() bool { return f.Pool("fra", "demo").Queued == 1 })
		release()
		c.ReadUntil("data: [DONE]", 1)
		f.freeSoon("fra")

		f.Engine("fra").SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: 1})
		id = model + "-late-at-engine"
		a = f.RawChat(chat(model, 1, true), "x-request-id: "+id, deadline)
		if e := a.APIError(t); a.Status != 504 || e.Number != 50401 || a.Header.Get("x-should-retry") != "false" {
			t.Errorf("%s: at a silent engine: %d %+v", model, a.Status, e)
		}
		f.freeSoon("fra")
		want = []string{"request entry-1 timeout", "inference fra-1 timeout"}
		if model == onward {
			want = append(want, "forward ams-1 timeout")
		}
		f.expectEvents(id, want...)
		release = f.fill("fra")
	}
}
