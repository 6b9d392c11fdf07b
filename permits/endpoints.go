package permits

import (
	"slices"
	"time"

	"colonnade/balance"
)

// endpoint is one endpoint and the permits held on it.
type endpoint struct {
	Endpoint
	held    int
	counted int  // free, as Pool.free has it
	own     int  // permits that may be granted here: Concurrency without Taken, none while Withheld or Draining
	maxHeld int  // permits that may be held: Concurrency, or as many as were held when that became less; see Check
	index   int  // in Pool.order, or noIndex
	removed bool // no longer of the pool; kept while permits are held
	usable  bool

	placements []*placement // for each policy and reason by which requests got it

	beside    int       // requests that the engine has beside those of permits, see SetBeside
	doubtful  bool      // as by ReportLife
	abandoned abandoned // releases that nothing has proven yet

	full      bool // the engine said so; true until fullTimer ends it, and not by the passing of fullUntil alone
	fullUntil time.Duration
	fullTimer *time.Timer
}

const noIndex = -1

// free is how many slots can be granted now.
func (e *endpoint) free() int {
	if e.removed || !e.usable || e.full {
		return 0
	}
	return max(0, e.own-e.held)
}

// limit is how many slots e adds to the limit of the pool.
func (e *endpoint) limit() int {
	if !e.usable || e.Withheld || e.Draining {
		return 0
	}
	return e.Concurrency
}

// placement returns the one of permits for e by a policy and a reason.
func (e *endpoint) placement(p balance.Policy, w balance.Why) *placement {
	for _, known := range e.placements {
		if known.policy == p && known.why == w {
			return known
		}
	}
	made := &placement{endpoint: e.ID, policy: p, why: w}
	e.placements = append(e.placements, made)
	return made
}

// serves reports whether a request can wait for e.
func (e *endpoint) serves() bool { return !e.removed && e.usable && !e.Draining && e.Concurrency > 0 }

// load is how many requests the engine is known to have.
func (e *endpoint) load() int { return e.Taken + e.held + e.beside }

// clamped returns e with bounded numbers, so that comparisons of loads cannot overflow.
func (e Endpoint) clamped() Endpoint {
	e.Concurrency = min(max(e.Concurrency, 0), 1<<20)
	e.Taken = min(max(e.Taken, 0), 1<<20) // not to the concurrency, which may rise later
	e.Weight = min(max(e.Weight, 1), 1<<20)
	return e
}

// SetEndpoints replaces the endpoints of the pool; of two with the same ID the first counts. An endpoint that was not in
// the pool before is usable until SetUsable says otherwise. Permits on removed endpoints stay valid and counted, also if
// the endpoint comes back.
func (p *Pool) SetEndpoints(es []Endpoint) {
	p.offerRing(es, nil)
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.EqualFunc(p.order, es, func(e *endpoint, want Endpoint) bool { return e.Endpoint == want.clamped() }) {
		return
	}
	before := p.order
	served := slices.DeleteFunc(slices.Clone(before), func(e *endpoint) bool { return !e.serves() })
	p.order = make([]*endpoint, 0, len(es))
	for _, e := range before {
		e.removed = true
	}
	for _, want := range es {
		p.setEndpointLocked(want.clamped())
	}
	for _, e := range before {
		if e.removed {
			e.stopFull()
			e.index = noIndex
			p.forgetLocked(e)
		}
	}
	p.balanceLocked()
	p.adjustLocked(now, slices.ContainsFunc(served, func(e *endpoint) bool { return !e.serves() }))
}

// setEndpointLocked adds one endpoint to the new order. An endpoint of the old order is marked removed until it is added.
func (p *Pool) setEndpointLocked(want Endpoint) {
	e := p.endpoints[want.ID]
	if e == nil {
		e = &endpoint{removed: true, index: noIndex}
		p.endpoints[want.ID] = e
	}
	if !e.removed {
		return // the second with this ID
	}
	if e.index == noIndex {
		e.usable = true
	}
	e.set(want)
	e.removed = false
	e.index = len(p.order)
	p.order = append(p.order, e)
}

// set changes the slots and the weight of e.
func (e *endpoint) set(want Endpoint) {
	e.Endpoint = want
	e.maxHeld = max(e.Concurrency, e.held)
	e.own = want.ownSlots()
}

// ownSlots is how many permits may be granted here.
func (e Endpoint) ownSlots() int {
	if e.Withheld || e.Draining {
		return 0
	}
	return e.Concurrency - e.Taken
}

// forgetLocked drops a removed endpoint once no permit is held on it.
func (p *Pool) forgetLocked(e *endpoint) {
	if e.removed && e.held == 0 {
		delete(p.endpoints, e.ID)
	}
}

// Resize changes the number of slots of one endpoint. Permits held on it stay valid; with fewer slots than permits, none is
// granted until enough were released. An ID that the pool does not have is ignored.
func (p *Pool) Resize(id string, concurrency int) {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.endpoints[id]
	if e == nil || e.removed {
		return
	}
	want := e.Endpoint
	want.Concurrency = concurrency
	if want = want.clamped(); want == e.Endpoint {
		return
	}
	served := e.serves()
	e.set(want)
	p.balancer.Resize(e.index, max(e.Concurrency, 1))
	p.adjustLocked(now, served && !e.serves())
}

// SetUsable takes the slots of an endpoint out of the pool, or puts them back. Permits held on it stay valid. An ID that
// the pool does not have is ignored.
func (p *Pool) SetUsable(id string, usable bool) {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.endpoints[id]; e != nil && !e.removed && e.usable != usable {
		served := e.serves()
		e.usable = usable
		p.adjustLocked(now, served && !e.serves())
	}
}

// ReportLife reports whether the engine of an endpoint lives, and returns how many permits are held on it. The slots of a doubtful
// endpoint are granted, but do not count in the drain rate. An ID that the pool does not have is ignored.
func (p *Pool) ReportLife(id string, l Life) (held int) {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.endpoints[id]
	if e == nil {
		return 0
	}
	switch l {
	case Alive:
		p.holds.proven(now, &e.abandoned)
	case Doubtful:
		e.abandoned = abandoned{}
	}
	if doubtful := l == Doubtful; doubtful != e.doubtful {
		e.doubtful = doubtful
		p.recountLocked()
	}
	return e.held
}

// SetBeside sets how many requests the engine of an endpoint has beside those that permits are held for. They take no slot; the choice of
// an endpoint counts them. An ID that the pool does not have is ignored.
func (p *Pool) SetBeside(id string, requests int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.endpoints[id]; e != nil {
		e.beside = min(max(requests, 0), 1<<20)
		p.updateLocked(e)
	}
}

// Busy returns how many slots of an endpoint are taken, also by other pools and other servers; 0 of an ID that the pool does not have.
func (p *Pool) Busy(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.endpoints[id]; e != nil {
		return e.Taken + e.held
	}
	return 0
}

// MarkFull keeps new permits off an endpoint for a while, because its engine said that it has no room. Of several marks the
// one that lasts longest counts. An ID that the pool does not have is ignored.
func (p *Pool) MarkFull(id string, until time.Time) {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	e, end := p.endpoints[id], until.Sub(p.began)
	if e == nil || e.removed || end <= max(now, e.fullUntil) {
		return
	}
	e.full, e.fullUntil = true, end
	if e.fullTimer != nil {
		e.fullTimer.Stop() // it may be firing already: endFull then finds that it is too early
	}
	e.fullTimer = time.AfterFunc(end-now, func() { p.endFull(e) })
	p.recountLocked()
	p.trackFullLocked(now)
}

// endFull ends the mark of an endpoint, unless a longer one was set or the endpoint removed since the timer fired.
func (p *Pool) endFull(e *endpoint) {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.full && now >= e.fullUntil {
		e.stopFull()
		p.recountLocked()
		p.dispatchLocked(now)
	}
}

func (e *endpoint) stopFull() {
	if e.fullTimer != nil {
		e.fullTimer.Stop()
	}
	e.full, e.fullUntil, e.fullTimer = false, 0, nil
}

// hasEndpointLocked reports whether there is an endpoint to wait for, for a request that avoids these IDs.
func (p *Pool) hasEndpointLocked(avoid []string, excluded *Exclusions) bool {
	return slices.ContainsFunc(p.order, func(e *endpoint) bool {
		return e.serves() && !avoided(avoid, excluded, e)
	})
}

func avoided(avoid []string, excluded *Exclusions, e *endpoint) bool {
	return len(avoid) > 0 && slices.Contains(avoid, e.ID) || !excluded.none() && excluded.Has(e.ID)
}
