package admission

import (
	"math"
	"math/bits"
	"time"
)

// gradient finds how many requests an engine can have in hand at once, from how long its answers take to begin.
//
// The idea is that of Gradient2 in Netflix's concurrency-limits (https://github.com/Netflix/concurrency-limits, Apache
// License 2.0): a long average says how long it takes while nothing is queued, a short one how long it takes now, and
//
//	limit = limit × clamp(tolerance × long / short, ½, 1) + headroom,  smoothed.
//
// Where a batch engine is not overloaded, the time to the first token grows slowly with its batch; once its memory or
// its prefill is used up, requests queue inside, and it multiplies. So the limit grows while the time stays within the
// tolerance, and stops a little beyond the knee. The code is our own, and differs where inference does:
//
//   - A prompt's length changes the time more than any load. There is a long average for each size of request, by
//     powers of two, and what is judged is the mean of logarithms of sample over average, each cut off at a factor of
//     four: the mix of sizes falls out, and one slow answer moves nothing. Caches that hit or miss do no harm as long
//     as they do so whatever the load is; what hits less the more requests run looks like an engine that has no room
//     for them.
//   - Requests can be held at the limit for hours, where an average of all samples would slowly take the engine's queue
//     for normal, and the limit would climb to its maximum. So a sample granted at up to half of the limit teaches the
//     averages, and one above is judged by them. When there were none of the first kind for a minute while the limit
//     was reached, it is lowered to half for a few samples: a look. It goes down and up by one slot a sample, so that
//     waiters go on being served, and comes at most so often that looks take a thirtieth of the time; sooner only when
//     the limit has moved by a fifth since the last. By this the averages follow an engine that has become slower or
//     faster for good.
//   - A sample is judged only if it was granted under the limit in force, so there is one change for each turn of the
//     batch; one of before may still teach, if it was at up to half of the limit both of then and of now.
//   - Who has the engine say that it is full has gone too far: the limit falls below what was held, at once.
//
// The limit never rises in a round in which it was not reached. At its minimum all samples teach, since there is no
// lower load to compare with, and so do the first of a size. Time is passed in. Its owner locks.
//
// On a model of an engine with a hard knee it stays within a tenth of the knee but for looks, and costs 2 % of the
// throughput; where requests only share what there is beyond the knee, it stays at 1.5 to 2 times the knee. What it
// does not see: answers that are not streamed, and where more than the minimum is too much from the beginning.
type gradient struct {
	min, max    int
	limit       float64
	epochs      [4]limitEpoch // the last limits, the newest first
	changed     time.Time     // when the slots changed: samples of before do not count
	growingFast bool          // it never had to step back, and grows faster

	samples  uint64 // ever observed
	averages [sizes]average
	round    round
	probe    limitProbe
}

const (
	tolerance      = 1.5                  // what the time may grow by from half of the limit to the limit; Netflix's
	minSlope       = 0.5                  // gradient; Netflix's
	smoothing      = 0.3                  // what a round moves the limit by, of what it should
	steepSmoothing = 0.6                  // the same where the gradient is the steepest
	fastGrowth     = 1.5                  // growth a round until the first step back
	backOff        = 0.9                  // of the slots that were held beside a request for which the engine was full
	clip           = 2 * math.Ln2         // of a logarithm
	noiseFloor     = 5 * time.Millisecond // is added to all times: what is less than this is not the engine's doing

	minRound = 16 // samples, and as many as there are slots between these
	maxRound = 32

	averageWindow = 8 // samples that an average looks back on, roughly; and from so many on it is used
)

// sizes is how many sizes of requests are told apart: below 1 KiB, below 2 KiB, and so on.
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
	// Not cut off below: the first answer of an engine that loads its model takes a minute, and the next shows it.
	a.mean += min(x-a.mean, clip) / float64(min(a.n, averageWindow))
}

func clipped(x float64) float64 { return min(max(x, -clip), clip) }

// round is what was seen since the limit last changed.
type round struct {
	n         int
	sum       float64 // of logarithms of sample over average
	saturated bool    // a request got the last slot
}

// sample is what one request has shown of its engine.
type sample struct {
	granted  time.Time
	held     int           // requests that the engine then had in hand, with it
	input    int           // bytes
	took     time.Duration // to the first token
	censored bool          // none had come by then
}

func newGradient(least, most, begin int) *gradient {
	g := &gradient{min: least, max: most, limit: float64(min(max(begin, least), most)), growingFast: true}
	g.epochs[0].limit = int(g.limit)
	return g
}

// limitEpoch is a limit and since when it was in force.
type limitEpoch struct {
	since time.Time
	limit int
}

// limitAt is the limit that a request was granted under, or the oldest that is known.
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

// slots is the limit in force.
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

// resume begins anew with what was found, after a time in which it was not in force.
func (g *gradient) resume(now time.Time) {
	g.probe = limitProbe{}
	g.round, g.changed = round{}, now
}

// setLimit sets the limit. What was seen under another is void.
func (g *gradient) setLimit(now time.Time, limit float64) {
	before := g.slots()
	g.limit = g.bounded(limit)
	g.restart(now, before)
}

// restart begins another round, of new samples only if the slots are no longer what they were.
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

// underHalf says whether a request was granted when the engine had so little to do that it teaches the averages.
func (g *gradient) underHalf(s *sample) bool {
	return 2*s.held <= min(g.limitAt(s.granted), int(g.limit)) || s.held <= g.min
}

// observe takes one sample.
func (g *gradient) observe(now time.Time, s sample) {
	a := &g.averages[sizeOf(s.input)]
	x := math.Log((max(s.took, 0) + noiseFloor).Seconds())
	if s.censored && (!a.known() || x < a.mean+math.Log(tolerance)) {
		return // it left in good time: nobody knows how long it would have taken
	}
	g.samples++
	light, known, excess := g.underHalf(&s), a.known(), clipped(x-a.mean) // before it teaches
	if (light || !known) && !s.censored {
		a.learn(x)
		g.confirm(now, light)
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

// endRound ends a round.
func (g *gradient) endRound(now time.Time) {
	mean, pressed := g.round.sum/float64(g.round.n), g.round.saturated
	slope := min(max(tolerance/math.Exp(mean), minSlope), 1)
	step := g.limit*slope + max(1, math.Sqrt(g.limit)/2) - g.limit
	switch {
	case slope == 1 && !pressed:
		g.round = round{} // who is not held up needs no more
		return
	case slope == 1 && g.growingFast:
		g.setLimit(now, g.limit*fastGrowth)
	case slope == minSlope:
		g.growingFast = false
		g.setLimit(now, g.limit+steepSmoothing*step)
	default:
		g.growingFast = false
		g.setLimit(now, g.limit+smoothing*step)
	}
	if pressed && g.probeDue(now) {
		g.probe.phase, g.probe.began, g.probe.samples = probeDown, now, 0
	}
}

// full says that the engine had no room for a request.
func (g *gradient) full(now time.Time, s sample) {
	if s.granted.Before(g.changed) {
		return // many may be told at once
	}
	g.endProbe(now)
	g.growingFast = false
	g.setLimit(now, min(g.limit, backOff*float64(s.held-1)))
}
