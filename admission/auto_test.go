package admission

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

const autoEndpoint = "key: endpoints/ams/one\nurl: http://one:8000\nengine: vllm\n"

// found runs a manager whose endpoint one, of pool a, finds its limit from 4 to 64, and begins with the 16 of its engine.
func found(t *testing.T) (*Manager, *documents) {
	t.Helper()
	docs := newDocuments(t)
	d := runManager(t, &probes{})
	d.Apply(docs.table(autoEndpoint + "pool: a\nconcurrency: auto\nauto: {min: 4, max: 64}\n"))
	if s := mustPool(t, d, "a").Stats().Endpoints[0]; s.Auto == nil || *s.Auto != (permits.AutoStats{Min: 4, Max: 64}) {
		t.Fatalf("to begin with: %+v, auto %+v", s, s.Auto)
	}
	if l := mustPool(t, d, "a").Load(); l.Limit != 16 {
		t.Fatalf("load %+v, want 16 slots to begin with", l)
	}
	return d, docs
}

// find sets what was found for endpoint one.
func find(d *Manager, limit int) {
	d.adapt("http://one:8000", func(now time.Time, g *gradient) { g.setLimit(now, float64(limit)) })
}

func limit(t *testing.T, d *Manager, pool string) int {
	t.Helper()
	return mustPool(t, d, pool).Load().Limit
}

// Many clients at an engine that has room for 20: the manager learns that from what it is told.
func TestManagerFindsALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := found(t)
		a := mustPool(t, d, "a")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
		defer cancel()
		var clients sync.WaitGroup
		for range 60 {
			clients.Go(func() {
				for {
					g, err := a.Acquire(ctx, permits.Request{Account: "acme", MaxWait: time.Minute, MaxExpected: -1})
					if err != nil {
						return
					}
					took := 200*time.Millisecond + time.Duration(max(g.Held()-20, 0))*200*time.Millisecond
					time.Sleep(took)
					a.ObserveFirstByte(g, FirstByte{Work: Work{Input: 3000}, After: took, Token: true})
					time.Sleep(5 * time.Second)
					g.Release()
				}
			})
		}
		sum, n := 0, 0
		for range 1200 {
			time.Sleep(time.Second)
			if err := d.Check(); err != nil {
				t.Fatal(err)
			}
			if s := a.Stats().Endpoints[0]; s.Concurrency < 4 || s.Concurrency > 64 || s.Auto == nil || s.Auto.Min != 4 || s.Auto.Max != 64 {
				t.Fatalf("state %+v", s)
			}
			sum, n = sum+limit(t, d, "a"), n+1
		}
		clients.Wait()
		if s := a.Stats().Endpoints[0]; s.Auto.Samples == 0 {
			t.Errorf("found without a sample: %+v", s.Auto)
		}
		if mean := float64(sum) / float64(n); mean < 17 || mean > 22 {
			t.Errorf("the limit was %.1f on average, want 20", mean)
		}
	})
}

// What was found belongs to the engine: documents may move it, fix its limit for a time, and change its bounds.
func TestFoundLimitOutlivesDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, docs := found(t)
		find(d, 30)
		f := func(document, pool string, want int) {
			t.Helper()
			d.Apply(docs.table(document))
			if n := limit(t, d, pool); n != want {
				t.Errorf("%q: %d slots, want %d", document, n, want)
			}
		}
		const auto = "concurrency: auto\nauto: {min: 4, max: 64}\n"
		f(autoEndpoint+"pool: a\nweight: 2\n"+auto, "a", 30)
		f(autoEndpoint+"pool: b\n"+auto, "b", 30)
		d.adapt("http://one:8000", func(now time.Time, g *gradient) {
			g.probe.phase, g.probe.below, g.probe.began = probeHold, 10, now
		})
		f(autoEndpoint+"pool: b\nconcurrency: 7\n", "b", 7)
		find(d, 9) // nobody asks
		f(autoEndpoint+"pool: b\n"+auto, "b", 30)
		f(autoEndpoint+"pool: b\nconcurrency: auto\nauto: {min: 2, max: 20}\n", "b", 20)
		f(autoEndpoint+"pool: b\nconcurrency: auto\nauto: {min: 40, max: 50}\n", "b", 40)
		f("---\nkey: defaults\nengines: {vllm: {concurrency: auto}}\n---\n"+autoEndpoint+"pool: b\n", "b", 40)
		docs.all.Delete("endpoints/ams/one", 2)
		f("key: endpoints/ams/renamed\nurl: http://one:8000\nengine: vllm\npool: a\n"+auto, "a", 40)
	})
}

// A limit that falls takes nothing from those who run, also across pools, and nobody is granted a slot above it.
func TestFoundLimitFallsBelowWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, docs := found(t)
		a := mustPool(t, d, "a")
		var running []Grant
		for range 16 {
			g := mustTake(t, a)
			running = append(running, g)
		}
		find(d, 6)
		for left := 16; left > 6; left-- {
			if _, err := take(a); err == nil || a.Load().Held != left {
				t.Fatalf("granted with %d held and a limit of 6: %v", a.Load().Held, err)
			}
			running[left-1].Release()
		}
		if err := d.Check(); err != nil {
			t.Error(err)
		}
		find(d, 5)
		d.Apply(docs.table(autoEndpoint + "pool: b\nconcurrency: auto\nauto: {min: 4, max: 64}\n"))
		find(d, 8)
		b := mustPool(t, d, "b")
		if l := b.Load(); l.Free != 2 {
			t.Errorf("%+v while 6 of 8 are held under the old pool", l)
		}
		g, err := take(b)
		if err != nil || g.Held() != 7 {
			t.Errorf("granted as the %dth, want the 7th: %v", g.Held(), err)
		}
		g.Release()
		for _, g := range running[:6] {
			g.Release()
		}
	})
}

func TestFullEngineLowersItsFoundLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, docs := found(t)
		a := mustPool(t, d, "a")
		var last Grant
		for range 11 {
			g := mustTake(t, a)
			defer g.Release()
			last = g
		}
		a.Full(last)
		time.Sleep(2 * fullMarkDuration)
		if n := limit(t, d, "a"); n != 9 {
			t.Errorf("an engine that was full with its eleventh request has %d slots, want 9", n)
		}
		// Of others the document decides.
		d.Apply(docs.table(endpoints("p", 5, "two")))
		p := mustPool(t, d, "p")
		g := mustTake(t, p)
		p.Full(g)
		if l := p.Load(); l.Free != 0 {
			t.Errorf("%+v of a pool whose engine is full", l)
		}
		time.Sleep(2 * fullMarkDuration)
		p.ObserveFirstByte(g, FirstByte{After: time.Hour, Token: true})
		if l := p.Load(); l.Limit != 5 || l.Free != 4 {
			t.Errorf("%+v, want 4 free of 5", l)
		}
		g.Release()
	})
}

// A look that nobody comes to is over after some minutes.
func TestManagerEndsAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := found(t)
		d.adapt("http://one:8000", func(now time.Time, g *gradient) {
			g.probe.phase, g.probe.below, g.probe.began = probeHold, 8, now
		})
		if n := limit(t, d, "a"); n != 8 {
			t.Fatalf("a look at half of 16 leaves %d slots", n)
		}
		time.Sleep(probeMaxDuration + time.Second)
		if n := limit(t, d, "a"); n != 16 {
			t.Errorf("after a look that came to nothing there are %d slots, want 16", n)
		}
	})
}

// BenchmarkGrant is what a grant costs whose endpoint's limit is in its document, and one whose limit is found.
func BenchmarkGrant(b *testing.B) {
	for _, c := range []struct{ name, concurrency string }{{"fixed", "16"}, {"auto", "auto\nauto: {min: 4, max: 64}"}} {
		b.Run(c.name, func(b *testing.B) {
			d := NewManager("ams", nil, nil)
			d.Apply(newDocuments(b).table(autoEndpoint + "pool: a\nconcurrency: " + c.concurrency + "\n"))
			a := mustPool(b, d, "a")
			b.ReportAllocs()
			for b.Loop() {
				g := mustTake(b, a)
				a.ObserveFirstByte(g, FirstByte{Work: Work{Input: 3000}, After: 100 * time.Millisecond, Token: true})
				g.Release()
			}
		})
	}
}
