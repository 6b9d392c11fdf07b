package admission

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"colonnade/internal/testkit"
)

// wantNear expects the mean limit over the last half of all completions to be within a share of want, and the engine to have
// given this share of the answers that it can give.
func (b *batch) wantNear(t *testing.T, want, within, goodput float64) {
	t.Helper()
	from := b.ends[len(b.ends)/2]
	mean, least, most := b.settled(b.done / 2)
	done := float64(b.done/2) / (b.now - from)
	t.Logf("limit %.1f, from %d to %d; %.2f answers a second", mean, least, most, done)
	if math.Abs(mean-want) > within*want {
		t.Errorf("the limit is %.1f on average, from %d to %d, want %v give or take %v", mean, least, most, want, within)
	}
	if can := b.capacity(); done < goodput*can {
		t.Errorf("%.2f answers a second of %.2f that the engine can give, want %v of them", done, can, goodput)
	}
}

// capacity returns how many answers the engine gives a second at its best number of requests.
func (b *batch) capacity() float64 {
	fixed := newBatch(nil, b.slots)
	fixed.knee, fixed.slope, fixed.prompt, fixed.output = b.knee, b.slope, b.prompt, b.output
	fixed.fixed = int(min(float64(b.slots), b.knee, 64))
	fixed.advance(1000)
	return float64(fixed.done) / fixed.now
}

// mixed returns prompts of 1 to 100 KB, of which the longest takes forty times as long as the shortest.
func mixed(r *rand.Rand) (int, float64) {
	kb := math.Exp(r.Float64() * math.Log(100))
	return int(1000 * kb), 0.03 + 0.012*kb
}

// cached returns prompts every second of which is in the engine's cache.
func cached(r *rand.Rand) (int, float64) { return 3000, []float64{0.05, 0.5}[r.IntN(2)] }

// From any initial limit and with any mix of requests, the limit converges to the knee while more requests come than the
// engine can take: within a tenth of a hard knee; where a batch only shares beyond the knee, no throughput is lost up to the
// tolerance, and the limit exceeds the knee by at most that and the step of a round.
func TestGradientFindsTheKnee(t *testing.T) {
	for _, begin := range []int{4, 16, 64} {
		f := func(name string, want, within, goodput float64, change func(*batch)) {
			t.Helper()
			b := newBatch(newGradient(4, 64, begin), 24)
			change(b)
			b.advance(2400)
			t.Logf("%s, from %d:", name, begin)
			b.wantNear(t, want, within, goodput)
		}
		f("hard knee", 24, 0.1, 0.95, func(*batch) {})
		f("noise", 24, 0.1, 0.92, func(b *batch) { b.noise = 0.6 })
		f("mixed prompts", 24, 0.15, 0.92, func(b *batch) { b.prompt = mixed })
		f("cached prompts", 24, 0.15, 0.88, func(b *batch) { b.prompt = cached })
		f("a batch that slows down", 24, 0.1, 0.92, func(b *batch) { b.slope = 0.03 })
		f("a batch that shares beyond the knee", 1.6*24, 0.2, 0.95, func(b *batch) { b.slots, b.knee = 256, 24 })
		f("no knee below the maximum", 64, 0.05, 0.92, func(b *batch) { b.slots = 256 })
	}
	b := newBatch(newGradient(4, 64, 16), 4)
	b.advance(2400).wantNear(t, 4.3, 0.2, 0.95)
	b = newBatch(newGradient(8, 64, 16), 2) // a knee below the minimum cannot be found
	b.advance(2400).wantNear(t, 10, 0.25, 0.95)
}

// Ten hours at the limit do not make the gradient take the engine's queue for normal.
func TestGradientDoesNotDrift(t *testing.T) {
	b := newBatch(newGradient(4, 64, 16), 24)
	b.advance(36000).wantNear(t, 24, 0.05, 0.97)
	low, high := 0, 0
	for _, l := range b.limits[len(b.limits)/10:] {
		if l > 28 {
			high++
		}
		if l < 20 {
			low++
		}
	}
	// Only probes, at half of the limit, are below.
	if high > 0 || low > len(b.limits)/20 {
		t.Errorf("of %d completions %d were under a limit above 28, and %d under one below 20", len(b.limits), high, low)
	}
}

// A limit that is not reached does not grow, however fast the engine is.
func TestGradientKeepsALimitThatIsNotReached(t *testing.T) {
	for _, clients := range []int{1, 5, 12, 15} {
		b := newBatch(newGradient(4, 64, 16), 256)
		b.clients = clients
		b.advance(3600)
		if _, least, most := b.settled(b.done); least != 16 || most != 16 {
			t.Errorf("with %d requests at a time the limit went from 16 to %d, %d", clients, least, most)
		}
	}
	b := newBatch(newGradient(4, 64, 16), 256)
	b.clients = 30
	b.advance(3600)
	if _, _, most := b.settled(b.done); most > 45 {
		t.Errorf("with 30 requests at a time the limit went to %d", most)
	}
}

// The limit follows an engine whose speed or room changes for good within minutes, also while more requests come than it can
// take.
func TestGradientFollowsTheEngine(t *testing.T) {
	b := newBatch(newGradient(4, 64, 16), 24)
	prompt, output := b.prompt, b.output
	speed := func(factor float64) {
		b.prompt = func(r *rand.Rand) (int, float64) { n, s := prompt(r); return n, s / factor }
		b.output = func(r *rand.Rand) float64 { return output(r) / factor }
	}
	f := func(name string, want, within float64, seconds float64) {
		t.Helper()
		before := b.done
		b.advance(seconds)
		mean, least, most := b.settled((b.done - before) / 2)
		t.Logf("%s: limit %.1f, from %d to %d", name, mean, least, most)
		if math.Abs(mean-want) > within*want {
			t.Errorf("%s: the limit is %.1f on average, from %d to %d, want %v", name, mean, least, most, want)
		}
	}
	f("as it began", 24, 0.1, 600)
	b.slots = 8
	f("a third of the room", 8, 0.25, 900)
	b.slots = 24
	f("all of it again", 24, 0.1, 900)
	speed(0.5)
	f("half as fast", 24, 0.1, 1800)
	speed(0.25)
	f("a quarter", 24, 0.1, 3600)
	speed(1)
	f("as fast as ever", 24, 0.15, 900)
	speed(3)
	f("thrice as fast", 24, 0.15, 900)
	speed(1)
	f("as fast as ever again", 24, 0.1, 900)
}

// until returns after how many seconds ok holds for the limit.
func (b *batch) until(ok func(limit float64) bool) float64 {
	began := b.now
	for !ok(b.g.limit) && b.now < began+7200 {
		b.advance(1)
	}
	return b.now - began
}

// Convergence takes a dozen or two times as long as an answer, which here takes five seconds.
func TestGradientConvergesInTime(t *testing.T) {
	f := func(what string, seconds, most float64) {
		t.Helper()
		t.Logf("%s: %.0f s", what, seconds)
		if seconds > most {
			t.Errorf("%s: %.0f s, want %v", what, seconds, most)
		}
	}
	b := newBatch(newGradient(4, 64, 4), 256)
	f("from 4 to 60, without a knee", b.until(func(l float64) bool { return l >= 60 }), 100)
	b = newBatch(newGradient(4, 64, 64), 24)
	f("from 64 to a knee at 24", b.until(func(l float64) bool { return l <= 26 }), 120)
	b.advance(1200)
	b.slots = 8
	f("from 24 to a knee at 8", b.until(func(l float64) bool { return l <= 10 }), 140)
	b.advance(1200)
	b.slots = 24
	f("from 8 to a knee at 24", b.until(func(l float64) bool { return l >= 22 }), 240)
	b = newBatch(newGradient(4, 64, 64), 4)
	f("from 64 to a knee at 4", b.until(func(l float64) bool { return l <= 6 }), 3600)
}

// Prompts that become ten times as long take ten times as long to read, and do not lower the limit. As many may queue inside
// the engine as take half as long as a prompt, which is more when prompts are long.
func TestGradientAllowsForLongPrompts(t *testing.T) {
	b := newBatch(newGradient(4, 64, 16), 24)
	short := b.prompt
	b.advance(1200)
	for phase := range 6 {
		b.prompt = short
		if phase%2 == 0 {
			b.prompt = func(*rand.Rand) (int, float64) { return 20000, 2 }
		}
		least, most := b.g.limit, b.g.limit
		for range 120 {
			b.advance(5)
			least, most = min(least, b.g.limit), max(most, b.g.limit)
		}
		if least < 20 || most > 34 {
			t.Errorf("phase %d: the limit went from %.1f to %.1f, with a knee at 24", phase, least, most)
		}
	}
}

// After an overload the limit is what it was before.
func TestGradientRecovers(t *testing.T) {
	b := newBatch(newGradient(4, 64, 16), 24)
	b.rate = 3
	b.advance(1200)
	b.rate = 12
	b.advance(120)
	b.wait, b.rate = 0, 4.2
	b.advance(60)
	from := len(b.ttfts)
	b.advance(600)
	if b.wait > 40 || b.limit() < 20 {
		t.Errorf("ten minutes after an overload %d wait, under a limit of %d", b.wait, b.limit())
	}
	sum := 0.0
	for _, s := range b.ttfts[from:] {
		sum += s
	}
	if mean := sum / float64(len(b.ttfts)-from); mean > 0.6 {
		t.Errorf("the first token takes %.2f s on average after an overload, 0.2 alone", mean)
	}
}

// feed gives the gradient n samples, all at its limit.
func feed(g *gradient, now time.Time, n int, took time.Duration) time.Time {
	for range n {
		now = now.Add(10 * time.Millisecond)
		g.observe(now, sample{granted: now.Add(-time.Millisecond), held: g.slots(), took: took})
	}
	return now
}

// settledGradient returns a gradient with an average of 100 ms.
func settledGradient(least, most, limit int) (*gradient, time.Time) {
	g, now := newGradient(least, most, limit), time.Unix(1e9, 0)
	for range 2 * probeSamples {
		g.observe(now, sample{granted: now, held: 1, took: 100 * time.Millisecond})
	}
	return g, now
}

func TestGradientOverlooksOneSlowAnswer(t *testing.T) {
	g, now := settledGradient(1, 64, 16)
	now = feed(g, now, 3, 100*time.Millisecond)
	now = feed(g, now, 1, time.Hour)
	feed(g, now, 12, 100*time.Millisecond)
	if g.slots() < 16 {
		t.Errorf("one slow answer of 16 took the limit from 16 to %d", g.slots())
	}
	g, now = settledGradient(1, 64, 16)
	for range probeSamples / 2 {
		g.observe(now, sample{granted: now, held: 1, took: time.Hour})
	}
	if took := math.Exp(g.averages[0].mean); took > 0.25 {
		t.Errorf("four slow answers make the average %.2g s, of 0.1", took)
	}
	feed(g, now, 16, time.Second)
	if g.slots() >= 16 {
		t.Error("sixteen slow answers at the limit do not lower it")
	}
}

// The first answer of an engine that still loads or compiles its model does not count for long.
func TestGradientForgetsTheFirstAnswer(t *testing.T) {
	g, now := newGradient(1, 64, 16), time.Unix(1e9, 0)
	g.observe(now, sample{granted: now, held: 1, took: time.Minute})
	for range 20 {
		g.observe(now, sample{granted: now, held: 1, took: 100 * time.Millisecond})
	}
	if took := math.Exp(g.averages[0].mean); took > 0.15 {
		t.Errorf("after a minute and twenty times 0.1 s the average is %.2g s", took)
	}
}

// An engine that is slow at low load is slow, and not overloaded.
func TestGradientAcceptsASlowEngine(t *testing.T) {
	g, now := settledGradient(1, 64, 16)
	for range 100 {
		now = now.Add(time.Second)
		g.observe(now, sample{granted: now, held: 5, took: time.Second})
		if g.slots() != 16 {
			t.Fatalf("the limit is %d, want the 16 that it was", g.slots())
		}
	}
	// At the minimum there is no lower load to learn from.
	g, now = settledGradient(8, 64, 8)
	now = feed(g, now, 40, time.Minute)
	feed(g, now, 60, time.Minute)
	if g.slots() <= 8 {
		t.Error("an engine that became slow keeps the limit at the minimum for ever")
	}
}

// Only samples that were granted under the limit in force are judged.
func TestGradientIgnoresSamplesOfAnEarlierLimit(t *testing.T) {
	g, now := settledGradient(1, 64, 32)
	granted := now
	now = feed(g, now, 32, time.Second)
	lowered := g.slots()
	if lowered >= 32 {
		t.Fatalf("the limit stays at %d", lowered)
	}
	for range 1000 {
		g.observe(now, sample{granted: granted, held: 32, took: time.Minute})
	}
	if g.slots() != lowered {
		t.Errorf("samples of an earlier limit moved it from %d to %d", lowered, g.slots())
	}
}

// A sample above half of the limit that it was granted under does not enter the averages because the limit has risen since.
func TestGradientComparesWithTheLimitAtTheGrant(t *testing.T) {
	g, now := settledGradient(1, 64, 8)
	taught := func(held int, granted time.Time) bool {
		before := g.averages[0].n
		g.observe(now, sample{granted: granted, held: held, took: time.Second})
		return g.averages[0].n > before
	}
	grants := []time.Time{now}
	for _, limit := range []float64{12, 20, 20.5, 40, 60} {
		now = now.Add(time.Second)
		g.setLimit(now, limit)
		grants = append(grants, now)
	}
	for i, limit := range []int{8, 12, 20, 20, 40, 60} {
		limit = max(limit, 12) // of the limits before, no more are kept
		if taught(limit/2+1, grants[i]) {
			t.Errorf("%d in flight of a limit of %d entered the averages", limit/2+1, limit)
		}
		if !taught(limit/2, grants[i]) {
			t.Errorf("%d in flight of a limit of %d did not enter the averages", limit/2, limit)
		}
	}
	g.setBounds(now.Add(time.Second), 1, 10)
	if taught(6, now) {
		t.Error("6 in flight of a limit of 60 entered the averages though the limit had fallen to 10")
	}
}

func TestGradientStepsBackWhenTheEngineIsFull(t *testing.T) {
	g, now := settledGradient(4, 64, 40)
	g.full(now, sample{granted: now, held: 31})
	if g.slots() != 27 {
		t.Errorf("full with 31 in flight made the limit %d, want 27", g.slots())
	}
	now = now.Add(time.Second)
	g.full(now, sample{granted: now.Add(-2 * time.Second), held: 25}) // granted before
	if g.slots() != 27 {
		t.Errorf("one overload counted twice: %d", g.slots())
	}
	g.full(now, sample{granted: now, held: 2})
	if g.slots() != 4 {
		t.Errorf("full with 2 in flight made the limit %d, want the minimum of 4", g.slots())
	}
}

// A request that was cancelled before its first token counts only if it was late already.
func TestGradientCountsLateCancellations(t *testing.T) {
	cut := func(took time.Duration) int {
		g, now := settledGradient(1, 64, 16)
		for range 40 {
			now = now.Add(time.Millisecond)
			g.observe(now, sample{granted: now, held: g.slots(), took: took, censored: true})
		}
		return g.slots()
	}
	if n := cut(20 * time.Millisecond); n != 16 {
		t.Errorf("clients that left at once made the limit %d", n)
	}
	if n := cut(2 * time.Second); n >= 16 {
		t.Error("clients that gave up after twenty times the usual time did not lower the limit")
	}
}

// A probe lowers the limit by one slot a sample, ends by itself, and all probes take at most a thirtieth of the time.
func TestLimitProbesAreGentle(t *testing.T) {
	b := newBatch(newGradient(4, 64, 16), 24)
	b.advance(3600)
	began, probed := b.now, 0.0
	for end := began + 3600; b.now < end; {
		before, phase, now := b.g.slots(), b.g.probe.phase, b.now
		b.advance(0.02)
		if phase != probeNone {
			probed += b.now - now
			if b.g.probe.phase != probeNone && before-b.g.slots() > 2 { // two answers may begin at once
				t.Fatalf("a probe took the limit from %d to %d at once", before, b.g.slots())
			}
		}
	}
	if share := probed / (b.now - began); share == 0 || share > 1.2/probeTimeShare {
		t.Errorf("probes took %.3f of the time", share)
	}
	g, now := newGradient(1, 64, 16), time.Unix(1e9, 0)
	for g.probe.phase == probeNone || g.slots() == 16 {
		now = feed(g, now, 1, 100*time.Millisecond)
	}
	g.tick(now.Add(probeMaxDuration + time.Second)) // no request comes any more
	if g.probe.phase != probeNone || g.slots() < 16 {
		t.Errorf("a probe without samples is not over: limit %d", g.slots())
	}
}

// The limit stays within its bounds whatever is observed, also when the bounds change.
func FuzzGradient(f *testing.F) {
	f.Add([]byte{4, 60, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 200, 100, 50})
	for seed := range 3 {
		f.Add(testkit.RandomBytes(uint64(seed), 6, 2000))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		next := func() int {
			if len(data) == 0 {
				return 0
			}
			n := data[0]
			data = data[1:]
			return int(n)
		}
		least := 1 + next()
		most := least + next()
		g, now := newGradient(least, most, next()), time.Unix(1e9, 0)
		for len(data) > 0 {
			now = now.Add(time.Duration(next()) * time.Duration(next()) * time.Millisecond)
			took := time.Duration(next()) * time.Duration(next()) * time.Millisecond
			s := sample{granted: now.Add(-took), took: took, input: next() << (next() % 24), censored: next()%8 == 0}
			s.held = []int{g.slots(), next(), 1, 0}[next()%4]
			switch next() % 16 {
			case 0:
				g.full(now, s)
			case 1:
				g.tick(now)
			case 2:
				least = 1 + next()
				most = least + next()
				g.setBounds(now, least, most)
			case 3:
				g.resume(now)
			default:
				g.observe(now, s)
			}
			if n := g.slots(); n < least || n > most || math.IsNaN(g.limit) {
				t.Fatalf("a limit of %d (%v), not from %d to %d", n, g.limit, least, most)
			}
		}
	})
}
