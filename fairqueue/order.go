package fairqueue

import "time"

// promoteEvery is how often the turn can go to the band of the oldest head instead of the highest.
const promoteEvery = 8

// Running is one request that was started and has not finished. It is a value: copies are the same request.
type Running struct {
	flow    *flow
	charged float64
}

// Start accounts for a request that gets a slot without having waited here. It reports false, and nothing happens, if
// the account is at a cap. Whether anybody waits who could use that slot is for the caller to know.
func (q *Queue) Start(c Claim) (Running, bool) {
	c.sane()
	a := q.account(&c)
	if q.capped(a) {
		return Running{}, false
	}
	f := &a.flows[c.Band]
	if f.head == nil {
		f.lift()
	}
	running := f.serve(c.Cost)
	if a.held[requests] > 0 { // else it stands nowhere
		q.arrange(a)
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
	q.turns++
	f := it.flow
	running := f.serve(it.Cost)
	q.leave(it)
	q.arrange(f.account)
	return it, running
}

// Finish ends a request. used is what it really cost, negative or not a number if that is not known: then it stays with
// the estimate. Every Running is finished exactly once.
func (q *Queue) Finish(r Running, used float64) {
	f := r.flow
	f.running--
	f.band.running--
	if used >= 0 {
		f.s = max(f.s+(min(used, maxCost)-r.charged)/f.account.weight, f.lifted)
		f.band.top = max(f.band.top, f.s)
	}
	f.band.rest()
	if f.account.held[requests] > 0 {
		q.arrange(f.account)
	}
}

// serve charges f for a request and counts it as running. The caller arranges the account.
func (f *flow) serve(cost float64) Running {
	b := f.band
	b.v = max(b.v, f.s)
	f.s += cost / f.account.weight
	b.top = max(b.top, f.s)
	f.running++
	b.running++
	return Running{flow: f, charged: cost}
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
	if q.config.PromoteAfter <= 0 || q.turns%promoteEvery != promoteEvery-1 {
		return nil
	}
	var oldest *flow
	for i := range q.bands {
		if f := q.bands[i].ages.top(); f != nil && (oldest == nil || olderHead(f, oldest)) {
			oldest = f
		}
	}
	if oldest == nil || now.Sub(oldest.head.Arrived) < q.config.PromoteAfter {
		return nil
	}
	return oldest.band
}

// pick returns the item of b whose turn it is among those accepted. As a rule that is the first item of the first flow;
// flows with nothing that is accepted are taken out of the order to see the next one, and put back.
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
		q.passed = append(q.passed, f)
	}
	for _, f := range q.passed {
		b.order.add(f)
	}
	clear(q.passed)
	q.passed = q.passed[:0]
	return best
}

// Ahead says how many requests are served before a newcomer with this claim, at most: all that wait in its band and
// above; and under Fair, of its own band, no more than its share lets go ahead of it: what its account has waiting
// there, and of the other accounts what catches up with the virtual time at which its turn comes, and one more each.
// The newcomer of an account at its cap waits for a slot of its own, and the result is as many requests as the pool
// serves in that time. It is O(1), for costs like the mean of those waiting.
func (q *Queue) Ahead(c Claim) float64 {
	c.sane()
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
		ahead = min(ahead, float64(above)+b.fairAhead(own, c.Weight))
	}
	if limit := q.runs(c.Concurrent); limit > 0 && a != nil && a.running() >= limit {
		ahead = max(ahead, float64(own.waiting+1)*float64(q.config.Slots)/float64(limit)-1)
	}
	return ahead
}

func (b *band) fairAhead(own flow, weight float64) float64 {
	others, theirWeight := b.flows, b.weight
	if own.waiting > 0 {
		others--
		theirWeight -= own.account.weight
	}
	turn := max(own.s-b.v, 0) + own.cost/weight
	meanCost := b.cost / float64(b.waiting)
	return float64(own.waiting+others) + turn*theirWeight/meanCost
}

func leastS(a, b *flow) bool {
	if a.s != b.s {
		return a.s < b.s
	}
	return a.head.before(b.head)
}

func olderHead(a, b *flow) bool { return a.head.before(b.head) }
