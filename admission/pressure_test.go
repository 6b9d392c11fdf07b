package admission

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// saying makes a batch say every five seconds how many requests it runs and has waiting.
func saying(g *gradient, slots int) *batch {
	b := newBatch(g, slots)
	b.scrape = 5
	return b
}

// changes returns how often the limit has turned from rising to falling by at least so much of it, from the nth completion on.
func (b *batch) changes(from int, by float64) (turns int) {
	peak, low, rising := b.limits[from], b.limits[from], true
	for _, l := range b.limits[from:] {
		peak, low = max(peak, l), min(low, l)
		switch {
		case rising && float64(l) < float64(peak)*(1-by):
			turns, rising, low = turns+1, false, l
		case !rising && float64(l) > float64(low)*(1+by):
			rising, peak = true, l
		}
	}
	return turns
}

// With what the engine says, the limit is as near to the knee as without, at no cost of throughput; and where answers say nothing, since
// they are not streamed, it falls to the knee all the same, and stays.
func TestPressureFindsTheKnee(t *testing.T) {
	for _, begin := range []int{4, 16, 64} {
		f := func(name string, want, within, goodput float64, change func(*batch)) {
			t.Helper()
			b := saying(newGradient(4, 64, begin), 24)
			change(b)
			b.advance(2400)
			t.Logf("%s, from %d:", name, begin)
			b.wantNear(t, want, within, goodput)
		}
		f("hard knee", 24, 0.1, 0.95, func(*batch) {})
		f("noise", 24, 0.1, 0.92, func(b *batch) { b.noise = 0.6 })
		f("mixed prompts", 24, 0.15, 0.92, func(b *batch) { b.prompt = mixed })
		f("a batch that slows down", 24, 0.1, 0.92, func(b *batch) { b.slope = 0.03 })
		f("no knee below the maximum", 64, 0.05, 0.92, func(b *batch) { b.slots = 256 })
		if begin > 24 {
			f("answers that are not streamed", 24, 0.1, 0.95, func(b *batch) { b.deaf = true })
		}
	}
}

// The limit does not swing between two values: in two hours it turns no more often than without what the engine says.
func TestPressureDoesNotOscillate(t *testing.T) {
	for _, slots := range []int{6, 24, 48} {
		alone, heard := newBatch(newGradient(4, 64, 16), slots), saying(newGradient(4, 64, 16), slots)
		alone.advance(7200)
		heard.advance(7200)
		before, after := alone.changes(alone.done/10, 0.15), heard.changes(heard.done/10, 0.15)
		mean, least, most := heard.settled(heard.done * 9 / 10)
		t.Logf("%d slots: %d turns alone, %d with what the engine says; limit %.1f, from %d to %d", slots, before, after, mean, least, most)
		if after > before+before/10+2 {
			t.Errorf("%d slots: the limit turned %d times, and without what the engine says %d times", slots, after, before)
		}
		if math.Abs(mean-float64(slots)) > 0.12*float64(slots)+0.5 {
			t.Errorf("%d slots: the limit is %.1f on average", slots, mean)
		}
	}
}

// Where an engine always has some requests that wait for its next step, though it has room, the limit rises as it does without: answers
// begin as soon as ever.
func TestPressureOverlooksTheNextStep(t *testing.T) {
	b := saying(newGradient(4, 64, 8), 256)
	b.output = func(r *rand.Rand) float64 { return 0.2 + 0.4*r.Float64() }
	b.prompt = func(*rand.Rand) (int, float64) { return 2000, 0.05 }
	b.stepping = 0.1
	b.advance(1200)
	b.wantNear(t, 64, 0.08, 0.9)
}

// An engine that other clients fill too says that requests wait whatever the limit is: it does not fall below its minimum, and rises again
// once they have gone.
func TestPressureKeepsTheMinimum(t *testing.T) {
	g := newGradient(4, 64, 16)
	now := instant(0)
	for range 100 {
		now = now.Add(5 * time.Second)
		g.report(now, engineLoad{running: 20, waiting: 50, known: true, held: g.slots()}, true)
		if g.slots() < 4 {
			t.Fatalf("the limit is %d", g.slots())
		}
	}
	if g.slots() != 4 {
		t.Errorf("the limit is %d, want the minimum", g.slots())
	}
	b := saying(g, 256)
	b.now, b.scraped, b.next = 600, 600, 600
	b.advance(1200).wantNear(t, 64, 0.1, 0.85)
}

// step reports n answers of an engine, five seconds apart.
func (g *gradient) step(at float64, n int, l engineLoad) {
	for i := range n {
		g.report(instant(at+5*float64(i)), l, true)
	}
}

// The limit falls with the second answer in a row that has requests waiting, to those that the engine has begun, by a quarter at most.
func TestPressureLowersTheLimit(t *testing.T) {
	f := func(name string, answers int, l engineLoad, want int) {
		t.Helper()
		g := newGradient(4, 64, 20)
		l.known = true
		g.step(0, answers, l)
		if g.slots() != want {
			t.Errorf("%s: the limit is %d, want %d", name, g.slots(), want)
		}
	}
	f("one answer", 1, engineLoad{running: 18, waiting: 2, held: 20}, 20)
	f("two answers", 2, engineLoad{running: 18, waiting: 2, held: 20}, 18)
	f("ours are half of what it has", 2, engineLoad{running: 36, waiting: 4, held: 20}, 18)
	f("most of them wait", 2, engineLoad{running: 1, waiting: 19, held: 20}, 15)
	f("the limit is not in force yet", 9, engineLoad{running: 18, waiting: 8, held: 26}, 20)
	f("the limit is not reached", 9, engineLoad{running: 8, waiting: 2, held: 10}, 20)
	f("one of twenty waits", 9, engineLoad{running: 19, waiting: 1, held: 20}, 20)
	f("nothing waits", 9, engineLoad{running: 20, held: 20}, 20)

	g := newGradient(4, 64, 20)
	g.step(0, 1, engineLoad{running: 18, waiting: 2, held: 20, known: true})
	g.report(instant(5), engineLoad{}, false)
	g.step(10, 1, engineLoad{running: 18, waiting: 2, held: 20, known: true})
	if g.slots() != 20 {
		t.Errorf("with a time between two answers in which nothing was known, the limit is %d", g.slots())
	}
}

// A limit that answers would raise stays where it is while requests wait inside or the KV cache is nearly full, and for some minutes under
// what was too much.
func TestPressureKeepsTheLimitFromRising(t *testing.T) {
	const limit = 20.0
	f := func(name string, want float64, change func(*gradient)) {
		t.Helper()
		g := newGradient(4, 64, int(limit))
		change(g)
		if got := g.mayGrow(instant(60), 30); got != want {
			t.Errorf("%s: may grow to %v, want %v", name, got, want)
		}
	}
	waits := engineLoad{running: 60, waiting: 1, held: 20, known: true}
	f("nothing said", 30, func(*gradient) {})
	f("one answer", 30, func(g *gradient) { g.step(50, 1, waits) })
	f("two answers", limit, func(g *gradient) { g.step(50, 2, waits) })
	f("nothing waits any more", 30, func(g *gradient) { g.step(40, 2, waits); g.step(50, 1, engineLoad{running: 9, known: true}) })
	f("full", limit, func(g *gradient) { g.step(50, 1, engineLoad{full: true}) })
	f("not known any more", 30, func(g *gradient) { g.step(50, 1, engineLoad{full: true}); g.report(instant(55), engineLoad{}, false) })
	f("after a step down", 15, func(g *gradient) {
		g.step(40, 2, engineLoad{running: 1, waiting: 19, held: 20, known: true})
		g.step(50, 2, engineLoad{running: 9, known: true})
	})
	f("long after", 30, func(g *gradient) {
		g.step(60-ceilingDuration.Seconds()-5, 2, engineLoad{running: 1, waiting: 19, held: 20, known: true})
		g.step(50, 1, engineLoad{known: true})
	})
	f("answers begin as soon as ever", 30, func(g *gradient) {
		g.pressure.excess, g.pressure.judged = 0.01, instant(45)
		g.step(50, 2, waits)
	})
	f("answers began as soon as ever, long ago", limit, func(g *gradient) {
		g.pressure.excess, g.pressure.judged = 0.01, instant(45).Add(-excessValid)
		g.step(50, 2, waits)
	})
	f("answers begin late", limit, func(g *gradient) {
		g.pressure.excess, g.pressure.judged = 1, instant(45)
		g.step(50, 2, waits)
	})
}

// A KV cache that is nearly full keeps the limit of an engine that has room otherwise.
func TestFullCacheKeepsTheLimit(t *testing.T) {
	b := newBatch(newGradient(4, 64, 16), 256)
	for range 600 {
		b.advance(2)
		b.g.report(instant(b.now), engineLoad{running: len(b.run), known: true, full: true, held: b.held}, true)
	}
	if _, _, most := b.settled(b.done); most > 16 {
		t.Errorf("the limit rose to %d", most)
	}
	for range 600 {
		b.advance(2)
		b.g.report(instant(b.now), engineLoad{running: len(b.run), known: true, held: b.held}, true)
	}
	if b.limit() < 50 {
		t.Errorf("with room again, the limit is %d", b.limit())
	}
}
