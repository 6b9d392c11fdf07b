package permits

import (
	"time"

	"colonnade/balance"
)

// maxDeclined is how many requests that wait may decline a slot until one of them must take it: each that does costs time under the mutex.
const maxDeclined = 16

// chooseLocked returns the endpoint for a request that avoids these IDs; its index is balance.None if no slot is free for it.
func (p *Pool) chooseLocked(now time.Duration, r *balance.Request, avoid []string, excluded *Exclusions) balance.Choice {
	if len(avoid) == 0 && excluded.none() {
		return p.balancer.Choose(now, r, nil)
	}
	return p.balancer.Choose(now, r, p.barredLocked(avoid, excluded))
}

// balanceLocked gives the balancer the endpoints of a new order.
func (p *Pool) balanceLocked() {
	p.balancer.SetEndpoints(p.balanceListLocked())
	p.barred = barred{}
}

func (p *Pool) balanceListLocked() []balance.Endpoint {
	list := make([]balance.Endpoint, len(p.order))
	for i, e := range p.order {
		list[i] = balanceEndpoint(e.Endpoint)
	}
	return list
}

func balanceEndpoint(e Endpoint) balance.Endpoint {
	return balance.Endpoint{ID: e.ID, Slots: max(e.Concurrency, 1), Weight: e.Weight}
}

// offerRing builds the ring that a change of the endpoints or of the policy needs before the mutex is taken for it; nil stands for what does
// not change. If something else changes meanwhile, the ring may be built under the mutex after all.
func (p *Pool) offerRing(es []Endpoint, c *balance.Config) {
	p.mu.Lock()
	if c == nil {
		c = &p.config.Balance
	}
	if !c.UsesRing() {
		p.mu.Unlock()
		return
	}
	var list []balance.Endpoint
	if es == nil {
		list = p.balanceListLocked()
	} else {
		seen := make(map[string]bool, len(es))
		for _, e := range es {
			if !seen[e.ID] {
				seen[e.ID] = true
				list = append(list, balanceEndpoint(e.clamped()))
			}
		}
	}
	lacks := p.balancer.LacksRing(c, list)
	p.mu.Unlock()
	if !lacks {
		return
	}
	ring := balance.NewRing(list)
	p.mu.Lock()
	p.balancer.OfferRing(ring)
	p.mu.Unlock()
}

// updateLocked counts the free slots of an endpoint that has changed, and tells the balancer how busy it is.
func (p *Pool) updateLocked(e *endpoint) {
	if e.index == noIndex {
		return
	}
	free := e.free()
	p.free += free - e.counted
	e.counted = free
	p.balancer.Update(e.index, balance.State{Load: e.load(), Free: free, Up: e.usable && !e.Draining && e.Concurrency > 0})
}

// declineLocked reports whether a request that waits declines the endpoint of a choice, since it prefers another. It does so
// for PreferWait from its first offer, while others take those slots; then it takes any. It declines for half of the time that it may still wait at
// most, or it could be refused beside a free slot.
func (p *Pool) declineLocked(now time.Duration, w *waiter, c balance.Choice) bool {
	if c.Prefers == balance.None || p.config.PreferWait <= 0 || p.declined >= maxDeclined || p.noDecline {
		return false
	}
	if w.declinesUntil == 0 {
		w.declinesUntil = now + min(p.config.PreferWait, (w.waitUntil-now)/2)
	}
	if now >= w.declinesUntil {
		return false
	}
	p.declined++
	p.wakeForDeclinedLocked(now, w.declinesUntil)
	return true
}

// dispatchToAllLocked hands free slots also to requests that would decline them, since their places in the queue are needed.
func (p *Pool) dispatchToAllLocked(now time.Duration) {
	p.noDecline = true
	p.dispatchLocked(p.presentLocked(now))
	p.noDecline = false
}

// mayDeclineLocked reports whether a request that arrives may decline a free slot: it must be able to wait for longer than that takes.
func (p *Pool) mayDeclineLocked(now, deadline time.Duration, r *Request, c balance.Choice) bool {
	wait := p.config.PreferWait
	return c.Prefers != balance.None && wait > 0 && p.declined < maxDeclined && !p.closed && !r.Rejoin &&
		min(r.MaxWait, p.config.MaxWait, deadline-now) > wait && (r.MaxExpected < 0 || r.MaxExpected >= wait)
}

// wakeForDeclinedLocked hands out the slots that are free at an instant, when a request stops declining them.
func (p *Pool) wakeForDeclinedLocked(now, at time.Duration) {
	switch {
	case p.declineTimer == nil:
		p.declineTimer = time.AfterFunc(at-now, p.endDecline)
	case at < p.declineEnds:
		p.declineTimer.Reset(at - now)
	default:
		return
	}
	p.declineEnds = at
}

func (p *Pool) endDecline() {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.declineTimer = nil
	p.dispatchLocked(now)
}

// ReportFirstByte reports how soon an answer of an endpoint has begun, to a prompt of so many bytes. An ID that the pool does not have is
// ignored.
func (p *Pool) ReportFirstByte(id string, input int, after time.Duration) {
	if !p.latencies.Load() {
		return
	}
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.endpoints[id]; e != nil && e.index != noIndex {
		p.balancer.FirstByte(now, e.index, input, after)
	}
}

// SetCacheSize sets how many bytes of prompts the cache of an endpoint's engine holds; 0: not known. An ID that the pool does not have is
// ignored.
func (p *Pool) SetCacheSize(id string, bytes int64) {
	for done := false; !done; {
		done = true
		p.withIndex(id, func(at int) { done = p.balancer.SetCacheSize(at, bytes) })
	}
}

// ForgetCache says that the cache of an endpoint's engine is empty. An ID that the pool does not have is ignored.
func (p *Pool) ForgetCache(id string) {
	p.withIndex(id, func(at int) { p.balancer.Forget(at) })
}
