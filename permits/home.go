package permits

import (
	"slices"
)

// SetHome sets whether this server is the home of the pool; it is until SetHome says otherwise. If it is not, all waiters and all later
// requests are refused with the reason moved, but for those with Request.StandIn. Stand-ins that wait when it becomes the home are
// ordinary waiters from then on.
func (p *Pool) SetHome(home bool) {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away == !home {
		return
	}
	p.away = !home
	if home {
		p.admitStandInsLocked()
		return
	}
	p.rejectWaitersLocked(now, Moved, func(*waiter) bool { return true })
}

// admitStandInsLocked makes all stand-ins ordinary waiters.
func (p *Pool) admitStandInsLocked() {
	if p.standIns == 0 {
		return
	}
	for it := range p.queue.Items() {
		it.Value.(*waiter).standIn = false
	}
	p.standIns = 0
}

// RefuseStandIns refuses the stand-ins that wait, because the pool's home answers again. They keep their places: see Request.Rejoin.
func (p *Pool) RefuseStandIns() {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.standIns > 0 {
		p.rejectWaitersLocked(now, Moved, func(w *waiter) bool { return w.standIn })
	}
}

// StandIns returns how many requests wait only because the pool's home did not answer.
func (p *Pool) StandIns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.standIns
}

// movedLocked reports whether a request is for another server, which is the pool's home.
func (p *Pool) movedLocked(r *Request) bool { return p.away && !r.StandIn }

// sortByArrival puts waiters in the order in which they arrived. They are woken in this order: if another server takes them all, its
// queue has the oldest of each account first from the beginning.
func sortByArrival(waiters []*waiter) {
	slices.SortStableFunc(waiters, func(a, b *waiter) int { return a.item.Arrived.Compare(b.item.Arrived) })
}

// AddHeld adds to each endpoint's count in total how many permits are held on it, also on endpoints that were removed.
func (p *Pool) AddHeld(total map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, e := range p.endpoints {
		if e.held > 0 {
			total[id] += e.held
		}
	}
}
