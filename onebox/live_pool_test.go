package onebox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// endpoint is a document that puts an engine of ams into a pool, with what else is to stand there.
func (f *testFleet) endpoint(id string, engine int, pool, rest string) string {
	return fmt.Sprintf("---\nkey: endpoints/ams/%s\nurl: %s\npool: %s\n%s\n", id, f.Engines[engine].URL, pool, rest)
}

// A lowered limit takes nothing from those who run, and grants nothing until enough of them have ended.
func TestConcurrencyIsLowered(t *testing.T) {
	t.Parallel()
	f := startFleet(t, oneColo(quick(4)), "key: pools/demo\nqueue: {max_wait: 60s}")
	f.watchBeside(20)
	o := f.operator()
	engine := f.engine("ams")
	limit := func(n int) {
		t.Helper()
		o.put(f.endpoint("sim-1", 0, "demo", fmt.Sprintf("concurrency: %d", n)))
		f.soon(fmt.Sprintf("the limit of %d", n), func() bool { return f.pool("ams", "demo").Limit == n })
	}
	blockers := f.block(4)
	var waiting []*wire
	for n := range 6 {
		waiting = append(waiting, f.join(n+1))
	}
	limit(2)
	for left := 3; left >= 2; left-- {
		blockers[left].Close()
		testkit.WaitFor(t, "the engine to be rid of one", func() bool { return f.pool("ams", "demo").Held == left })
		time.Sleep(50 * time.Millisecond)
		if p := f.pool("ams", "demo"); p.Held != left || p.Queued != 6 || inHand(engine) != left {
			t.Fatalf("with a limit of 2 and %d held: %+v", left, p)
		}
	}
	engine.ResetPeak()
	blockers[1].Close()
	serveAll(t, nil, waiting[:3])
	if peak := engine.Stats().Peak; peak != 2 {
		t.Errorf("the engine had %d in hand, with a limit of 2", peak)
	}
	serveAll(t, nil, waiting[3:])
	// A raised limit is used at once, by those who wait.
	engine.SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: 1})
	blockers = append(blockers[:1], f.begin(chatBody(1, false)))
	testkit.WaitFor(t, "the second slot to be taken", func() bool { return inHand(engine) == 2 })
	waiting = []*wire{f.join(1), f.join(2)}
	limit(3)
	serveAll(t, nil, waiting)
	// With no slot at all there is nothing to wait for.
	limit(2)
	last := f.join(1)
	limit(0)
	if a := last.read(); a.Status != 503 || a.Header.Get("x-colonnade-reason") != "no_endpoint" {
		t.Errorf("one who waited for an engine that is taken out: %d %q", a.Status, a.Body)
	}
	if n := inHand(engine); n != 2 {
		t.Errorf("%d of 2 still run", n)
	}
	serveAll(t, blockers, nil)
}

// Whoever waits when the bounds of the queue are lowered goes on waiting, as long as it was promised; newcomers find the new
// bounds.
func TestQueueBoundsAreLowered(t *testing.T) {
	t.Parallel()
	const queue = "key: pools/demo\nqueue: "
	f := startFleet(t, oneColo(quick(1)), queue+"{limit: 4, max_wait: 60s}")
	f.watchBeside(20)
	o := f.operator()
	blockers := f.block(1)
	var waiting []*wire
	for n := range 4 {
		waiting = append(waiting, f.join(n+1))
	}
	for _, change := range []struct{ queue, field, want, reason string }{
		{"{limit: 2, max_wait: 60s}", "limit", "2", "queue_full"},
		{"{limit: 9, per_account: 3, max_wait: 60s}", "per_account", "3", "account_queue_full"},
		{"{limit: 9, bytes: 1KiB, max_wait: 60s}", "bytes", "1KiB", "queue_full"},
		{"{limit: 9, max_wait: 50ms}", "max_wait", "50ms", "queue_timeout"},
		{"{limit: 9, max_wait: 0s}", "max_wait", "0s", "busy"},
		{"{limit: 0}", "limit", "0", "queue_full"},
	} {
		o.put(queue + change.queue)
		f.soon(change.queue, func() bool {
			return fmt.Sprint(f.page(f.Colos[0].Admin).of("pools/demo", "queue", change.field)) == change.want
		})
		body := strings.Replace(chatBody(1, false), "hello", strings.Repeat("x", 1<<10), 1)
		var a answer
		f.soon(change.reason, func() bool { // the pools follow the table
			a = f.ask(body)
			return a.Header.Get("x-colonnade-reason") == change.reason
		})
		outOfCapacity.because(change.reason).expect(t, a)
		time.Sleep(100 * time.Millisecond) // longer than the new max_wait
		if n := f.pool("ams", "demo").Queued; n != 4 {
			t.Errorf("with %s %d of 4 are left in the queue", change.queue, n)
		}
	}
	serveAll(t, blockers, waiting)
}

// An endpoint's slots come from the strongest layer that speaks of them, whichever is changed.
func TestLayersAreChanged(t *testing.T) {
	t.Parallel()
	f := startFleet(t, oneColo(quick(16)), "")
	f.watchBeside(40)
	o := f.operator()
	o.put(f.endpoint("sim-1", 0, "demo", "") + "---\nkey: pools/demo\n")
	c := f.drive(3, mixed("demo-chat"))
	limit := func(documents string, n int, interval string) {
		t.Helper()
		o.put(documents)
		f.soon(fmt.Sprintf("%d slots", n), func() bool {
			return f.pool("ams", "demo").Limit == n && f.page(f.Colos[0].Admin).of("endpoints/ams/sim-1", "health", "interval") == interval
		})
	}
	own := func(rest string) string { return f.endpoint("sim-1", 0, "demo", rest) }
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
	o.remove("defaults", "pools/demo")
	f.soon("the built-in slots of vllm", func() bool { return f.pool("ams", "demo").Limit == 16 })
	c.check()
}

// Streams end in peace, whatever becomes of the document of their endpoint.
func TestEndpointsChangeUnderStreams(t *testing.T) {
	t.Parallel()
	f := startFleet(t, onebox.Config{Colos: []string{"ams"}, Engines: 3, Engine: slowly(4)},
		roomy+"\n---\nkey: models/other-chat\npool: other\nupstream_name: demo-chat")
	f.watchBeside(60)
	o := f.operator()
	o.remove("endpoints/ams/sim-2", "endpoints/ams/sim-3")
	o.put(f.endpoint("sim-3", 2, "other", "concurrency: 4"))
	f.soon("the pools", func() bool { return f.pool("ams", "demo").Limit == 4 && f.pool("ams", "other").Limit == 4 })
	c := f.drive(6, func(n int) string { return mixed([]string{"demo-chat", "other-chat"}[n/2%2])(n) })
	var streams []*wire
	for _, change := range []struct {
		documents string
		remove    []string
		settled   func() bool
	}{
		{ // to another URL
			documents: f.endpoint("sim-1", 1, "demo", "concurrency: 4"),
			settled:   func() bool { return f.state(f.Engines[1].URL) == "up" && f.state(f.Engines[0].URL) != "up" },
		},
		{ // two for one engine: the first counts
			documents: f.endpoint("sim-0", 1, "demo", "concurrency: 3"),
			settled:   func() bool { return f.pool("ams", "demo").Limit == 3 },
		},
		{ // to another pool
			documents: f.endpoint("sim-0", 1, "other", "concurrency: 4") + f.endpoint("sim-2", 0, "demo", "concurrency: 4"),
			settled:   func() bool { return f.pool("ams", "other").Limit == 8 && f.state(f.Engines[0].URL) == "up" },
		},
		{ // away
			remove:  []string{"endpoints/ams/sim-0", "endpoints/ams/sim-1"},
			settled: func() bool { return f.pool("ams", "other").Limit == 4 },
		},
		{ // to another engine and other names, as a document says
			documents: f.endpoint("sim-2", 0, "demo", "concurrency: 4\nengine: vllm\nnames: {demo-chat: demo-embed}\nusage: leave"),
			settled: func() bool {
				return f.page(f.Colos[0].Admin).of("endpoints/ams/sim-2", "engine") == "vllm"
			},
		},
	} {
		for range 3 {
			streams = append(streams, f.longStream("demo-chat"), f.longStream("other-chat"))
		}
		if change.documents != "" {
			o.put(change.documents)
		}
		if change.remove != nil {
			o.remove(change.remove...)
		}
		f.soon("the change", change.settled)
	}
	for _, w := range streams {
		w.endsWell()
	}
	c.check()
	for n, e := range f.Engines {
		if peak := e.Simulated.Stats().Peak; peak > 4 {
			t.Errorf("engine %d had %d in hand at once, with a limit of 4", n+1, peak)
		}
	}
}

// Who waits when a model is deleted was admitted under the table that it took, and is served; and so when the document of a
// pool goes.
func TestDocumentsGoWhileRequestsWait(t *testing.T) {
	f := startFleet(t, oneColo(quick(2)), "key: pools/demo\nqueue: {max_wait: 60s, limit: 6}")
	f.watch(20)
	o := f.operator()
	blockers := f.block(2)
	waiting := []*wire{f.join(1), f.join(2), f.join(3)}
	o.remove("models/demo-chat")
	f.soon("the model to be unknown", func() bool { return f.ask(chatBody(1, false), "x-colonnade-queue: never").Status == 404 })
	o.remove("pools/demo")
	f.soon("the pool to have the defaults", func() bool { return f.page(f.Colos[0].Admin).of("pools/demo", "queue", "limit") == 256. })
	if n := f.pool("ams", "demo").Queued; n != 3 {
		t.Errorf("%d of 3 still wait", n)
	}
	serveAll(t, blockers, waiting)
}

// A pool is renamed, with its endpoints and its model, in one transaction: whoever waits there goes on waiting in the new one,
// and nobody is refused.
func TestPoolIsRenamed(t *testing.T) {
	t.Parallel()
	const slots = 2
	f := startFleet(t, oneColo(simengine.Config{Slots: slots, TTFT: 2 * time.Millisecond, ITL: time.Millisecond}), roomy)
	f.watchBeside(60)
	o := f.operator()
	c := f.drive(8, mixed("demo-chat"))
	for n := range testkit.AtScale(20, 300) {
		pool := []string{"second", "demo"}[n%2]
		o.put("key: models/demo-chat\npool: " + pool + "\n" + f.endpoint("sim-1", 0, pool, fmt.Sprintf("concurrency: %d", slots)))
		testkit.WaitFor(t, "the pool to have its engine", func() bool {
			for _, p := range f.pools("ams") {
				if p.Pool == pool {
					return p.Limit == slots && p.Held > 0 && p.Queued > 0
				}
			}
			return false
		})
	}
	c.check()
	if peak := f.engine("ams").Stats().Peak; peak > slots {
		t.Errorf("the engine had %d in hand at once, with a limit of %d", peak, slots)
	}
}
