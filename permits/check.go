package permits

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Check compares every sum and index of the pool with what can be counted, and returns all that is wrong.
func (p *Pool) Check() error {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("permits: "+format, args...)) }
	p.checkPermitsLocked(fail)
	p.checkSlotsLocked(fail)
	for i := range p.pendingRetries {
		p.pendingRetries[i].check(fail)
	}
	n, standIns, waiting := 0, 0, map[uint64]int{}
	for it := range p.queue.Items() {
		n++
		w := it.Value.(*waiter)
		p.checkWaiterLocked(now, w, fail)
		if !w.excluded.none() {
			waiting[w.excluded.key()]++
		}
		if w.standIn {
			standIns++
		} else if p.away {
			fail("a request of account %q waits though another server is the home", w.item.Account)
		}
	}
	if standIns != p.standIns || standIns > 0 && !p.away {
		fail("%d stand-ins, counted %d; another server is the home: %v", p.standIns, standIns, p.away)
	}
	for key, r := range p.restricted {
		r.retries.check(fail)
		if r.waiting != waiting[key] {
			fail("%d requests that the same endpoints may serve wait, counted %d", r.waiting, waiting[key])
		}
		delete(waiting, key)
	}
	if len(waiting) > 0 {
		fail("requests of %d kinds that only some endpoints may serve wait and are not counted", len(waiting))
	}
	if p.closed && n > 0 {
		fail("%d wait though the queue is closed", n)
	}
	if full := p.limit > 0 && p.free == 0; full != (p.fullSince >= 0) {
		fail("%d of %d slots are free, but full since %v", p.free, p.limit, p.fullSince)
	}
	return errors.Join(append(errs, p.queue.Check())...)
}

type failFunc = func(format string, args ...any)

// checkPermitsLocked checks that what is held on each endpoint is what was granted and not released.
func (p *Pool) checkPermitsLocked(fail failFunc) {
	held, total, grants := map[*endpoint]int{}, 0, time.Duration(0)
	for i, s := range p.states {
		if s.at != i || (s.serial != 0) != (i < p.heldLocked()) {
			fail("state %d, of permit %d, has index %d, and %d are held", i, s.serial, s.at, p.heldLocked())
		}
		if s.serial != 0 {
			held[s.endpoint]++
			total++
			grants += s.granted
		}
	}
	if total != p.heldLocked() || total != p.queue.Running() {
		fail("%d granted, %d released, %d run; but of %d states %d are held",
			p.serial, p.released, p.queue.Running(), len(p.states), total)
	}
	if grants != p.grantTimeSum {
		fail("the instants of grant of %d permits add up to %v, counted %v", total, p.grantTimeSum, grants)
	}
	for id, e := range p.endpoints {
		if held[e] != e.held {
			fail("endpoint %q holds %d, counted %d", id, e.held, held[e])
		}
		delete(held, e)
		if !e.removed && e.own != e.ownSlots() {
			fail("of endpoint %q %d may be granted, counted %d", id, e.own, e.ownSlots())
		}
		if e.held < 0 || e.held > e.maxHeld {
			fail("endpoint %q holds %d, at most %d may be", id, e.held, e.maxHeld)
		}
		if e.removed == slices.Contains(p.order, e) || e.removed && e.held == 0 || e.ID != id {
			fail("endpoint %q (%q) with %d held, removed: %v, is in the wrong place", id, e.ID, e.held, e.removed)
		}
	}
	if len(held) > 0 {
		fail("permits are held on %d unknown endpoints", len(held))
	}
}

func (p *Pool) checkSlotsLocked(fail failFunc) {
	limit, responsive, free := 0, 0, 0
	for i, e := range p.order {
		if e.index != i {
			fail("endpoint %q has index %d, is at %d", e.ID, e.index, i)
		}
		limit += e.limit()
		if !e.doubtful {
			responsive += e.limit()
		}
		free += e.free()
		if e.counted != e.free() {
			fail("endpoint %q has %d free, counted %d", e.ID, e.free(), e.counted)
		}
	}
	if limit != p.limit || responsive != p.responsive || free != p.free {
		fail("limit %d, of which %d respond, and %d free; counted %d, %d and %d", p.limit, p.responsive, p.free, limit, responsive, free)
	}
}

// checkWaiterLocked checks that a waiter is not resolved, has an endpoint to wait for, and is beside no slot that it could
// use, unless it declines that.
func (p *Pool) checkWaiterLocked(now time.Duration, w *waiter, fail failFunc) {
	if w.resolved {
		fail("a request of account %q waits though it was resolved", w.item.Account)
	}
	if !p.hasEndpointLocked(w.avoid, &w.excluded) {
		fail("a request of account %q has no endpoint to wait for", w.item.Account)
	}
	if p.blocked || p.queue.AtCap(&w.item) || w.leaving(now) || p.declinesLocked(now, w) {
		return
	}
	for _, e := range p.order {
		if e.free() > 0 && !avoided(w.avoid, &w.excluded, e) {
			fail("a request of account %q waits beside a free slot of endpoint %q", w.item.Account, e.ID)
			return
		}
	}
}

// declinesLocked reports whether a waiter has declined a slot, and a timer will offer it those that are free when it declines no longer.
func (p *Pool) declinesLocked(now time.Duration, w *waiter) bool {
	return w.declinesUntil != 0 && p.declineTimer != nil && p.declineEnds <= max(w.declinesUntil, now)
}
