package admission

import (
	"math"
	"math/rand/v2"
	"time"
)

// batch is a model of a batch engine behind a gradient: requests in its slots run side by side and slow each other down
// beyond a knee, others queue inside in order of arrival.
type batch struct {
	slots  int     // requests that run at once; others queue inside
	knee   float64 // number of requests from which on they share the engine's speed
	slope  float64 // by what share each one slows down the others below that
	prompt func(*rand.Rand) (bytes int, seconds float64)
	output func(*rand.Rand) (seconds float64)
	noise  float64 // of the time to the first token, as a deviation of its logarithm

	clients int     // so many send the next request when the last is done; or
	rate    float64 // requests a second, as a Poisson process; or, if both are 0, there is always another request

	g     *gradient
	rand  *rand.Rand
	now   float64 // seconds
	next  float64 // next arrival
	wait  int     // requests waiting for the gradient
	run   []*simRequest
	in    []*simRequest // requests queued inside, oldest first
	held  int
	fixed int // limit without a gradient

	scrape   float64 // seconds between two answers of the engine about itself; 0: it gives none
	scraped  float64
	stepping float64 // seconds that each request waits inside for the engine's next step, by its own metrics
	deaf     bool    // no answer shows when its first token came

	done   int
	limits []int     // at each completion
	ttfts  []float64 // of each first token
	ends   []float64
}

type simRequest struct {
	sample
	at      float64
	prefill float64 // seconds of work left
	decode  float64
}

func instant(s float64) time.Time {
	return time.Unix(1e9, 0).Add(time.Duration(s * float64(time.Second)))
}

func newBatch(g *gradient, slots int) *batch {
	return &batch{
		slots: slots, knee: math.Inf(1), g: g, rand: rand.New(rand.NewPCG(1, 2)),
		prompt: func(*rand.Rand) (int, float64) { return 2000, 0.2 },
		output: func(r *rand.Rand) float64 { return 2 + 6*r.Float64() },
		noise:  0.2,
	}
}

func (b *batch) limit() int {
	if b.g == nil {
		return b.fixed
	}
	return b.g.slots()
}

func (b *batch) slow() float64 {
	n := float64(len(b.run))
	return (1 + b.slope*n) * max(1, n/b.knee)
}

// advance simulates so many seconds.
func (b *batch) advance(seconds float64) *batch {
	for end := b.now + seconds; b.now < end; {
		b.arrive()
		slow, step := b.slow(), end-b.now
		for _, q := range b.run {
			step = min(step, q.left()*slow)
		}
		if b.rate > 0 {
			step = min(step, b.next-b.now)
		}
		step = max(step, 1e-9)
		b.now += step
		if b.g != nil {
			b.g.tick(instant(b.now))
			b.say()
		}
		b.work(step / slow)
	}
	return b
}

// say reports what the engine says about itself, if that is due.
func (b *batch) say() {
	if b.scrape == 0 || b.now < b.scraped+b.scrape {
		return
	}
	l := engineLoad{running: len(b.run), waiting: len(b.in), known: true, held: b.held}
	if b.stepping > 0 && b.done > 0 {
		for range min(len(b.run), int(b.stepping*float64(b.done)/b.now+b.rand.Float64())) {
			l.running, l.waiting = l.running-1, l.waiting+1
		}
	}
	b.scraped = b.now
	b.g.report(instant(b.now), l, true)
}

func (q *simRequest) left() float64 {
	if q.prefill > 0 {
		return q.prefill
	}
	return q.decode
}

// arrive grants waiting requests up to the limit, and starts queued ones up to the slots.
func (b *batch) arrive() {
	for b.rate > 0 && b.next <= b.now {
		b.wait++
		b.next += b.rand.ExpFloat64() / b.rate
	}
	for b.held < b.limit() && (b.rate > 0 && b.wait > 0 || b.rate == 0 && (b.clients == 0 || b.held < b.clients)) {
		b.wait--
		b.held++
		q := &simRequest{at: b.now}
		q.input, q.prefill = b.prompt(b.rand)
		q.prefill *= math.Exp(b.noise * b.rand.NormFloat64())
		q.decode = b.output(b.rand)
		q.granted, q.held = instant(b.now), b.held
		b.in = append(b.in, q)
	}
	for len(b.run) < b.slots && len(b.in) > 0 {
		b.run, b.in = append(b.run, b.in[0]), b.in[1:]
	}
}

// work advances every running request by so much work.
func (b *batch) work(amount float64) {
	const tiny = 1e-7
	left := b.run[:0]
	for _, q := range b.run {
		switch {
		case q.prefill > amount+tiny:
			q.prefill -= amount
		case q.prefill > 0:
			q.prefill = 0
			b.first(q)
		case q.decode > amount+tiny:
			q.decode -= amount
		default:
			b.held--
			b.done++
			b.limits, b.ends = append(b.limits, b.limit()), append(b.ends, b.now)
			continue
		}
		left = append(left, q)
	}
	b.run = left
}

func (b *batch) first(q *simRequest) {
	b.ttfts = append(b.ttfts, b.now-q.at)
	if b.g != nil && !b.deaf {
		q.took = time.Duration((b.now - q.at) * float64(time.Second))
		b.g.observe(instant(b.now), q.sample)
	}
}

// settled returns the mean, least and most of the limits at the last n completions.
func (b *batch) settled(n int) (mean float64, least, most int) {
	last := b.limits[max(0, len(b.limits)-n):]
	least = math.MaxInt
	for _, l := range last {
		mean += float64(l) / float64(len(last))
		least, most = min(least, l), max(most, l)
	}
	return mean, least, most
}
