package admission

import (
	"context"
	"slices"
	"strings"

	"colonnade/permits"
)

// MaxFree bounds the requests at one endpoint that take no slot of it, at once.
const MaxFree = 64

// freePermits bounds the requests of a pool that take no slots, since engines do next to nothing for them. They are granted by places of their
// own, which every server of the colo grants for itself: neither the pool's home nor the fence matters. None of them waits.
func (p *Pool) freePermits() *permits.Pool {
	if free := p.free.Load(); free != nil {
		return free
	}
	m := p.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	if free := p.free.Load(); free != nil {
		return free
	}
	free := permits.New(permits.Config{})
	p.setFreeLocked(free)
	if m.draining {
		free.Drain()
	}
	p.free.Store(free)
	return free
}

// setFreeLocked gives the endpoints of p to its permits for requests without slots.
func (p *Pool) setFreeLocked(free *permits.Pool) {
	var list []permits.Endpoint
	for url, e := range *p.endpoints.Load() {
		list = append(list, permits.Endpoint{ID: url, Concurrency: MaxFree, Weight: e.Weight, Draining: e.Draining()})
	}
	slices.SortFunc(list, func(a, b permits.Endpoint) int { return strings.Compare(a.ID, b.ID) })
	free.SetEndpoints(list)
	for url := range *p.endpoints.Load() {
		free.SetUsable(url, p.manager.engines[url].usable())
	}
}

// AcquireFree is [Pool.Acquire] for a request that takes no slot. It does not wait: while all places are taken, the refusal is busy.
func (p *Pool) AcquireFree(ctx context.Context, r *permits.Request) (g Grant, err error) {
	free, wanted := p.freePermits(), *r
	wanted.MaxWait, wanted.MaxExpected, wanted.Concurrent = 0, -1, 0
	for {
		if g.Permit, err = free.Acquire(ctx, &wanted); err != nil {
			return Grant{}, err
		}
		if e, ok := (*p.endpoints.Load())[g.Permit.Endpoint()]; ok {
			g.Endpoint, g.signs, g.free = e.Endpoint, e.signs, true
			return g, nil
		}
		g.Cancel() // the endpoint was removed a moment ago
	}
}
