package balance

import (
	"math/bits"
	"slices"
)

// walk is the search of a request for its endpoint, around the ring from the request's key. It goes from point to point, which is over soon in
// most cases. After shortWalk points, few endpoints may be left that are worth finding: then it asks each of them where its next point is.
type walk struct {
	*Balancer
	limit  bound
	barred []bool
	start  int           // index of the first point
	found  kinds         // of which the first is known
	at     [allKinds]int // that endpoint; None: there is none
	far    [allKinds]int // and how many points after the start it is
}

// kinds is a set of states of an endpoint to which a request may go.
type kinds uint8

// These are the kinds.
const (
	isUp     = iota // usable
	isOpen          // has a free slot
	isWithin        // has a free slot, and is within its bound
	isFull          // has none, and is within its bound once a request there ends
	allKinds
)

const (
	shortWalk = 64
	maxFew    = 32 // endpoints that are asked for their next point; where there are more of a kind, a walk meets one soon
)

// chooseRing returns the first endpoint on the ring from a key that is open and within its bound. Endpoints that are not up are passed
// over, so the keys of an endpoint come back to it. Consistent hashing with bounded loads: Mirrokni, Thorup, Zadimoghaddam 2016.
func (b *Balancer) chooseRing(key uint64, barred []bool) Choice {
	if len(b.ring.points) == 0 || b.totals.open == 0 {
		return Choice{At: None, Prefers: None}
	}
	w := walk{Balancer: b, limit: b.bound(), barred: barred, start: b.ring.find(mix(key)), at: [allKinds]int{None, None, None, None}}
	if w.start == len(b.ring.points) {
		w.start = 0
	}
	if steps := min(shortWalk, len(b.ring.points)); !w.walk(0, steps, 1<<isWithin) && steps == shortWalk {
		w.ask()
	}
	c := Choice{At: w.at[isWithin], Prefers: None, Why: RingNext}
	switch {
	case c.At == None:
		c.At, c.Why = w.at[isOpen], RingFull
	case w.far[isUp] == w.far[isWithin]:
		c.Why = Ring
	}
	if c.At == None {
		return Choice{At: None, Prefers: None}
	}
	if c.Why == RingFull || w.far[isFull] < w.far[isWithin] {
		c.Prefers = w.at[isFull]
	}
	return c
}

// walk goes from point to point until all of these kinds are found. It reports whether they are.
func (w *walk) walk(from, to int, until kinds) bool {
	points := w.ring.points
	i := w.start + from
	if i >= len(points) {
		i -= len(points)
	}
	for far := from; far < to; far++ {
		if i == len(points) {
			i = 0
		}
		at := int(points[i].at)
		i++
		if w.barred != nil && w.barred[at] {
			continue
		}
		if now := w.kindsOf(at) &^ w.found; now != 0 {
			w.find(now, at, far)
			if w.found&until == until {
				return true
			}
		}
	}
	return false
}

// find notes that an endpoint is the first of some kinds.
func (w *walk) find(now kinds, at, far int) {
	for k := range w.at {
		if now>>k&1 != 0 {
			w.at[k], w.far[k] = at, far
		}
	}
	w.found |= now
}

// kindsOf returns what an endpoint is that the request is not barred from.
func (w *walk) kindsOf(at int) kinds {
	r := &w.ranks
	load, size := r.loads[at], r.sizes[at]
	switch {
	case !r.up.has(at):
		return 0
	case !r.open.has(at):
		if w.limit.admits(load-1, size) { // a request that waits for it takes the place of one that ends
			return 1<<isUp | 1<<isFull
		}
		return 1 << isUp
	case w.limit.admits(load, size):
		return 1<<isUp | 1<<isOpen | 1<<isWithin
	}
	return 1<<isUp | 1<<isOpen
}

// few are the first endpoints of a kind, and how many there are of it, up to one more than are kept.
type few struct {
	at [maxFew]int32
	n  int
}

// ask finds the first of each kind that the choice needs, and that a short walk has not met.
func (w *walk) ask() {
	var of [allKinds]few
	w.survey(&of)
	if of[isWithin].n > maxFew {
		w.walk(shortWalk, len(w.ring.points), 1<<isWithin)
		return
	}
	w.nearest(isWithin, &of[isWithin])
	end, many := len(w.ring.points), kinds(0)
	if w.at[isWithin] != None {
		end = w.far[isWithin] + 1 // what comes later makes no difference
	}
	for k := range of {
		switch {
		case !w.lacks(k):
		case of[k].n > maxFew:
			many |= 1 << k
		default:
			w.nearest(k, &of[k])
		}
	}
	if many != 0 {
		w.walk(shortWalk, end, many)
	}
}

// survey finds endpoints of the kinds that a short walk has not met.
func (w *walk) survey(of *[allKinds]few) {
	for i, up := range w.ranks.up {
		w.surveySet(i, up&w.ranks.open[i], 0, of)
		if of[isWithin].n > maxFew {
			return
		}
		if w.lacks(isUp) || w.lacks(isFull) {
			w.surveySet(i, up&^w.ranks.open[i], 1, of)
		}
	}
}

// surveySet is survey for some of the 64 endpoints of a word. Either all have a free slot, or none has: then each is looked at as if it had one
// request less.
func (w *walk) surveySet(word int, set uint64, less float64, of *[allKinds]few) {
	within, others := isWithin, w.lacks(isUp) || w.lacks(isOpen)
	if less > 0 {
		within, others = isFull, w.lacks(isUp)
	}
	barred, loads, sizes, limit := w.barred, w.ranks.loads, w.ranks.sizes, w.limit
	for ; set != 0; set &= set - 1 {
		at := word<<6 | bits.TrailingZeros64(set)
		if barred != nil && barred[at] {
			continue
		}
		if others {
			for now := w.kindsOf(at) &^ w.found &^ (1 << within); now != 0; now &= now - 1 {
				of[bits.TrailingZeros8(uint8(now))].add(at)
			}
		}
		if limit.admits(loads[at]-less, sizes[at]) {
			of[within].add(at)
		}
	}
}

func (w *walk) lacks(k int) bool { return w.found>>k&1 == 0 }

func (f *few) add(at int) {
	if f.n < maxFew {
		f.at[f.n] = int32(at)
	}
	f.n = min(f.n+1, maxFew+1)
}

// nearest notes the endpoint of a kind that comes first after the start.
func (w *walk) nearest(k int, of *few) {
	r, best, least := &w.ring, None, len(w.ring.points)
	for _, at := range of.at[:of.n] {
		own := r.own[r.first[at]:r.first[at+1]]
		far := int(own[0]) + len(r.points)
		if i, _ := slices.BinarySearch(own, int32(w.start)); i < len(own) {
			far = int(own[i])
		}
		if far -= w.start; far < least {
			best, least = int(at), far
		}
	}
	if best != None {
		w.find(1<<k, best, least)
	}
}
