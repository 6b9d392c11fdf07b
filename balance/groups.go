package balance

// groupSize is how many neighbouring endpoints make a group. A choice knows of each group a bound of the best that its endpoints can have,
// and looks only into groups that may have a better one than it has found. Bounds need not be exact: they may claim too much, never too
// little, and are exact again after a look into the group. So what makes an endpoint worse leaves them as they are, and what makes it better
// changes one bound.
const groupSize = 32

// turn is the order in which a choice looks at the endpoints: from the next one on, so that equals take turns. The group of the next one
// comes twice, first with what follows it and last with what is before it.
type turn struct{ next, first, groups, n int }

func (b *Balancer) turn() turn {
	t := turn{next: b.next, groups: groupsOf(len(b.endpoints)), n: len(b.endpoints)}
	if t.next >= t.n {
		t.next = 0
	}
	t.first = t.next / groupSize
	return t
}

func groupsOf(endpoints int) int { return (endpoints + groupSize - 1) / groupSize }

// group returns the group that comes at step k, from 0 up to and with t.groups.
func (t *turn) group(k int) int {
	if k += t.first; k >= t.groups {
		k -= t.groups
	}
	return k
}

// whole reports whether step k has all endpoints of its group.
func (t *turn) whole(k int) bool { return k > 0 && k < t.groups }

// span returns the endpoints of step k, which has the group g.
func (t *turn) span(k, g int) (from, to int) {
	from = g * groupSize
	to = min(from+groupSize, t.n)
	switch k {
	case 0:
		from = t.next
	case t.groups:
		to = t.next
	}
	return from, to
}

// place returns how many endpoints come before this one.
func (t *turn) place(at int) int {
	if at -= t.next; at < 0 {
		at += t.n
	}
	return at
}

// bitset is a set of endpoints by their indexes.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (s bitset) set(i int, in bool) {
	if in {
		s[i>>6] |= 1 << (i & 63)
	} else {
		s[i>>6] &^= 1 << (i & 63)
	}
}

func (s bitset) has(i int) bool { return s[i>>6]>>(i&63)&1 != 0 }
