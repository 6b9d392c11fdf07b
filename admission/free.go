package admission

import (
	"context"
	"errors"
	"slices"
	"strings"

	"colonnade/permits"
)

const (
	// MaxFree bounds the requests at one endpoint that take no slot of it, at once.
	MaxFree = 64
	// FreeShare is the part of a pool's places for such requests that one account may hold, so that no client keeps all others from them.
	FreeShare = 0.25
)

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
	free := permits.New(permits.Config{MaxShare: FreeShare})
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

// AcquireFree is [Pool.Acquire] for a request that takes no slot. It does not wait: while all places are taken, the refusal is busy, and while its
// account holds its share of them account_limit.
func (p *Pool) AcquireFree(ctx context.Context, r *permits.Request) (g Grant, err error) {
	free, wanted := p.freePermits(), *r
	wanted.MaxWait, wanted.MaxExpected, wanted.Concurrent, wanted.Detached = 0, -1, p.freeShareOf(&r.Excluded), false
	for {
		if g.Permit, err = free.Acquire(ctx, &wanted); err != nil {
			var refused *permits.Refusal
			if errors.As(err, &refused) {
				refused.MayWait = false // here, the reason busy does not say that there is a queue
			}
			return Grant{}, err
		}
		if e, ok := (*p.endpoints.Load())[g.Permit.Endpoint()]; ok {
			g.Endpoint, g.signs, g.free = e.Endpoint, e.signs, true
			return g, nil
		}
		g.Cancel() // the endpoint was removed a moment ago
	}
}

// freeShareOf is how many places an account may hold with requests that must not go to some endpoints, such as those without the path: its share of
// the places at the others; 0 if they may go to all, where the pool's own bound counts.
func (p *Pool) freeShareOf(excluded *permits.Exclusions) int {
	if *excluded == (permits.Exclusions{}) {
		return 0
	}
	places := 0
	for url, e := range *p.endpoints.Load() {
		if !e.Draining() && !excluded.Has(url) {
			places += MaxFree
		}
	}
	return max(1, int(FreeShare*float64(places)))
}

// freeStats returns the state of the requests without slots, and names at most so many of their accounts; nil if there was none yet.
func (p *Pool) freeStats(accounts int) *permits.NoSlotStats {
	free := p.free.Load()
	if free == nil {
		return nil
	}
	s := free.DetailedStats(accounts)
	out := &permits.NoSlotStats{
		Limit: s.Limit, PerAccount: max(1, int(FreeShare*float64(s.Limit))), Held: s.Held, Granted: s.Granted, Refused: s.Refused,
		OtherAccounts: s.OtherAccounts,
	}
	for i := range s.Accounts {
		if a := &s.Accounts[i]; a.Held > 0 {
			out.Accounts = append(out.Accounts, permits.NoSlotAccount{Account: a.Account, Held: a.Held})
		}
	}
	return out
}
