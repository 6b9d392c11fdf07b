package fairqueue

// bound names a bound of the whole queue.
type bound uint8

const (
	requests bound = iota
	bytes

	boundCount = 2
)

func (it *Item) size(b bound) int64 {
	if b == requests {
		return 1
	}
	return it.Bytes
}

func (q *Queue) bound(b bound) int64 {
	if b == requests {
		return int64(q.config.Limit)
	}
	return q.config.Bytes
}

// HasRoom reports whether an item fits without another leaving for it.
func (q *Queue) HasRoom(it *Item) bool {
	return q.held[requests] < q.bound(requests) && q.held[bytes]+max(it.Bytes, 0) <= q.bound(bytes)
}

// makeRoom determines which items must leave so that it fits; as a rule there are none. It reports false if it must not
// come in. own is its account, nil if that is not known.
//
// Victims are set aside one by one, each determined by what is held without those before it, and all are put back in the
// end: until it is certain that it fits, nothing has changed. Where more is held than the bound, since the bound was
// lowered or because of items that have rejoined, it makes room for itself only.
func (q *Queue) makeRoom(it *Item, own *account) (victims []*Item, ok bool) {
	ok = true
	before := q.held
	for b := bound(0); b < boundCount && ok; b++ {
		for ok && q.held[b]+it.size(b) > max(q.bound(b), before[b]) {
			var victim *Item
			if victim, ok = q.victim(it, own, b); ok {
				q.setAside(victim)
				victims = append(victims, victim)
			}
		}
	}
	for i := len(victims) - 1; i >= 0; i-- {
		q.putBack(victims[i])
	}
	return victims, ok
}

// victim returns the newest item of the account that holds the most of b for its weight, among the items of the
// newcomer's band and lower ones. It reports false if that account holds no more for its weight than the newcomer's
// would.
func (q *Queue) victim(it *Item, own *account, b bound) (*Item, bool) {
	if it.size(b) > q.bound(b) {
		return nil, false
	}
	var most *flow
	for i := it.Band; i < bandCount; i++ {
		held := &q.bands[i].held[b]
		if f := held.top(); f != nil && (most == nil || held.key(f).before(held.key(most))) {
			most = f
		}
	}
	if most == nil {
		return nil, false
	}
	after := it.size(b)
	if own != nil {
		after += own.held[b]
	}
	return most.newest, most.account.heldPerWeight(b) > float64(after)/it.Weight
}

// setAside leaves v out of what is held, without removing it from the order.
func (q *Queue) setAside(v *Item) { q.adjustHeld(v, -1, v.prev) }

// putBack undoes setAside; items are put back in the reverse order.
func (q *Queue) putBack(v *Item) { q.adjustHeld(v, +1, v) }

func (q *Queue) adjustHeld(v *Item, sign int64, newest *Item) {
	a := v.flow.account
	for i := range q.held {
		a.held[i] += sign * v.size(bound(i))
		q.held[i] += sign * v.size(bound(i))
	}
	v.flow.newest = newest
	q.reindex(a)
}

// roomKey puts the account foremost that holds the most of b for its weight; of equals the one with the newest item.
func roomKey(b bound) func(*flow) key {
	return func(f *flow) key {
		return key{level: -f.account.heldPerWeight(b), age: -f.newest.age, seq: -f.newest.seq}
	}
}
