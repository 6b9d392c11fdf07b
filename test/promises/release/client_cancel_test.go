package release_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// Of many requests that wait, the half whose clients leave is removed at once and never dispatched; the other half is served.
func TestClientsLeaveQueue(t *testing.T) {
	t.Parallel()
	const slots = 4
	queued := testkit.AtScale(300, 1000)
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(slots)), fleettest.LongQueue)
	f.WatchShared(queued/2 + 2*slots)
	before := f.EngineRequests()

	f.InjectFault(simengine.FaultStallHead, slots)
	var blockers, waiting []*wiretest.Conn
	for range slots {
		blockers = append(blockers, f.BeginChat(fleettest.ChatBody(1, false)))
	}
	testkit.WaitFor(t, "all slots to be taken", func() bool { return fleettest.InFlight(f.Engine("ams")) == slots })
	for n := range queued {
		waiting = append(waiting, f.BeginChat(fleettest.ChatBody(1, n%4 < 2)))
	}
	testkit.WaitFor(t, "all requests to wait", func() bool { return f.Pool("ams", "demo").Queued == queued })

	for n, c := range waiting {
		if n%2 == 0 {
			c.Leave(n / 2)
		}
	}
	testkit.Within(t, 250*time.Millisecond, "half of the requests are gone from the queue", func() bool { return f.Pool("ams", "demo").Queued == queued/2 })

	for n, c := range blockers {
		c.Leave(n)
	}
	for n, c := range waiting {
		if n%2 == 0 {
			continue
		}
		if a := c.Read(); a.Status != 200 || a.Err != nil {
			t.Fatalf("a client that stayed: %d %v %q", a.Status, a.Err, a.Body)
		}
	}
	if got, want := f.EngineRequests()-before, uint64(slots+queued/2); got != want {
		t.Errorf("the engine was sent %d requests, want %d: cancelled requests are never dispatched", got, want)
	}
}

// A client that leaves while its engine is silent frees the slot. It is no failure of the engine, and the request is not retried.
func TestClientsLeaveBeforeFirstByte(t *testing.T) {
	t.Parallel()
	const slots = 12 // on two engines, since the last one is never ejected, and more on each than the failures that eject it
	f := fleettest.Start(t, onebox.Config{Engines: 2, Engine: fleettest.QuickEngine(slots / 2)}, "")
	f.WatchShared(slots)
	before := f.EngineRequests()
	f.InjectFault(simengine.FaultStallHead, 0)
	busy := func() int { return fleettest.InFlight(f.Engines[0].Simulated, f.Engines[1].Simulated) }
	var clients []*wiretest.Conn
	for n := range slots {
		clients = append(clients, f.BeginChat(fleettest.ChatBody(5, n%4 < 2), fmt.Sprintf("x-request-id: silent-%d", n)))
	}
	testkit.WaitFor(t, "the first colo's engines to have them all", func() bool { return busy() == slots })

	for n, c := range clients {
		c.Leave(n)
	}
	testkit.Within(t, 500*time.Millisecond, "the engines are idle, and all permits are free", func() bool {
		return busy() == 0 && f.Pool("ams", "demo").Held == 0
	})
	for n := range slots {
		id := fmt.Sprintf("silent-%d", n)
		expectGone(f, id)
		if e := f.FinalEvent(analytics.KindInference, id); e.TokensEstimated != 0 || e.BytesOut != 0 {
			t.Errorf("%s: %d tokens and %d bytes, but the engine said nothing", id, e.TokensEstimated, e.BytesOut)
		}
	}
	if got := f.EngineRequests() - before; got != slots {
		t.Errorf("the engines were sent %d requests, want %d", got, slots)
	}
	for _, e := range f.Pool("ams", "demo").Endpoints {
		if e.State != "up" {
			t.Errorf("clients that left made %s %s", e.ID, e.State)
		}
	}
}

// expectGone checks both final events of a request whose client left.
func expectGone(f *fleettest.Fleet, clientID string) {
	f.T.Helper()
	for _, kind := range []analytics.Kind{analytics.KindRequest, analytics.KindInference} {
		if e := f.FinalEvent(kind, clientID); e.Outcome != analytics.OutcomeClientGone || !e.Partial {
			f.T.Errorf("%s: the %s event says %s (partial: %v), want client_gone", clientID, kind, e.Outcome, e.Partial)
		}
	}
}

// A client that leaves in mid-stream, while the engine generates or after it fell silent, frees the slot, and is billed for what
// was generated.
func TestClientsLeaveMidStream(t *testing.T) {
	t.Parallel()
	f := func(name, fault string, tokens int) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			f := fleettest.Start(t, onebox.Config{Engine: simengine.Config{Slots: 2, TTFT: time.Millisecond, ITL: 20 * time.Millisecond}}, "")
			f.WatchShared(4)
			ams, before := f.Engine("ams"), f.EngineRequests()
			if fault != "" {
				f.InjectFault(fault, 0)
			}
			for n := range 2 {
				id := fmt.Sprintf("mid-stream-%d", n)
				c := f.BeginChat(fleettest.ChatBody(1000, true), "x-request-id: "+id)
				c.ReadUntil(`"delta":{"content":`, tokens)
				c.Leave(n)
				testkit.Within(t, 500*time.Millisecond, "the engine is idle, and the permit is free", func() bool {
					return fleettest.InFlight(ams) == 0 && f.Pool("ams", "demo").Held == 0
				})
				expectGone(f, id)
				e := f.FinalEvent(analytics.KindInference, id)
				if e.TokensEstimated < tokens || e.TokensEstimated > 500 || e.CompletionTokens != 0 || e.Status != 200 {
					t.Errorf("%d tokens estimated, %d counted, status %d; want at least %d estimated and 200", e.TokensEstimated, e.CompletionTokens, e.Status, tokens)
				}
			}
			if got := f.EngineRequests() - before; got != 2 {
				t.Errorf("the engines were sent %d requests, want 2: none is retried", got)
			}
		})
	}
	f("engine generates", "", 5)
	f("engine is silent", simengine.FaultStallStream, 3)
}

// So does a client whose close does not arrive, since it has sent more bytes behind its request than are read.
func TestClientsLeaveBehindUnreadBytes(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, fleettest.OneColo(simengine.Config{Slots: 2, TTFT: time.Millisecond}), "")
	f.WatchShared(4)
	ams := f.Engine("ams")
	for fault, stream := range map[string]bool{simengine.FaultStallHead: false, simengine.FaultStallStream: true} {
		f.InjectFault(fault, 1)
		c := f.BeginChat(fleettest.ChatBody(5, stream), "x-request-id: behind-"+fault)
		if stream {
			c.ReadUntil(`"delta":{"content":`, 1)
		}
		testkit.WaitFor(t, "the engine to have it", func() bool { return fleettest.InFlight(ams) == 1 })
		var sent int
		for err := error(nil); err == nil && sent < 8<<20; {
			_ = c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			var n int
			n, err = c.Write(make([]byte, 256<<10))
			sent += n
		}
		c.Close()
		testkit.Within(t, 500*time.Millisecond, "the engine is idle, and the permit is free", func() bool {
			return fleettest.InFlight(ams) == 0 && f.Pool("ams", "demo").Held == 0
		})
		if expectGone(f, "behind-"+fault); sent <= 64<<10 {
			t.Errorf("%s: only %d bytes were sent", fault, sent)
		}
	}
}

// So does a client that leaves in the middle of a plain response, whether the colo still holds it back or relays it.
func TestClientsLeaveMidJSON(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(2)}, "")
	f.Watch(4)
	ams, before := f.Engine("ams"), f.EngineRequests()
	leave := func(id string, c *wiretest.Conn, n int) {
		t.Helper()
		c.Leave(n)
		testkit.Within(t, 500*time.Millisecond, "the engine is idle, and the permit is free", func() bool {
			return fleettest.InFlight(ams) == 0 && f.Pool("ams", "demo").Held == 0
		})
		expectGone(f, id)
	}
	for n := range 2 {
		id := fmt.Sprintf("half-json-%d", n)
		f.InjectFault(simengine.FaultStallStream, 1)
		c := f.BeginChat(fleettest.ChatBody(5, false), "x-request-id: "+id)
		testkit.WaitFor(t, "half of the answer to be sent", func() bool { return ams.Stats().Bytes > 0 && fleettest.InFlight(ams) == 1 })
		leave(id, c, n)

		id = fmt.Sprintf("big-json-%d", n)
		f.InjectFault(simengine.FaultBigAnswer, 1)
		c = f.BeginChat(fleettest.ChatBody(5, false), "x-request-id: "+id)
		if _, err := io.CopyN(io.Discard, c.R, 1<<20); err != nil {
			t.Fatal(err)
		}
		leave(id, c, n)
		if e := f.FinalEvent(analytics.KindInference, id); e.BytesOut < 1<<20 || e.BytesOut > 20<<20 {
			t.Errorf("%d bytes out, want those of the part that was sent", e.BytesOut)
		}
	}
	if got := f.EngineRequests() - before; got != 4 {
		t.Errorf("the engines were sent %d requests, want 4: none is retried", got)
	}
}
