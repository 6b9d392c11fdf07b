package onebox_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// oneColo leaves requests no other place to go.
func oneColo(engine simengine.Config) onebox.Config {
	return onebox.Config{Colos: []string{"ams"}, Engine: engine}
}

// roomy lets a whole crowd wait.
const roomy = "key: pools/demo\nqueue: {limit: 2000, per_account: 2000, max_wait: 60s}"

// Half of a crowd that waits is gone at once and never dispatched; the other half is served.
func TestClientsLeaveTheQueue(t *testing.T) {
	t.Parallel()
	const slots = 4
	crowd := testkit.AtScale(300, 1000)
	f := startFleet(t, oneColo(quick(slots)), roomy)
	f.watchBeside(crowd/2 + 2*slots)
	before := f.arrivals()

	f.fault(simengine.FaultStallHead, slots)
	var blockers, waiting []*wire
	for range slots {
		blockers = append(blockers, f.begin(chatBody(1, false)))
	}
	testkit.WaitFor(t, "all slots to be taken", func() bool { return inHand(f.engine("ams")) == slots })
	for n := range crowd {
		waiting = append(waiting, f.begin(chatBody(1, n%4 < 2)))
	}
	testkit.WaitFor(t, "the crowd to wait", func() bool { return f.pool("ams", "demo").Queued == crowd })

	for n, c := range waiting {
		if n%2 == 0 {
			c.goAway(n / 2)
		}
	}
	testkit.Within(t, 250*time.Millisecond, "half of the crowd is gone from the queue", func() bool { return f.pool("ams", "demo").Queued == crowd/2 })

	for n, c := range blockers {
		c.goAway(n)
	}
	for n, c := range waiting {
		if n%2 == 0 {
			continue
		}
		if a := c.read(); a.Status != 200 || a.Err != nil {
			t.Fatalf("one who stayed: %d %v %q", a.Status, a.Err, a.Body)
		}
	}
	if got, want := f.arrivals()-before, uint64(slots+crowd/2); got != want {
		t.Errorf("the engine was sent %d requests, want %d: those who left are never dispatched", got, want)
	}
}

// A client that leaves while its engine is silent frees the slot. It is nobody's failure, and no reason to try elsewhere.
func TestClientsLeaveASilentEngine(t *testing.T) {
	t.Parallel()
	const slots = 12 // on two engines, for of one the pool cannot do without: more each than the failures that eject it
	f := startFleet(t, onebox.Config{Engines: 2, Engine: quick(slots / 2)}, "")
	f.watchBeside(slots)
	before := f.arrivals()
	f.fault(simengine.FaultStallHead, 0)
	busy := func() int { return inHand(f.Engines[0].Simulated, f.Engines[1].Simulated) }
	var clients []*wire
	for n := range slots {
		clients = append(clients, f.begin(chatBody(5, n%4 < 2), fmt.Sprintf("x-request-id: silent-%d", n)))
	}
	testkit.WaitFor(t, "the first colo's engines to have them all", func() bool { return busy() == slots })

	for n, c := range clients {
		c.goAway(n)
	}
	testkit.Within(t, 500*time.Millisecond, "the engines are rid of all requests, and all permits are free", func() bool {
		return busy() == 0 && f.pool("ams", "demo").Held == 0
	})
	for n := range slots {
		id := fmt.Sprintf("silent-%d", n)
		f.expectGone(id)
		if e := f.end(analytics.KindInference, id); e.TokensEstimated != 0 || e.BytesOut != 0 {
			t.Errorf("%s: %d tokens and %d bytes, but the engine said nothing", id, e.TokensEstimated, e.BytesOut)
		}
	}
	if got := f.arrivals() - before; got != slots {
		t.Errorf("the engines were sent %d requests, want %d", got, slots)
	}
	for _, e := range f.pool("ams", "demo").Endpoints {
		if e.State != "up" {
			t.Errorf("clients that left made %s %s", e.ID, e.State)
		}
	}
}

// expectGone looks at both final events of a request whose client left.
func (f *testFleet) expectGone(clientID string) {
	f.t.Helper()
	for _, kind := range []analytics.Kind{analytics.KindRequest, analytics.KindInference} {
		if e := f.end(kind, clientID); e.Outcome != analytics.OutcomeClientGone || !e.Partial {
			f.t.Errorf("%s: the %s event says %s (partial: %v), want client_gone", clientID, kind, e.Outcome, e.Partial)
		}
	}
}

// A client that leaves in mid-stream, while the engine talks or after it fell silent, frees the slot, and pays for what it got.
func TestClientsLeaveInMidStream(t *testing.T) {
	t.Parallel()
	f := func(name, fault string, tokens int) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			f := startFleet(t, onebox.Config{Engine: simengine.Config{Slots: 2, TTFT: time.Millisecond, ITL: 20 * time.Millisecond}}, "")
			f.watchBeside(4)
			ams, before := f.engine("ams"), f.arrivals()
			if fault != "" {
				f.fault(fault, 0)
			}
			for n := range 2 {
				id := fmt.Sprintf("mid-stream-%d", n)
				c := f.begin(chatBody(1000, true), "x-request-id: "+id)
				c.readUntil(`"delta":{"content":`, tokens)
				c.goAway(n)
				testkit.Within(t, 500*time.Millisecond, "the engine is rid of the request, and the permit is free", func() bool {
					return inHand(ams) == 0 && f.pool("ams", "demo").Held == 0
				})
				f.expectGone(id)
				e := f.end(analytics.KindInference, id)
				if e.TokensEstimated < tokens || e.TokensEstimated > 500 || e.CompletionTokens != 0 || e.Status != 200 {
					t.Errorf("%d tokens estimated, %d counted, status %d; want at least %d estimated and 200", e.TokensEstimated, e.CompletionTokens, e.Status, tokens)
				}
			}
			if got := f.arrivals() - before; got != 2 {
				t.Errorf("the engines were sent %d requests, want 2: none is tried again", got)
			}
		})
	}
	f("engine talks", "", 5)
	f("engine is silent", simengine.FaultStallStream, 3)
}

// The same in the middle of an unstreamed answer: of one that the colo still holds back, and of one that is on its way.
func TestClientsLeaveInMidJSON(t *testing.T) {
	f := startFleet(t, onebox.Config{Engine: quick(2)}, "")
	f.watch(4)
	ams, before := f.engine("ams"), f.arrivals()
	leave := func(id string, c *wire, n int) {
		t.Helper()
		c.goAway(n)
		testkit.Within(t, 500*time.Millisecond, "the engine is rid of the request, and the permit is free", func() bool {
			return inHand(ams) == 0 && f.pool("ams", "demo").Held == 0
		})
		f.expectGone(id)
	}
	for n := range 2 {
		id := fmt.Sprintf("half-json-%d", n)
		f.fault(simengine.FaultStallStream, 1)
		c := f.begin(chatBody(5, false), "x-request-id: "+id)
		testkit.WaitFor(t, "half of the answer to be sent", func() bool { return ams.Stats().Bytes > 0 && inHand(ams) == 1 })
		leave(id, c, n)

		id = fmt.Sprintf("big-json-%d", n)
		f.fault(simengine.FaultBigAnswer, 1)
		c = f.begin(chatBody(5, false), "x-request-id: "+id)
		if _, err := io.CopyN(io.Discard, c.br, 1<<20); err != nil {
			t.Fatal(err)
		}
		leave(id, c, n)
		if e := f.end(analytics.KindInference, id); e.BytesOut < 1<<20 || e.BytesOut > 20<<20 {
			t.Errorf("%d bytes out, want those of the part that was sent", e.BytesOut)
		}
	}
	if got := f.arrivals() - before; got != 4 {
		t.Errorf("the engines were sent %d requests, want 4: none is tried again", got)
	}
}
