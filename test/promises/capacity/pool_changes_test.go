package capacity_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// A lowered limit ends no running request, and grants nothing until enough of them have ended.
func TestConcurrencyLowered(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(4)), "key: pools/demo\nqueue: {max_wait: 60s}")
	f.WatchShared(20)
	o := f.Operator()
	engine := f.Engine("ams")
	limit := func(n int) {
		t.Helper()
		o.Put(f.EndpointDocument("sim-1", 0, "demo", fmt.Sprintf("concurrency: %d", n)))
		f.ExpectSoon(fmt.Sprintf("the limit of %d", n), func() bool { return f.Pool("ams", "demo").Limit == n })
	}
	blockers := f.BlockSlots(4)
	var waiting []*wiretest.Conn
	for n := range 6 {
		waiting = append(waiting, f.Enqueue(n+1))
	}
	limit(2)
	for left := 3; left >= 2; left-- {
		blockers[left].Close()
		testkit.WaitFor(t, "one request to have ended", func() bool { return f.Pool("ams", "demo").Held == left })
		time.Sleep(50 * time.Millisecond)
		if p := f.Pool("ams", "demo"); p.Held != left || p.Queued != 6 || fleettest.InFlight(engine) != left {
			t.Fatalf("with a limit of 2 and %d held: %+v", left, p)
		}
	}
	engine.ResetPeak()
	blockers[1].Close()
	fleettest.ServeAll(t, nil, waiting[:3])
	if peak := engine.Stats().Peak; peak != 2 {
		t.Errorf("the engine had %d in flight, with a limit of 2", peak)
	}
	fleettest.ServeAll(t, nil, waiting[3:])
	// Waiting requests use a raised limit at once.
	engine.SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: 1})
	blockers = append(blockers[:1], f.BeginChat(fleettest.ChatBody(1, false)))
	testkit.WaitFor(t, "the second slot to be taken", func() bool { return fleettest.InFlight(engine) == 2 })
	waiting = []*wiretest.Conn{f.Enqueue(1), f.Enqueue(2)}
	limit(3)
	fleettest.ServeAll(t, nil, waiting)
	// With a limit of 0 there is nothing to wait for.
	limit(2)
	last := f.Enqueue(1)
	limit(0)
	if a := last.Read(); a.Status != 503 || a.Header.Get("x-colonnade-reason") != "no_endpoint" {
		t.Errorf("a request that waited for an engine that was taken out: %d %q", a.Status, a.Body)
	}
	if n := fleettest.InFlight(engine); n != 2 {
		t.Errorf("%d of 2 still run", n)
	}
	fleettest.ServeAll(t, blockers, nil)
}

// Requests that wait when the bounds of the queue are lowered keep waiting for their old max_wait; new requests get the new
// bounds.
func TestQueueBoundsLowered(t *testing.T) {
	t.Parallel()
	const queue = "key: pools/demo\nqueue: "
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), queue+"{limit: 4, max_wait: 60s}")
	f.WatchShared(20)
	o := f.Operator()
	blockers := f.BlockSlots(1)
	var waiting []*wiretest.Conn
	for n := range 4 {
		waiting = append(waiting, f.Enqueue(n+1))
	}
	for _, change := range []struct{ queue, field, want, reason string }{
		{"{limit: 2, max_wait: 60s}", "limit", "2", "queue_full"},
		{"{limit: 9, per_account: 3, max_wait: 60s}", "per_account", "3", "account_queue_full"},
		{"{limit: 9, bytes: 1KiB, max_wait: 60s}", "bytes", "1KiB", "queue_full"},
		{"{limit: 9, max_wait: 50ms}", "max_wait", "50ms", "queue_timeout"},
		{"{limit: 9, max_wait: 0s}", "max_wait", "0s", "busy"},
		{"{limit: 0}", "limit", "0", "queue_full"},
	} {
		o.Put(queue + change.queue)
		f.ExpectSoon(change.queue, func() bool {
			return fmt.Sprint(f.FleetPage(f.Colos[0].Admin).Field("pools/demo", "queue", change.field)) == change.want
		})
		body := strings.Replace(fleettest.ChatBody(1, false), "hello", strings.Repeat("x", 1<<10), 1)
		var a wiretest.Response
		f.ExpectSoon(change.reason, func() bool { // the pools follow the table
			a = f.RawChat(body)
			return a.Header.Get("x-colonnade-reason") == change.reason
		})
		fleettest.OutOfCapacity.WithReason(change.reason).Expect(t, a)
		time.Sleep(100 * time.Millisecond) // longer than the new max_wait
		if n := f.Pool("ams", "demo").Queued; n != 4 {
			t.Errorf("with %s %d of 4 are left in the queue", change.queue, n)
		}
	}
	fleettest.ServeAll(t, blockers, waiting)
}

// An endpoint's slots come from the strongest layer that sets them, whichever layer changes.
func TestConcurrencyLayers(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(16)), "")
	f.WatchShared(40)
	o := f.Operator()
	o.Put(f.EndpointDocument("sim-1", 0, "demo", "") + "---\nkey: pools/demo\n")
	c := f.Drive(3, fleettest.AlternatingBodies("demo-chat"))
	limit := func(documents string, n int, interval string) {
		t.Helper()
		o.Put(documents)
		f.ExpectSoon(fmt.Sprintf("%d slots", n), func() bool {
			return f.Pool("ams", "demo").Limit == n && f.FleetPage(f.Colos[0].Admin).Field("endpoints/ams/sim-1", "health", "interval") == interval
		})
	}
	own := func(rest string) string { return f.EndpointDocument("sim-1", 0, "demo", rest) }
	limit("key: defaults\nendpoint: {health: {interval: 7s}}", 8, "7s") // built in for the engine
	limit("key: defaults\nendpoint: {concurrency: 9}", 9, "5s")
	limit("key: defaults\nendpoint: {concurrency: 9, health: {interval: 7s}}\nengines: {openai: {concurrency: 10}}", 10, "7s")
	limit("key: defaults\nendpoint: {health: {interval: 7s}}\nengines: {openai: {concurrency: 10, health: {interval: 8s}}, vllm: {concurrency: 15}}", 10, "8s")
	limit("key: defaults\nengines: {openai: {concurrency: 10}}\npool: {permits: {per_endpoint: 11}}", 11, "5s")
	limit("key: pools/demo\npermits: {per_endpoint: 12}", 12, "5s")
	limit(own("concurrency: 13"), 13, "5s")
	limit(own("engine: vllm\nconcurrency: 13\nhealth: {interval: 9s}"), 13, "9s")
	limit(own("engine: vllm"), 12, "5s")
	limit("key: pools/demo\n", 11, "5s")
	limit("key: defaults\nengines: {vllm: {concurrency: 14}}", 14, "5s")
	o.Remove("defaults", "pools/demo")
	f.ExpectSoon("the built-in slots of vllm", func() bool { return f.Pool("ams", "demo").Limit == 16 })
	c.Check()
}

// Streams are complete, also if the document of their endpoint changes or goes.
func TestEndpointChangesUnderStreams(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engines: 3, Engine: fleettest.SlowEngine(4)},
		fleettest.LongQueue+"\n---\nkey: models/other-chat\npool: other\nupstream_name: demo-chat")
	f.WatchShared(60)
	o := f.Operator()
	o.Remove("endpoints/ams/sim-2", "endpoints/ams/sim-3")
	o.Put(f.EndpointDocument("sim-3", 2, "other", "concurrency: 4"))
	f.ExpectSoon("the pools", func() bool { return f.Pool("ams", "demo").Limit == 4 && f.Pool("ams", "other").Limit == 4 })
	c := f.Drive(6, func(n int) string { return fleettest.AlternatingBodies([]string{"demo-chat", "other-chat"}[n/2%2])(n) })
	var streams []*wiretest.Conn
	for _, change := range []struct {
		documents string
		remove    []string
		settled   func() bool
	}{
		{ // to another URL
			documents: f.EndpointDocument("sim-1", 1, "demo", "concurrency: 4"),
			settled: func() bool {
				return f.EndpointState(f.Engines[1].URL) == "up" && f.EndpointState(f.Engines[0].URL) != "up"
			},
		},
		{ // two for one engine: the one in force counts
			documents: f.EndpointDocument("sim-0", 1, "demo", "concurrency: 3"),
			settled: func() bool {
				return len(f.FleetPage(f.Colos[0].Admin).Conflicts) == 1 && f.Pool("ams", "demo").Limit == 4
			},
		},
		{ // and then the other one
			remove:  []string{"endpoints/ams/sim-1"},
			settled: func() bool { return f.Pool("ams", "demo").Limit == 3 },
		},
		{ // to another pool
			documents: f.EndpointDocument("sim-0", 1, "other", "concurrency: 4") + f.EndpointDocument("sim-2", 0, "demo", "concurrency: 4"),
			settled:   func() bool { return f.Pool("ams", "other").Limit == 8 && f.EndpointState(f.Engines[0].URL) == "up" },
		},
		{ // away
			remove:  []string{"endpoints/ams/sim-0"},
			settled: func() bool { return f.Pool("ams", "other").Limit == 4 },
		},
		{ // to another engine and other names, as a document says
			documents: f.EndpointDocument("sim-2", 0, "demo", "concurrency: 4\nengine: vllm\nnames: {demo-chat: demo-embed}\nusage: leave"),
			settled: func() bool {
				return f.FleetPage(f.Colos[0].Admin).Field("endpoints/ams/sim-2", "engine") == "vllm"
			},
		},
	} {
		for range 3 {
			streams = append(streams, f.LongStream("demo-chat"), f.LongStream("other-chat"))
		}
		if change.documents != "" {
			o.Put(change.documents)
		}
		if change.remove != nil {
			o.Remove(change.remove...)
		}
		f.ExpectSoon("the change", change.settled)
	}
	for _, w := range streams {
		w.ExpectProperEnd()
	}
	c.Check()
	for n, e := range f.Engines {
		if peak := e.Simulated.Stats().Peak; peak > 4 {
			t.Errorf("engine %d had %d in flight at once, with a limit of 4", n+1, peak)
		}
	}
}

// Requests that wait when their model or the document of their pool is deleted are served, under the table that they took on
// arrival.
func TestDocumentsDeletedWhileRequestsWait(t *testing.T) {
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(2)), "key: pools/demo\nqueue: {max_wait: 60s, limit: 6}")
	f.Watch(20)
	o := f.Operator()
	blockers := f.BlockSlots(2)
	waiting := []*wiretest.Conn{f.Enqueue(1), f.Enqueue(2), f.Enqueue(3)}
	o.Remove("models/demo-chat")
	f.ExpectSoon("the model to be unknown", func() bool { return f.RawChat(fleettest.ChatBody(1, false), "x-colonnade-queue: never").Status == 404 })
	o.Remove("pools/demo")
	f.ExpectSoon("the pool to have the defaults", func() bool { return f.FleetPage(f.Colos[0].Admin).Field("pools/demo", "queue", "limit") == 256. })
	if n := f.Pool("ams", "demo").Queued; n != 3 {
		t.Errorf("%d of 3 still wait", n)
	}
	fleettest.ServeAll(t, blockers, waiting)
}

// When one transaction renames a pool, with its endpoints and its model, waiting requests go on waiting in the new pool, and none
// is refused.
func TestPoolRenamed(t *testing.T) {
	t.Parallel()
	const slots = 2
	f := fleettest.Start(t, fleettest.OneColo(simengine.Config{Slots: slots, TTFT: 2 * time.Millisecond, ITL: time.Millisecond}), fleettest.LongQueue)
	f.WatchShared(60)
	o := f.Operator()
	c := f.Drive(8, fleettest.AlternatingBodies("demo-chat"))
	for n := range testkit.AtScale(20, 300) {
		pool := []string{"second", "demo"}[n%2]
		o.Put("key: models/demo-chat\npool: " + pool + "\n" + f.EndpointDocument("sim-1", 0, pool, fmt.Sprintf("concurrency: %d", slots)))
		testkit.WaitFor(t, "the pool to have its engine", func() bool {
			for _, p := range f.Pools("ams") {
				if p.Pool == pool {
					return p.Limit == slots && p.Held > 0 && p.Queued > 0
				}
			}
			return false
		})
	}
	c.Check()
	if peak := f.Engine("ams").Stats().Peak; peak > slots {
		t.Errorf("the engine had %d in flight at once, with a limit of %d", peak, slots)
	}
}
