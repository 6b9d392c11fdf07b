package balance

import (
	"math"
	"math/bits"
	"time"
)

const (
	latencyDecay   = float64(10 * time.Second) // after which a latency counts half
	latencyClasses = 8                         // of sizes of prompts: powers of four, from 1 KiB
)

// latency is how soon answers of an engine begin, for prompts of one size: a peak counts at once, and what is better only bit by bit
// (the peak EWMA of Finagle). A measurement counts ever less as time passes, so an engine that was slow once is tried again.
type latency struct {
	mean float64 // nanoseconds; 0: nothing was measured
	at   Instant
	pace float64 // 1 / (mean * latencyDecay): see the estimates below, which take no division
}

func (l *latency) add(now Instant, after time.Duration) {
	x := max(float64(after), 1)
	if x < l.value(now) {
		weight := math.Exp(-float64(max(now-l.at, 0)) / latencyDecay)
		x = weight*l.mean + (1-weight)*x
	}
	*l = newLatency(x, now)
}

func newLatency(mean float64, at Instant) latency {
	return latency{mean: mean, at: at, pace: 1 / (mean * latencyDecay)}
}

// value returns the latency that is to be expected.
func (l *latency) value(now Instant) float64 {
	return l.mean * latencyDecay / (latencyDecay + float64(max(now-l.at, 0)))
}

// inverse returns 1 / value, but for rounding; of a latency that was measured.
func (l *latency) inverse(now Instant) float64 {
	return (latencyDecay + float64(max(now-l.at, 0))) * l.pace
}

// classOf returns the class of a prompt of so many bytes.
func classOf(input int) int { return min(bits.Len(uint(max(input, 0))>>10+1)>>1, latencyClasses-1) }

// FirstByte says how soon an answer of an endpoint has begun, to a prompt of so many bytes.
func (b *Balancer) FirstByte(now Instant, at, input int, after time.Duration) {
	class := classOf(input)
	l := b.latencies[class][at]
	now = b.notBefore(now)
	l.add(now, after)
	b.setLatency(now, at, class, l)
}

// notBefore returns the present, given an instant that was the present a moment ago. Callers read the clock before they take the mutex of the
// pool, and bounds hold only if time does not go back.
func (b *Balancer) notBefore(recent Instant) Instant {
	b.clock = max(b.clock, recent)
	return b.clock
}

// setLatency changes what is known of an endpoint.
func (b *Balancer) setLatency(now Instant, at, class int, l latency) {
	known := &b.latencies[class][at]
	if known.mean == 0 || l.value(now) < known.value(now) {
		b.ranks.changed[at/groupSize]++
		b.ranks.faster[at/groupSize]++
	}
	*known = l
}

// latencyBound is what no endpoint of a group is below from an instant on, until the group changes.
type latencyBound struct {
	measured   float64 // of endpoints with a latency, which becomes less as time passes
	unmeasured float64 // of the others, which stays
	at         Instant
	changed    uint64 // ranks.changed of the group then; 0: nothing is known
}

// UsesLatency reports whether the policy goes by latencies.
func (c *Config) UsesLatency() bool {
	return c.Policy == LeastLatency || c.Policy == Score && c.Weights.Latency > 0
}

// chooseFastest returns the endpoint that is open and has the least product of its latency and its load with one more request: a request
// waits for a part of what runs beside it. An engine of which nothing is known is tried first.
func (b *Balancer) chooseFastest(now Instant, r *Request, barred []bool) Choice {
	class, t := r.class(), b.turn()
	now = b.notBefore(now)
	best, least, bounds, latencies := None, never, b.costs[class], b.latencies[class]
	for k := 0; k <= t.groups; k++ {
		g := t.group(k)
		if t.whole(k) && bounds[g].atLeast(now, least, b.ranks.changed[g]) {
			continue
		}
		from, to := t.span(k, g)
		low := latencyBound{measured: never, unmeasured: never, at: now, changed: b.ranks.changed[g]}
		for at := from; at < to; at++ {
			share := b.ranks.shares[at]
			if share == never {
				continue
			}
			cost := float64(time.Millisecond) * share
			if l := &latencies[at]; l.mean > 0 {
				cost = (l.value(now) + float64(time.Millisecond)) * share
				if cost < low.measured {
					low.measured = cost
				}
			} else {
				if cost < low.unmeasured {
					low.unmeasured = cost
				}
			}
			if cost < least && (barred == nil || !barred[at]) {
				best, least = at, cost
			}
		}
		if t.whole(k) {
			bounds[g] = low
		}
	}
	return Choice{At: best, Prefers: None, Why: Latency}
}

// atLeast reports whether no endpoint of the group is below a value.
func (l *latencyBound) atLeast(now Instant, value float64, changed uint64) bool {
	return l.changed == changed && l.unmeasured >= value && l.measured >= value*decay(now-l.at)*(1+rounding)
}

// decay returns a factor by which no latency becomes less in a time, unless setLatency counts a change. That is exp(time / latencyDecay),
// however often a latency is measured that is no less than expected: each measurement decays anew. The polynomial is above it, and is
// inlined; after latencyDecay a bound is not used any more.
func decay(passed Instant) float64 {
	x := float64(passed) * (1 / latencyDecay)
	if x > 1 {
		return never
	}
	return 1 + x + x*x
}

// rounding is more than what floats lose in a few operations.
const rounding = 1e-12

func (r *Request) class() int {
	if r == nil {
		return 0
	}
	return classOf(r.Input)
}
