package fairqueue

import (
	"math"
	"time"
)

// promoteEvery is how often the band of the oldest head item can be served instead of the highest.
const promoteEvery = 8

// Running is one request that was started and has not finished. It is a value: copies are the same request.
type Running struct {
	flow     *flow
	claimed  float64 // cost of its input
	outputs  float64 // that it asks for
	weight   float64 // of its account when it was started: charges are corrected by the same weight
	estimate Estimate
	charged  float64 // so far
}

// Estimate is what the request was expected to cost when it was started.
func (r *Running) Estimate() Estimate { return r.estimate }

// Start accounts for a request that gets a slot without having waited, which is r from then on. It reports false, and changes nothing but
// the numbers of c, which it clamps, if the account is at its cap. The caller knows that no item that waits could use the slot.
func (q *Queue) Start(r *Running, c *Claim) bool {
	c.clamp()
	a := q.account(c)
	if q.atCap(a) {
		return false
	}
	q.idle.remove(a)
	f := &a.flows[c.Band]
	if f.head == nil {
		q.activate(f)
	}
	estimate := q.estimate(c, a)
	r.flow, r.claimed, r.outputs, r.weight, r.estimate, r.charged = f, c.Cost, c.Outputs, a.weight, estimate, estimate.sum()
	f.serve(r)
	if a.held[requests] > 0 { // else it is in no heap
		q.fixOrder(f, q.atCap(a))
	}
	return true
}

// Next removes the item that is first in order among those accepted, and starts it; it returns nil if there is none. An
// item that is not accepted is passed over and keeps its place; accept nil accepts all. accept must not use the queue.
func (q *Queue) Next(now time.Time, accept func(*Item) bool) (*Item, Running) {
	it := q.choose(now, accept)
	if it == nil {
		return nil, Running{}
	}
	q.served++
	f := it.flow
	running := Running{flow: f, claimed: it.Cost, outputs: it.Outputs, weight: f.account.weight, estimate: it.estimate, charged: it.cost}
	f.serve(&running)
	q.leave(it)
	q.reindex(f.account)
	return it, running
}

// Finish ends a request. used is its actual cost; negative or NaN: not known, the charge stands. Every Running is
// finished exactly once.
func (q *Queue) Finish(r *Running, used float64) {
	f := r.flow
	waits := f.account.held[requests] > 0
	wasCapped := waits && q.atCap(f.account)
	f.running--
	f.account.running--
	f.band.running--
	if used >= 0 {
		used = min(used, maxCost)
		f.s = max(f.s+(used-r.charged)/r.weight, f.refundFloor)
		f.band.maxS = max(f.band.maxS, f.s)
		q.recordCharge(f.account, used)
	}
	f.band.endIfIdle()
	if waits {
		q.fixOrder(f, wasCapped)
	}
	q.retire(f.account)
}

// fixOrder restores the order after the S of f changed, and for all flows of its account if that reached its cap or
// left it (capChanged).
func (q *Queue) fixOrder(f *flow, capChanged bool) {
	if capChanged {
		q.reindex(f.account)
	} else if f.band.order.has(f) {
		f.band.order.fix(f)
	}
}

// serve charges f for a request and counts it as running. The caller reindexes the account.
func (f *flow) serve(r *Running) {
	b := f.band
	b.v = max(b.v, f.s)
	f.s += r.charged / r.weight
	f.fresh = false
	b.maxS = max(b.maxS, f.s)
	f.running++
	f.account.running++
	b.running++
}

func (q *Queue) choose(now time.Time, accept func(*Item) bool) *Item {
	promoted := q.promoted(now)
	if promoted != nil {
		if it := q.pick(promoted, accept); it != nil {
			return it
		}
	}
	for i := range q.bands {
		if b := &q.bands[i]; b != promoted {
			if it := q.pick(b, accept); it != nil {
				return it
			}
		}
	}
	return nil
}

// promoted returns the band that is promoted this time, nil if none is.
func (q *Queue) promoted(now time.Time) *band {
	if q.config.PromoteAfter <= 0 || q.served%promoteEvery != promoteEvery-1 {
		return nil
	}
	var oldest *flow
	for i := range q.bands {
		if f := q.bands[i].ages.top(); f != nil && (oldest == nil || f.head.before(oldest.head)) {
			oldest = f
		}
	}
	if oldest == nil || now.Sub(oldest.head.Arrived) < q.config.PromoteAfter {
		return nil
	}
	return oldest.band
}

// pick returns the first item of b among those accepted. As a rule that is the head item of the first flow. Flows of
// which no item is accepted are taken out of the order to see the next one, and put back; like flows at a cap, they were
// denied nothing that they could have used, so their S advances.
func (q *Queue) pick(b *band, accept func(*Item) bool) *Item {
	var best *Item
	for f := b.order.top(); f != nil; f = b.order.top() {
		if best != nil && !f.head.before(best) {
			break // FIFO: nothing further on is older
		}
		if it := f.first(accept); it != nil && (best == nil || it.before(best)) {
			best = it
		}
		if best != nil && (best == f.head || q.config.Discipline == Fair) {
			break
		}
		b.order.remove(f)
		q.skipped = append(q.skipped, f)
	}
	for _, f := range q.skipped {
		if best != nil && q.config.Discipline == Fair {
			f.advance(best.flow.s)
		}
		b.order.add(f)
	}
	clear(q.skipped)
	q.skipped = q.skipped[:0]
	return best
}

// orderKey puts fresh flows first, the oldest foremost, then the least S. Refunds may have put others below a fresh flow:
// that service is due to them, but not before an account that has had no more than its share gets its next slot.
func orderKey(f *flow) key {
	k := ageKey(f)
	if k.level = f.s; f.fresh {
		k.level = math.Inf(-1)
	}
	return k
}

// ageKey puts the flow foremost whose head item arrived first.
func ageKey(f *flow) key { return key{age: f.head.age, seq: f.head.seq} }
