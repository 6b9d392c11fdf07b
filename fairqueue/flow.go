package fairqueue

// flow is what an account has in one band: its items, oldest first, and its start tag.
type flow struct {
	account *account
	band    *band

	head, tail *Item
	newest     *Item   // the next to be evicted: tail, except while makeRoom sets items aside
	waiting    int     // items
	cost       float64 // their estimates
	running    int

	s           float64           // S
	refundFloor float64           // the least S that refunds lead to: L when the flow last became backlogged
	fresh       bool              // it became backlogged at an S of at most V, and has not been served since
	at          [placeCount]int32 // 1 + the index in each heap; 0: not in it
}

// activate is what happens to a flow that becomes backlogged.
func (q *Queue) activate(f *flow) {
	f.refundFloor = q.vtimeFloor(f.band)
	f.s = max(f.s, f.refundFloor)
	f.fresh = f.s <= f.band.v
}

// advance moves S to s, if that is later, for a flow that was passed over: it was denied nothing that it could have used.
func (f *flow) advance(s float64) {
	if s <= f.s {
		return
	}
	if f.fresh {
		f.refundFloor = s // as if it had become backlogged only now
	}
	f.s = s
}

// vtimeFloor is L: where a flow becomes backlogged whose account is not ahead.
func (q *Queue) vtimeFloor(b *band) float64 {
	if f := b.order.top(); f != nil && q.config.Discipline == Fair {
		return min(b.v, f.s)
	}
	return b.v
}

// insert links it in order of arrival.
func (f *flow) insert(it *Item) {
	after := f.tail
	if f.head != nil && it.before(f.head) {
		after = nil // a request that tries again, as a rule: no need to walk past all that came since
	}
	for after != nil && it.before(after) {
		after = after.prev
	}
	it.prev, it.next = after, f.head
	if after != nil {
		it.next = after.next
		after.next = it
	} else {
		f.head = it
	}
	if it.next != nil {
		it.next.prev = it
	} else {
		f.tail = it
	}
	f.newest = f.tail
}

func (f *flow) unlink(it *Item) {
	if it.prev != nil {
		it.prev.next = it.next
	} else {
		f.head = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	} else {
		f.tail = it.prev
	}
	it.prev, it.next = nil, nil
	f.newest = f.tail
}

// first returns the oldest item that is accepted.
func (f *flow) first(accept func(*Item) bool) *Item {
	for it := f.head; it != nil; it = it.next {
		if accept == nil || accept(it) {
			return it
		}
	}
	return nil
}

// before reports whether it arrived before other. No two items in a queue are equal.
func (it *Item) before(other *Item) bool {
	if it.age != other.age {
		return it.age < other.age
	}
	return it.seq < other.seq
}
