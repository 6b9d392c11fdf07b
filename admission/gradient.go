package admission

import (
	"math"
	"math/bits"
	"time"
)

// gradient finds how many requests an engine can have in flight, from how long its answers take to begin.
//
// The idea is that of Gradient2 in Netflix's concurrency-limits (https://github.com/Netflix/concurrency-limits, Apache
// License 2.0): a long average is the latency while nothing is queued, a short one the latency now, and
//
//	limit = limit × clamp(tolerance × long / short, ½, 1) + headroom,  smoothed.
//
// While a batch engine is not overloaded, its time to first token grows slowly with the batch; once its memory or its
// prefill is exhausted, requests queue inside, and the time multiplies. So the limit grows while the time stays within the
// tolerance, and stops a little beyond the knee. This is an implementation of its own, and differs where inference does:
//
//   - The length of a prompt changes the time more than any load. There is a long average for each size of request, by
//     powers of two, and a round is judged by the mean of the logarithms of sample over average, each clipped at a factor
//     of four: the mix of sizes cancels out, and one slow answer changes nothing. Cache hits do no harm as long as their
//     rate does not depend on the load; a hit rate that falls with the number of requests looks like an engine without
//     room for them.
//
//   - An engine can be held at its limit for hours. Averages over all samples would slowly take the queue inside the engine
//     for normal, and the limit would climb to its maximum. So a sample granted at up to half of the limit enters the
//     averages, and one above is judged by them. When there was none of the first kind for a minute while the limit was
//     reached, the limit is lowered to half for a few samples: a probe. It goes down and up by one slot a sample, so that
//     waiters continue to be served, and probes take at most a thirtieth of the time, except after the limit has changed
//     by a fifth since the last. So the averages follow an engine that has become slower or faster for good.
//
//   - A sample is judged only if it was granted under the limit in force, so the limit changes once for each turnover of
//     the batch. An earlier sample may still enter the averages, if it was at up to half of the limit then and now.
//
//   - An engine that says that it is full has too many: the limit falls below what was held, at once.
//
//   - An engine may say itself how many requests it has not begun, and how full its KV cache is; see pressure.
//
// The limit never rises in a round in which it was not reached. At its minimum all samples enter the averages, since there
// is no lower load to compare with, and so do the first of a size. Time is passed in. Its owner locks.
//
// On a model of an engine with a hard knee, the limit stays within a tenth of the knee but for probes, at a cost of 2 % of
// the throughput; where requests only share what there is beyond the knee, it stays at 1.5 to 2 times the knee. It learns
// nothing from answers that are not streamed, and does not notice where more than the minimum is too much from the
// beginning.
type gradient struct {
	min, max    int
	limit       float64
	epochs      [4]limitEpoch // of the last limits, the newest first
	changed     time.Time     // when slots last changed: samples of requests granted before are not judged
	growingFast bool          // it never had to step back yet

	samples  uint64 // that were of use, in all
	averages [sizes]average
	round    round
	probe    limitProbe
	pressure pressure
}

const (
	tolerance      = 1.5                  // growth of the time from half of the limit to the limit that is accepted; Netflix's
	minSlope       = 0.5                  // least gradient; Netflix's
	smoothing      = 0.3                  // of the computed step, what one round moves the limit by
	steepSmoothing = 0.6                  // the same at minSlope
	fastGrowth     = 1.5                  // growth a round before the first step back
	backOff        = 0.9                  // of the slots held beside a request for which the engine was full
	clip           = 2 * math.Ln2         // bound of a logarithm of sample over average
	noiseFloor     = 5 * time.Millisecond // added to all times: differences below it are not the engine's

	minRound = 16 // samples of a round: as many as there are slots, between these
	maxRound = 32

	averageWindow = 8 // samples that an average is taken over, roughly; it is used from so many on
)

// sizes is the number of classes of input size: below 1 KiB, below 2 KiB, and so on.
const sizes = 16

func sizeOf(input int) int { return min(bits.Len(uint(max(input, 0))>>10), sizes-1) }

// average is the mean logarithm of the seconds that requests of one size take.
type average struct {
	mean float64
	n    int
}

func (a *average) known() bool { return a.n >= averageWindow }

func (a *average) learn(x float64) {
	a.n++
	if a.n == 1 {
		a.mean = x
		return
	}
	// Not clipped below: the first answer of an engine that loads its model takes a minute, and the next ones correct it.
	a.mean += min(x-a.mean, clip) / float64(min(a.n, averageWindow))
}

func clipped(x float64) float64 { return min(max(x, -clip), clip) }

// round has the samples since the limit last changed.
type round struct {
	n         int
	sum       float64 // of logarithms of sample over average
	saturated bool    // a request got the last slot
}

// sample is what one request says about its engine.
type sample struct {
	granted  time.Time
	held     int           // slots of the engine taken at the grant, with its own
	input    int           // bytes
	took     time.Duration // from dispatch to the first token
	censored bool          // none had come after that time
}

func newGradient(least, most, begin int) *gradient {
	g := &gradient{min: least, max: most, limit: float64(min(max(begin, least), most)), growingFast: true}
	g.epochs[0].limit = int(g.limit)
	return g
}

// limitEpoch is a limit, and since when it was in force.
type limitEpoch struct {
	since time.Time
	limit int
}

// limitAt returns the limit in force at a grant, or the oldest that is known.
func (g *gradient) limitAt(granted time.Time) int {
	limit := 0
	for _, s := range g.epochs {
		if s.limit == 0 {
			break
		}
		if limit = s.limit; !granted.Before(s.since) {
			break
		}
	}
	return limit
}

// slots returns the limit in force.
func (g *gradient) slots() int { return max(int(g.limit)-g.probe.below, g.min) }

// setBounds changes the bounds.
func (g *gradient) setBounds(now time.Time, least, most int) {
	if g.min == least && g.max == most {
		return
	}
	before := g.slots()
	g.min, g.max = least, most
	g.limit = g.bounded(g.limit)
	g.restart(now, before)
}

func (g *gradient) bounded(limit float64) float64 {
	return min(max(limit, float64(g.min)), float64(g.max))
}

// resume continues with the limit that was found, after a time in which the document set another.
func (g *gradient) resume(now time.Time) {
	g.probe, g.pressure = limitProbe{}, pressure{}
	g.round, g.changed = round{}, now
}

// adopt continues with the limit that another server has found.
func (g *gradient) adopt(now time.Time, limit int) {
	g.growingFast = false // little is known of how much more would be too much
	g.setLimit(now, float64(limit))
}

// found reports whether answers have shown anything of the limit.
func (g *gradient) found() bool { return g.samples > 0 }

// setLimit sets the limit, and begins a new round.
func (g *gradient) setLimit(now time.Time, limit float64) {
	before := g.slots()
	g.limit = g.bounded(limit)
	g.restart(now, before)
}

// restart begins a new round. If slots has changed from before, it is of requests granted from now on only.
func (g *gradient) restart(now time.Time, before int) {
	g.round = round{}
	if limit := int(g.limit); limit != g.epochs[0].limit {
		copy(g.epochs[1:], g.epochs[:])
		g.epochs[0] = limitEpoch{now, limit}
	}
	if g.slots() != before {
		g.changed = now
	}
}

// underHalf reports whether a request was granted at up to half of the limit, so that its sample enters the averages.
func (g *gradient) underHalf(s *sample) bool {
	return 2*s.held <= min(g.limitAt(s.granted), int(g.limit)) || s.held <= g.min
}

// observe counts one sample.
func (g *gradient) observe(now time.Time, s sample) {
	a := &g.averages[sizeOf(s.input)]
	x := math.Log((max(s.took, 0) + noiseFloor).Seconds())
	if s.censored && (!a.known() || x < a.mean+math.Log(tolerance)) {
		return // its client left early: how long it would have taken is not known
	}
	g.samples++
	low, known, excess := g.underHalf(&s), a.known(), clipped(x-a.mean) // by the average without it
	if (low || !known) && !s.censored {
		a.learn(x)
		g.confirm(now, low)
	}
	if g.probe.phase != probeNone {
		g.stepProbe(now, &s)
		return
	}
	if !known || s.granted.Before(g.changed) || 2*s.held <= int(g.limit) {
		return
	}
	g.round.n++
	g.round.sum += excess
	g.round.saturated = g.round.saturated || s.held >= g.slots()
	if g.round.n >= min(max(g.slots(), minRound), maxRound) {
		g.endRound(now)
	}
}

// endRound moves the limit by what a round has shown.
func (g *gradient) endRound(now time.Time) {
	mean, pressed := g.round.sum/float64(g.round.n), g.round.saturated
	g.pressure.excess, g.pressure.judged = mean, now
	slope := min(max(tolerance/math.Exp(mean), minSlope), 1)
	step := g.limit*slope + max(1, math.Sqrt(g.limit)/2) - g.limit
	switch {
	case slope == 1 && !pressed:
		g.round = round{} // a limit that is not reached need not rise
		return
	case slope == 1 && g.growingFast:
		g.setLimit(now, g.mayGrow(now, g.limit*fastGrowth))
	case slope == minSlope:
		g.growingFast = false
		g.setLimit(now, g.limit+steepSmoothing*step)
	default:
		g.growingFast = false
		g.setLimit(now, g.mayGrow(now, g.limit+smoothing*step))
	}
	if pressed && g.probeDue(now) {
		g.probe.phase, g.probe.began, g.probe.samples = probeDown, now, 0
	}
}

// full lowers the limit of an engine that had no room for a request.
func (g *gradient) full(now time.Time, s sample) {
	if s.granted.Before(g.changed) {
		return // many requests may be refused at once: only the first lowers the limit
	}
	g.endProbe(now)
	g.growingFast = false
	g.setLimit(now, min(g.limit, backOff*float64(s.held-1)))
}
