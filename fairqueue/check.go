package fairqueue

import (
	"errors"
	"fmt"
	"math"
)

// Check compares every sum and index of the queue with what can be counted, and returns all that is wrong. It is O(n).
func (q *Queue) Check() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("fairqueue: "+format, args...)) }
	var held [boundCount]int64
	var bands [bandCount]band
	if a := q.latest; a != nil && q.accounts[a.name] != a {
		fail("account %q was looked up last and is not known", a.name)
	}
	for name, a := range q.accounts {
		if a.name != name {
			fail("account %q is stored as %q", a.name, name)
		}
		q.checkAccount(a, fail)
		for i := range a.flows {
			bands[i].count(&a.flows[i])
		}
		for i := range held {
			held[i] += a.held[i]
		}
	}
	if held != q.held {
		fail("held is %v, counted %v", q.held, held)
	}
	q.checkIdle(fail)
	for i := range q.bands {
		q.bands[i].check(Band(i), &bands[i], fail)
	}
	return errors.Join(errs...)
}

type failFunc = func(format string, args ...any)

// count adds up what the flows of a band have.
func (b *band) count(f *flow) {
	b.waiting += f.waiting
	b.cost += f.cost
	b.running += f.running
	b.maxS = max(b.maxS, f.s)
	if f.waiting > 0 {
		b.flows++
		b.weight += f.account.weight
	}
}

func (b *band) check(name Band, counted *band, fail failFunc) {
	if b.waiting != counted.waiting || b.running != counted.running || b.flows != counted.flows {
		fail("band %v has %d waiting, %d running, %d accounts; counted %d, %d, %d", name,
			b.waiting, b.running, b.flows, counted.waiting, counted.running, counted.flows)
	}
	if !near(b.cost, counted.cost) || !near(b.weight, counted.weight) {
		fail("band %v has cost %v and weight %v waiting; counted %v, %v",
			name, b.cost, b.weight, counted.cost, counted.weight)
	}
	if counted.maxS > b.maxS || math.IsNaN(b.v) || math.IsInf(b.maxS, 0) {
		fail("band %v: virtual time %v, greatest %v, but an account is at %v", name, b.v, b.maxS, counted.maxS)
	}
	if b.waiting == 0 && b.running == 0 && b.v != b.maxS {
		fail("band %v is idle at virtual time %v below %v", name, b.v, b.maxS)
	}
	b.order.check(fail)
	b.ages.check(fail)
	for i := range b.held {
		b.held[i].check(fail)
	}
}

func (q *Queue) checkAccount(a *account, fail failFunc) {
	var held [boundCount]int64
	capped, running := q.atCap(a), 0
	for i := range a.flows {
		f := &a.flows[i]
		if f.account != a || f.band != &q.bands[i] || f.running < 0 {
			fail("account %q: flow %v belongs to another, or has %d running", a.name, Band(i), f.running)
		}
		if f.s < f.refundFloor || f.refundFloor > f.band.v {
			fail("account %q: S %v, refund floor %v, band %v at %v", a.name, f.s, f.refundFloor, Band(i), f.band.v)
		}
		f.checkItems(&held, fail)
		f.checkPlaces(capped, fail)
		running += f.running
	}
	if held != a.held || running != a.running {
		fail("account %q holds %v and runs %d, counted %v and %d", a.name, a.held, a.running, held, running)
	}
}

func (q *Queue) checkIdle(fail failFunc) {
	n := 0
	for a := q.idle.first; a != nil; a = a.idleNext {
		n++
		if !a.idle || q.accounts[a.name] != a || a.held[requests] > 0 || a.running > 0 {
			fail("account %q is in the idle list with %d waiting and %d running", a.name, a.held[requests], a.running)
		}
	}
	all := 0
	for _, a := range q.accounts {
		if a.held[requests] == 0 && a.running == 0 {
			all++
		}
	}
	if n != all || n != q.idle.n {
		fail("%d accounts are idle; the idle list has %d, counted %d", all, n, q.idle.n)
	}
	if n := len(q.accounts); n > q.mapPeak || q.mapPeak > max(smallMap, 4*n+4) {
		fail("the map of accounts had up to %d and has %d", q.mapPeak, n)
	}
}

func (f *flow) checkItems(held *[boundCount]int64, fail failFunc) {
	n, cost := 0, 0.0
	var last *Item
	for it := f.head; it != nil; last, it = it, it.next {
		if it.flow != f || it.prev != last || last != nil && !last.before(it) || it.Account != f.account.name {
			fail("account %q: item %d is out of place", f.account.name, n)
		}
		n++
		cost += it.cost
		for i := range held {
			held[i] += it.size(bound(i))
		}
	}
	if n != f.waiting || !near(cost, f.cost) || f.tail != last || f.newest != last {
		fail("account %q has %d waiting of cost %v; counted %d of %v", f.account.name, f.waiting, f.cost, n, cost)
	}
}

func (f *flow) checkPlaces(capped bool, fail failFunc) {
	waits := f.head != nil
	want := [placeCount]bool{inOrder: waits && !capped, inAges: waits && !capped, inRequests: waits, inBytes: waits}
	for i, at := range f.at {
		if (at > 0) != want[i] {
			fail("account %q: with %d waiting, at its cap: %v, its index in heap %[5]d is %[4]d",
				f.account.name, f.waiting, capped, at, i)
		}
	}
}

func (h *heap) check(fail failFunc) {
	for i, e := range h.entries {
		f := e.flow
		if int(f.at[h.place]) != i+1 {
			fail("heap %d: account %q has index %d, is at %d", h.place, f.account.name, f.at[h.place], i+1)
		}
		if e.key != h.key(f) {
			fail("heap %d: account %q has key %v, stored %v", h.place, f.account.name, h.key(f), e.key)
		}
		if i > 0 && e.key.before(h.entries[(i-1)/2].key) {
			fail("heap %d: account %q at %d precedes its parent", h.place, f.account.name, i+1)
		}
	}
}

// near allows for rounding: sums were added to and subtracted from in different orders.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b)) }
