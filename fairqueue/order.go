package fairqueue

import (
	"math"
	"time"
)

// promoteEvery is how often the turn can go to the band of the oldest head instead of the highest.
const promoteEvery = 8

// Running is one request that was started and has not finished. It is a value: copies are the same request.
type Running struct {
	flow     *flow
	claimed  float64 // for its input
	weight   float64 // of its account when it was started: what it is charged is put right by the same
	estimate Estimate
	charged  float64
}

// Estimate is what the request was expected to cost when it was started.
func (r Running) Estimate() Estimate { return r.estimate }

// Start accounts for a request that gets a slot without having waited here. It reports false, and nothing happens, if
// the account is at a cap. Whether anybody waits who could use that slot is for the caller to know.
func (q *Queue) Start(c Claim) (Running, bool) {
	c.clamp()
	a := q.account(&c)
	if q.atCap(a) {
		return Running{}, false
	}
	q.idle.remove(a)
	f := &a.flows[c.Band]
	if f.head == nil {
		q.activate(f)
	}
	estimate := q.estimate(&c, a)
	running := f.serve(Running{flow: f, claimed: c.Cost, weight: a.weight, estimate: estimate, charged: estimate.sum()})
	if a.held[requests] > 0 { // else it stands nowhere
		q.fixOrder(&a.flows[c.Band], q.atCap(a))
	}
	return running, true
}

// Next takes out the item whose turn it is among those accepted, and starts it; nil if there is none. An item that is
// not accepted is passed over and keeps its place; accept nil accepts all. accept must not use the queue.
func (q *Queue) Next(now time.Time, accept func(*Item) bool) (*Item, Running) {
	it := q.choose(now, accept)
	if it == nil {
		return nil, Running{}
	}
	q.served++
	f := it.flow
	running := f.serve(Running{flow: f, claimed: it.Cost, weight: f.account.weight, estimate: it.estimate, charged: it.cost})
	q.leave(it)
	q.reindex(f.account)
	return it, running
}

// Finish ends a request. used is what it really cost, negative or not a number if that is not known: then it stays with
// the estimate. Every Running is finished exactly once.
func (q *Queue) Finish(r Running, used float64) {
	f := r.flow
	waits := f.account.held[requests] > 0
	wasCapped := waits && q.atCap(f.account)
	f.running--
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

// fixOrder puts f where it belongs after its S has changed, and all flows of its account if that has come to its cap or
// left it.
func (q *Queue) fixOrder(f *flow, cap bool) {
	if cap {
		q.reindex(f.account)
	} else if f.band.order.has(f) {
		f.band.order.fix(f)
	}
}

// serve charges f for a request and counts it as running. The caller arranges the account.
func (f *flow) serve(r Running) Running {
	b := f.band
	b.v = max(b.v, f.s)
	f.s += r.charged / r.weight
	f.fresh = false
	b.maxS = max(b.maxS, f.s)
	f.running++
	b.running++
	return r
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

// promoted returns the band that goes first out of order this time, if any.
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

// pick returns the item of b whose turn it is among those accepted. As a rule that is the first item of the first flow;
// flows with nothing that is accepted are taken out of the order to see the next one, and put back. As at a cap, these
// were denied nothing that they could have used: they do not fall behind.
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

// Ahead says how many requests are served before a newcomer with this claim, at most: all that wait in its band and
// above; and under Fair, of its own band, no more than its share lets go ahead of it: what its account has waiting
// there, and of the other accounts what catches up with the virtual time at which its turn comes, and one more each.
// The newcomer of an account at its cap waits for a slot of its own, and the result is as many requests as the pool
// serves in that time. It is O(1), for costs like the mean of those waiting.
func (q *Queue) Ahead(c Claim) float64 {
	c.clamp()
	above := 0
	for i := range c.Band {
		above += q.bands[i].waiting
	}
	b := &q.bands[c.Band]
	ahead := float64(above + b.waiting)
	var own flow // nothing, for an account that is not known
	a := q.accounts[c.Account]
	if a != nil {
		own = a.flows[c.Band]
	}
	if q.config.Discipline == Fair && b.waiting > 0 {
		ahead = min(ahead, float64(above)+b.fairAhead(own, c.Weight, q.vtimeFloor(b)))
	}
	if a != nil && q.atLimit(a, c.Concurrent) {
		ahead = max(ahead, float64(own.waiting+1)*q.stretch(a, c.Concurrent)-1)
	}
	return ahead
}

// Stretch is how many requests of average length the pool serves while one of an account at its cap ends: 1 for an
// account without a cap below Slots.
func (q *Queue) Stretch(c Claim) float64 { return q.stretch(q.accounts[c.Account], c.Concurrent) }

func (b *band) fairAhead(own flow, weight, floor float64) float64 {
	others, theirWeight := b.flows, b.weight
	if own.waiting > 0 {
		others--
		theirWeight -= own.account.weight
	}
	turn := max(own.s-floor, 0) + own.cost/weight
	meanCost := b.cost / float64(b.waiting)
	return float64(own.waiting+others) + turn*theirWeight/meanCost
}

// orderKey puts fresh flows first, the oldest foremost, then the least S. Others may be behind a fresh one, by refunds: they
// have that coming, but not before whoever has had no more than its share and comes for the next slot.
func orderKey(f *flow) key {
	k := ageKey(f)
	if k.level = f.s; f.fresh {
		k.level = math.Inf(-1)
	}
	return k
}

// ageKey puts the flow whose first item came first foremost.
func ageKey(f *flow) key { return key{age: f.head.age, seq: f.head.seq} }
