package fairqueue

const (
	// countedNeighbours is how many neighbours either way are counted to see where an item stands among those of its account.
	countedNeighbours = 32
	// maxVisits is at how many accounts one looks under FIFO.
	maxVisits = 64
)

// AheadOf says how many requests are served before an item that waits, as [Queue.Ahead] does for one that has yet to
// come, but what is likely and not what is the most: all that wait in higher bands; those of its account that came
// before it; and of the others in its band what its turn lets go first. It falls as those are served, and is 0 for the
// item whose turn is next. Deep inside an account's backlog, and among others under FIFO, it is an estimate by the
// times of arrival, so that it costs O(1) whatever waits.
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
	if q.atLimit(a, a.concurrent) {
		ahead = max(ahead, (own+1)*q.stretch(a, a.concurrent)-1)
	}
	return ahead
}

// othersAhead is how many of other accounts in its band are served before an item that has so many of its own before
// it.
func (q *Queue) othersAhead(it *Item, own float64) float64 {
	f := it.flow
	b := f.band
	if q.config.Discipline == FIFO {
		visits := maxVisits
		return b.ages.older(it, 0, &visits)
	}
	turn := f.s + f.cost*own/float64(f.waiting)/f.account.weight
	if next := b.order.top(); next != nil {
		turn -= next.s
	}
	meanCost := b.cost / float64(b.waiting)
	// What catches up with its turn; and since each flow is anywhere up to one item past the least, half an item of
	// each.
	likely := float64(b.flows-1)/2 + max(turn, 0)*max(b.weight-f.account.weight, 0)/meanCost
	return min(likely, float64(b.waiting-f.waiting))
}

// older is how many items of other flows, from place i of a heap by age on, came before it; of each flow by its first
// and its last.
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

// itemsBefore is how many items of f stand before it: counted, if it is near either end.
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

// fraction is x/all, from 0 to 1; of nothing it is a half.
func fraction(x, all float64) float64 {
	if !(all > 0) {
		return 0.5
	}
	return min(max(x/all, 0), 1)
}
