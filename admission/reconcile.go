package admission

import (
	"slices"
	"strings"
	"time"

	"colonnade/permits"
)

// reconcileInterval is how often slots that another pool still holds are counted anew.
const reconcileInterval = 50 * time.Millisecond

// reconcile gives pools the slots that other pools have released since, and forgets pools that have ended.
func (m *Manager) reconcile() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.tickLocked(now)
	m.listenLocked(now)
	m.ageFiguresLocked(now)
	m.logEventsLocked(now)
	if m.reconcilePending {
		m.reconcileLocked()
	}
	m.forgetPoolsLocked()
}

// reconcileLocked gives every pool its endpoints, each with the slots that no other pool still holds on it. An old pool can
// be granted more slots until the endpoint is removed from it, so there are two rounds. The first removes endpoints from
// their old pools, and adds them to the new ones with no free slot. A pool that keeps an endpoint keeps its slots there; what
// other pools hold of them, as counted before, can only have become less. The second round counts what the old pools still
// hold, and frees the rest.
func (m *Manager) reconcileLocked() {
	placed := m.endpointsByPoolLocked()
	held, owner := m.heldLocked()
	for _, p := range m.pools {
		endpoints := placed[p]
		p.endpoints.Store(&endpoints)
		p.setEndpointsLocked(func(e *engine) permits.Endpoint {
			e.others = held[e.endpoint.URL].without(p)
			want := e.permitsEndpoint()
			if owner[want.ID] != p {
				want.Taken = want.Concurrency
			}
			return want
		})
		p.setUsableLocked()
	}
	held, _ = m.heldLocked()
	m.reconcilePending = false
	for _, p := range m.pools {
		p.setEndpointsLocked(func(e *engine) permits.Endpoint {
			e.others = held[e.endpoint.URL].without(p)
			m.reconcilePending = m.reconcilePending || e.others > 0
			return e.permitsEndpoint()
		})
		p.tellAdaptersLocked()
		if free := p.free.Load(); free != nil {
			p.setFreeLocked(free)
		}
	}
}

// endpointsByPoolLocked returns the endpoints of each pool, by URL.
func (m *Manager) endpointsByPoolLocked() map[*Pool]map[string]member {
	placed := map[*Pool]map[string]member{}
	for url, e := range m.engines {
		if e.pool == nil {
			continue
		}
		if placed[e.pool] == nil {
			placed[e.pool] = map[string]member{}
		}
		placed[e.pool][url] = member{e.endpoint, e.signs}
	}
	return placed
}

// holders has how many permits each pool holds on an engine.
type holders map[*Pool]int

// without is how many permits other pools than p hold.
func (h holders) without(p *Pool) (n int) {
	for holder, held := range h {
		if holder != p {
			n += held
		}
	}
	return n
}

// heldLocked returns which pools hold permits on each URL, and which one may be granted more there.
func (m *Manager) heldLocked() (held map[string]holders, owner map[string]*Pool) {
	held, owner = map[string]holders{}, map[string]*Pool{}
	for _, p := range m.pools {
		for _, e := range p.permits.Endpoints() {
			if !e.Removed {
				owner[e.URL] = p
			}
			if e.Held == 0 {
				continue
			}
			if held[e.URL] == nil {
				held[e.URL] = holders{}
			}
			held[e.URL][p] = e.Held
		}
	}
	return held, owner
}

// setEndpointsLocked sets the endpoints of the pool's permits to what of returns for each.
func (p *Pool) setEndpointsLocked(of func(*engine) permits.Endpoint) {
	endpoints := *p.endpoints.Load()
	list := make([]permits.Endpoint, 0, len(endpoints))
	for url := range endpoints {
		list = append(list, of(p.manager.engines[url]))
	}
	slices.SortFunc(list, func(a, b permits.Endpoint) int { return strings.Compare(a.ID, b.ID) })
	p.permits.SetEndpoints(list)
}

// setUsableLocked sets which endpoints the pool's permits may use, by their health.
func (p *Pool) setUsableLocked() {
	for url := range *p.endpoints.Load() {
		p.permits.SetUsable(url, p.manager.engines[url].usable())
	}
}

// permitsEndpoint returns the engine as the permits of its pool see it.
func (e *engine) permitsEndpoint() permits.Endpoint {
	return permits.Endpoint{
		ID: e.endpoint.URL, Concurrency: e.slots(), Taken: e.others + e.share.Taken, Weight: e.endpoint.Weight, Withheld: !e.granted,
		Draining: e.endpoint.Draining(),
	}
}
