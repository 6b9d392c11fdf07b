package permits

import (
	"math"
	"time"

	"colonnade/fairqueue"
)

// Used is what a request has cost, in the unit of [Request.Cost]. NaN is what nobody told: there the estimate stands.
type Used = fairqueue.Estimate

// UnknownUse is the use of a request of which nothing is known.
func UnknownUse() Used { return Used{Input: math.NaN(), Output: math.NaN()} }

// outcome is how a permit has ended: taken unless its request had gone, unserved if it got nothing of an answer.
type outcome struct {
	taken, unserved bool
	used            Used
}

// Charge says what the request's output has cost so far; its input counts as it was estimated, or the account would seem
// to have used more while its request runs than it is charged in the end. It is cheap, and takes no lock: what it says counts
// when the pool next looks. Only the permit's holder may call it, and not after Release.
func (t Permit) Charge(output float64) {
	t.lease.reported.Store(math.Float64bits(t.lease.input + output))
}

// BlockedOnClient says for how long the request's client has held it up: it took nothing of what was there for it. Its account pays for
// that time as for any other, but it says nothing of what slots are worth. Only the permit's holder may call it, and not
// after Release.
func (t Permit) BlockedOnClient(long time.Duration) { t.lease.blockedOnClient = long }

// settleLocked charges an account what a permit that ends has used. That is also the time that it held the slot: who
// reads slowly keeps others out, however little it reads.
func (p *Pool) settleLocked(now time.Duration, l *lease, e outcome) {
	if !e.taken {
		p.queue.Finish(l.running, 0)
		return
	}
	held := now - l.granted
	p.holds.completed(now, held)
	p.queue.ObserveHold(l.running, held, time.Duration(p.holds.mean))
	if p.config.Cost == ByRequests {
		p.queue.Finish(l.running, math.NaN())
		return
	}
	used := 0.0
	if !e.unserved {
		if e.used.Input+e.used.Output == 0 {
			e.used = UnknownUse() // what was told has no price: the estimate is better than nothing
		}
		used = l.used(e.used)
		p.holds.slotCost.add(used, held, l.blockedOnClient)
		p.queue.Learn(l.running, e.used)
	}
	p.queue.Finish(l.running, max(used, p.slotCostLocked(held)))
}

// used is what is known of the cost of a permit that ends, and what was estimated of the rest.
func (l *lease) used(u Used) float64 {
	estimate := l.running.Estimate()
	input, output := u.Input, u.Output
	if math.IsNaN(input) {
		input = estimate.Input
	}
	if math.IsNaN(output) {
		output = max(estimate.Output, l.charged()-input)
	}
	return max(input, 0) + max(output, 0)
}

func (l *lease) charged() float64 { return math.Float64frombits(l.reported.Load()) }

// slotCost is what requests cost per second that they hold a slot: the mean over those that were served. It is a mean of
// rates and not a rate of means, so that a few who hold their slots for long do not make that cheap for themselves.
type slotCost struct {
	served    int
	perSecond float64
}

// add takes in what a request cost that held a slot for so long, and was held up by its client for a part of that. Nobody
// knows how much of that part the engine has worked, so the rate lies between two others, and where the mean lies there too,
// nothing is learned. Without that, slow readers would make slots cheap by what they make of them.
func (w *slotCost) add(cost float64, held, heldUp time.Duration) {
	w.served++
	least := cost / max(held, time.Millisecond).Seconds()
	most := cost / max(held-heldUp, time.Millisecond).Seconds()
	rate := min(max(w.perSecond, least), most)
	w.perSecond += (rate - w.perSecond) / float64(min(w.served, meanWindow))
}

// slotCostLocked is what a slot held for so long is worth; nothing while that is not known.
func (p *Pool) slotCostLocked(held time.Duration) float64 {
	if p.holds.slotCost.served < minCompletions {
		return 0
	}
	return p.holds.slotCost.perSecond * held.Seconds()
}

// leasesPerCharge is how many leases are looked at each time that slots are handed out. With slots all taken, every one is
// looked at a few times while a request of mean length runs, and nobody has to do it all at once. Nor is there a timer:
// without slots to hand out, it does not matter who is charged what.
const leasesPerCharge = 4

// chargeSomeLocked charges accounts for those of their requests that have cost more by now than was estimated.
func (p *Pool) chargeSomeLocked(now time.Duration) {
	if p.config.Cost == ByRequests {
		return
	}
	held := p.leases[:p.heldLocked()]
	for range min(leasesPerCharge, len(held)) {
		p.nextCharge++
		if p.nextCharge >= len(held) {
			p.nextCharge = 0
		}
		l := held[p.nextCharge]
		p.queue.Charge(&l.running, max(l.charged(), p.slotCostLocked(now-l.granted)))
	}
}
