package fairqueue

// flow is what an account has in one band: its items, oldest first, and its virtual time.
type flow struct {
	account *account
	band    *band

	head, tail *Item
	newest     *Item   // the next to leave for want of room: tail, except while makeRoom sets items aside
	waiting    int     // items
	cost       float64 // their estimates
	running    int

	s           float64           // S
	refundFloor float64           // the least that it may be refunded to: L of when it last started to wait
	fresh       bool              // it started to wait with no more than its share, and has had nothing since
	at          [placeCount]int32 // 1 + the index in each heap; 0: not in it
}

// activate is what starting to wait does.
func (q *Queue) activate(f *flow) {
	f.refundFloor = q.vtimeFloor(f.band)
	f.s = max(f.s, f.refundFloor)
	f.fresh = f.s <= f.band.v
}

// advance moves f to s, where it was passed over.
func (f *flow) advance(s float64) {
	if s <= f.s {
		return
	}
	if f.fresh {
		f.refundFloor = s
	}
	f.s = s
}

// vtimeFloor is where an account that owes nothing starts to wait.
func (q *Queue) vtimeFloor(b *band) float64 {
	if f := b.order.top(); f != nil && q.config.Discipline == Fair {
		return min(b.v, f.s)
	}
	return b.v
}

// insert links it where its arrival puts it.
func (f *flow) insert(it *Item) {
	after := f.tail
	if f.head != nil && it.before(f.head) {
		after = nil // a request that tries again, as a rule: spare the walk past all that came since
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

// before says whether it came before other. No two items in a queue are equal.
func (it *Item) before(other *Item) bool {
	if it.age != other.age {
		return it.age < other.age
	}
	return it.seq < other.seq
}
