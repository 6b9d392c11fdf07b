package fairqueue

const (
	// countedNeighbours is how many neighbours of an item, either way, are counted to find its place in its flow.
	countedNeighbours = 32
	// maxVisits is how many flows are examined under FIFO.
	maxVisits = 64
)

// Ahead returns how many requests are served before a newcomer with this claim, at most: all that wait in its band and
// above; and under Fair, of its own band, at most what its share puts first: what its account has waiting there, what
// the other accounts have up to the start tag at which it is served, and one item more of each. A newcomer whose account
// is AtLimit waits for requests of its own account to end; the result is then as many requests as the queue serves
// meanwhile. It is O(1), and assumes costs like the mean of those waiting.
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

// fairAhead is Ahead in one band under Fair; own is the flow of the newcomer's account, and floor is L.
func (b *band) fairAhead(own flow, weight, floor float64) float64 {
	others, theirWeight := b.flows, b.weight
	if own.waiting > 0 {
		others--
		theirWeight -= own.account.weight
	}
	tag := max(own.s-floor, 0) + own.cost/weight
	meanCost := b.cost / float64(b.waiting)
	return float64(own.waiting+others) + tag*theirWeight/meanCost
}

// AheadOf returns how many requests are served before an item that waits. Unlike [Queue.Ahead] of a newcomer it is what
// is likely and not the most: all that wait in higher bands, those of its own flow before it, and of the other flows in
// its band what their start tags let go first. It falls as those are served, and is 0 for the item that is next. Deep
// inside a backlog, and among other flows under FIFO, it is estimated from times of arrival, so that it is O(1).
func (q *Queue) AheadOf(it *Item) float64 {
	f := it.flow
	a, b := f.account, f.band
	above := 0
	for i := range it.Band {
		above += q.bands[i].waiting
	}
	own := float64(f.itemsBefore(it))
	ahead := float64(above) + own
	if own > 0 || b.order.top() != f {
		ahead += q.othersAhead(it, own)
	}
	if q.atLimit(a, a.ownCap) {
		ahead = max(ahead, (own+1)*q.stretch(a, a.ownCap)-1)
	}
	return ahead
}

// othersAhead is how many items of other flows in its band are served before an item that has so many of its own flow
// before it.
func (q *Queue) othersAhead(it *Item, own float64) float64 {
	f := it.flow
	b := f.band
	if q.config.Discipline == FIFO {
		visits := maxVisits
		return b.ages.older(it, 0, &visits)
	}
	tag := f.s + f.cost*own/float64(f.waiting)/f.account.weight
	if next := b.order.top(); next != nil {
		tag -= next.s
	}
	meanCost := b.cost / float64(b.waiting)
	// The others have that much cost up to its start tag; and since each flow is anywhere up to one item past the least
	// S, half an item of each.
	likely := float64(b.flows-1)/2 + max(tag, 0)*max(b.weight-f.account.weight, 0)/meanCost
	return min(likely, float64(b.waiting-f.waiting))
}

// older is how many items of other flows arrived before it, in the part of a heap by age below index i. Within a flow it
// is estimated from the arrivals of its first and its last item.
func (h *heap) older(it *Item, i int, visits *int) float64 {
	if i >= len(h.entries) || *visits == 0 || !h.entries[i].flow.head.before(it) {
		return 0
	}
	*visits--
	n := h.older(it, 2*i+1, visits) + h.older(it, 2*i+2, visits)
	if f := h.entries[i].flow; f != it.flow {
		since, all := it.Arrived.Sub(f.head.Arrived), f.tail.Arrived.Sub(f.head.Arrived)
		n += 1 + fraction(float64(since), float64(all))*float64(f.waiting-1)
	}
	return n
}

// itemsBefore is how many items of f are before it: counted near either end, estimated between.
func (f *flow) itemsBefore(it *Item) int {
	front, back := it.prev, it.next
	for n := range countedNeighbours {
		switch {
		case front == nil:
			return n
		case back == nil:
			return f.waiting - 1 - n
		}
		front, back = front.prev, back.next
	}
	since, all := it.Arrived.Sub(f.head.Arrived), f.tail.Arrived.Sub(f.head.Arrived)
	estimate := int(fraction(float64(since), float64(all)) * float64(f.waiting-1))
	return min(max(estimate, countedNeighbours), f.waiting-1-countedNeighbours)
}

// fraction is x/all, from 0 to 1; a half if all is 0.
func fraction(x, all float64) float64 {
	if !(all > 0) {
		return 0.5
	}
	return min(max(x/all, 0), 1)
}
