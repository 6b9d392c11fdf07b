package permits

import (
	"math"
	"time"

	"colonnade/fairqueue"
)

// Used is what a request has cost, in the unit of [Request.Cost]. NaN is not known: there the estimate stands.
type Used = fairqueue.Estimate

// UnknownUse returns the use of a request of which nothing is known.
func UnknownUse() Used { return Used{Input: math.NaN(), Output: math.NaN()} }

// outcome is how a permit has ended.
type outcome struct {
	taken    bool // the request ran: false if its client had left, or the permit could not be used
	unserved bool // it got nothing of an answer
	used     Used
}

// Charge reports what the request's output has cost so far. Its input counts as it was estimated, or the account would
// seem to have used more while the request runs than it is charged in the end. Charge is cheap and takes no lock: the cost
// counts when the pool charges the permit next. Only the permit's holder may call it, and not after Release.
func (t Permit) Charge(output float64) {
	t.state.reported.Store(math.Float64bits(t.state.input + output))
}

// BlockedOnClient reports for how long the request's client blocked it, by taking nothing of the answer that was there for
// it. The account pays for that time as for any other, but it says nothing of what slots cost. Only the permit's holder
// may call it, and not after Release.
func (t Permit) BlockedOnClient(d time.Duration) { t.state.blockedOnClient = d }

// Abandoned reports that the request ends before its answer does, because its client has left or its time has run out. Unless the engine
// gives a sign of life afterwards ([Pool.ReportLife]), the release says nothing of how long permits are held, since the engine may hang.
// Only the permit's holder may call it, and not after Release.
func (t Permit) Abandoned() { t.state.abandoned = true }

// EndedAt reports when the request has ended, a moment ago, so that the release need not read the clock. Only the permit's holder may
// call it, and not after Release.
func (t Permit) EndedAt(at time.Time) { t.state.ended = at.Sub(t.state.pool.began) }

// settleLocked charges an account what a permit that ends has used, and at least what its slot cost for the time that it
// was held: a client that reads slowly keeps others out, however little it reads.
func (p *Pool) settleLocked(now time.Duration, s *permitState, o outcome) {
	if !o.taken {
		p.queue.Finish(&s.running, 0) // and says nothing of how long permits are held
		return
	}
	held := now - s.granted
	hangs := s.abandoned && s.endpoint.doubtful
	if !hangs {
		p.observeHoldLocked(now, s, held)
	}
	if p.config.Cost == ByRequests {
		p.queue.Finish(&s.running, math.NaN())
		return
	}
	used := 0.0
	if !o.unserved {
		if o.used.Input+o.used.Output == 0 {
			o.used = UnknownUse() // what it used has no price: the estimate is better than no cost at all
		}
		used = s.used(o.used)
		if !hangs {
			p.holds.slotCost.add(used, held, s.blockedOnClient)
		}
		p.queue.Learn(&s.running, o.used)
	}
	p.queue.Finish(&s.running, max(used, p.slotCostLocked(held)))
}

// observeHoldLocked learns from how long a permit was held.
func (p *Pool) observeHoldLocked(now time.Duration, s *permitState, held time.Duration) {
	if s.abandoned {
		s.endpoint.abandoned.add(held)
	} else {
		p.holds.completed(now, held)
	}
	p.queue.ObserveHold(&s.running, held, time.Duration(p.holds.mean))
}

// used is the cost of a permit that ends: as far as it is known, and as estimated for the rest.
func (s *permitState) used(u Used) float64 {
	estimate := s.running.Estimate()
	input, output := u.Input, u.Output
	if math.IsNaN(input) {
		input = estimate.Input
	}
	if math.IsNaN(output) {
		output = max(estimate.Output, s.charged()-input)
	}
	return max(input, 0) + max(output, 0)
}

// charged is the cost by the last Charge.
func (s *permitState) charged() float64 { return math.Float64frombits(s.reported.Load()) }

// slotCost is what requests use per second of holding a slot: the mean over those that were served. It is a mean of rates
// and not a rate of means, so that a few requests that hold their slots for long do not make that cheap for themselves.
type slotCost struct {
	served    int
	perSecond float64
}

// add counts a request that held a slot for so long, for a part of which its client blocked it. How much of that part the
// engine worked is not known, so the rate lies between two others; a mean that lies between them too does not change.
// Otherwise slow readers would make slots cheap by how little they make of them.
func (c *slotCost) add(cost float64, held, blocked time.Duration) {
	c.served++
	low := cost / max(held, time.Millisecond).Seconds()
	high := cost / max(held-blocked, time.Millisecond).Seconds()
	rate := min(max(c.perSecond, low), high)
	c.perSecond += (rate - c.perSecond) / float64(min(c.served, meanWindow))
}

// slotCostLocked is what a slot costs that is held for so long; 0 while that is not known.
func (p *Pool) slotCostLocked(held time.Duration) float64 {
	if p.holds.slotCost.served < minCompletions {
		return 0
	}
	return p.holds.slotCost.perSecond * held.Seconds()
}

// permitsPerCharge is how many permits are charged each time that slots are handed out. With all slots taken, each permit is
// charged a few times while a request of mean length runs, and no call has to charge all of them. A timer is not needed:
// charges matter only when a slot is handed out.
const permitsPerCharge = 4

// chargeSomeLocked charges the next few permits for what they have cost by now beyond their estimate.
func (p *Pool) chargeSomeLocked(now time.Duration) {
	held := p.states[:p.heldLocked()]
	for range min(permitsPerCharge, len(held)) {
		p.nextCharge++
		if p.nextCharge >= len(held) {
			p.nextCharge = 0
		}
		s := held[p.nextCharge]
		p.queue.Charge(&s.running, max(s.charged(), p.slotCostLocked(now-s.granted)))
	}
}
