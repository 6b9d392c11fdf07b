package admission

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"colonnade/fleet"
	"colonnade/permits"
)

// fullMarkDuration is for how long an endpoint that said "full" gets no request.
const fullMarkDuration = time.Second

// Pool is one pool of this node: its permits, its queue, and the endpoints that they are for. It is safe for concurrent
// use.
type Pool struct {
	name    string
	manager *Manager
	permits *permits.Pool
	free    atomic.Pointer[permits.Pool] // of requests that take no slot; nil: there was none

	// Guarded by the manager's mutex.
	removed         bool               // the last table does not have it
	members         map[string]*engine // its engines, by URL
	membersChanged  bool               // since what they lack was published last
	adaptersChanged bool               // since the permits learned of them

	document   atomic.Pointer[fleet.Pool]
	endpoints  atomic.Pointer[map[string]member] // by URL
	lacking    atomic.Pointer[lacking]           // nil: no endpoint lacks anything
	documented atomic.Pointer[documented]        // nil: no request has needed it
	ttft       ttftByClass
	prompts    promptSize
}

// member is an endpoint of a pool.
type member struct {
	*fleet.Endpoint
	signs *signsOfLife // of its engine
}

// Grant is a permit and the endpoint that it is for. It must be released once.
type Grant struct {
	permits.Permit
	Endpoint *fleet.Endpoint

	grantedAt time.Time // only of an endpoint with concurrency: auto
	signs     *signsOfLife
	free      bool // it takes no slot
}

// Received returns where to note that bytes of the engine have arrived for the request: they show that the engine lives.
func (g Grant) Received() *atomic.Bool { return &g.signs.received }

// GaveUp notes that the request ends before its answer does, because its client has left or its time has run out. The engine may hang;
// until it gives a sign of life, the release of the permit does not count as that of a request that was served. The permit must still be
// held.
func (g Grant) GaveUp() {
	g.signs.gaveUp.Add(1)
	g.Abandoned()
}

// Name returns the pool's name.
func (p *Pool) Name() string { return p.name }

// Document returns the pool's document in force, with defaults. It is shared: do not modify it.
func (p *Pool) Document() *fleet.Pool { return p.document.Load() }

// Load returns how busy the pool is. It is cheap.
func (p *Pool) Load() permits.Load { return p.permits.Load() }

// Acquire returns a grant; or a *[permits.Refusal]; or context.Cause(ctx), if ctx ended first; or [permits.ErrWaits] for a detached request: see
// [permits.Pool.Acquire]. If a permit cannot be used, Acquire changes r and asks again.
func (p *Pool) Acquire(ctx context.Context, r *permits.Request) (g Grant, err error) {
	for {
		if g.Permit, err = p.permits.Acquire(ctx, r); err != nil {
			return Grant{}, err
		}
		if e, ok := (*p.endpoints.Load())[g.Permit.Endpoint()]; ok && p.mayUse(g.Permit) {
			g.use(e)
			return g, nil
		}
		// Since the grant, the endpoint was removed; or the process was stopped for so long that the fence has passed, and
		// another server may have granted the same slot: also if the process has registered again by now.
		g.Cancel()
		waited := g.Permit.Queued() - r.WaitedBefore
		r.MaxWait -= waited
		r.WaitedBefore += waited
		r.Rejoin, r.Now = true, time.Time{}
	}
}

// OnResolved calls whenResolved when the wait of a detached request is over: see [permits.Pool.OnResolved].
func (p *Pool) OnResolved(r *permits.Request, whenResolved func()) {
	p.permits.OnResolved(r, whenResolved)
}

func (g *Grant) use(e member) {
	if g.Endpoint, g.signs = e.Endpoint, e.signs; e.Auto != nil {
		g.grantedAt = time.Now()
	}
}

// MayUse reports whether the permit may still be used for a request that was not sent yet.
func (p *Pool) MayUse(g Grant) bool { return g.free || p.mayUse(g.Permit) }

func (p *Pool) mayUse(t permits.Permit) bool {
	f := p.manager.fence
	return f.Valid() && t.Epoch() == f.Epoch() // in this order: the fence may be valid again because a new epoch has begun
}

// Succeeded reports that e answered as it should. As a rule that is nothing new, and needs no mutex: a request would wait for a table that is
// being applied.
func (p *Pool) Succeeded(e *fleet.Endpoint) {
	if known, ok := (*p.endpoints.Load())[e.URL]; ok && known.signs.flawless.Load() {
		return
	}
	p.manager.report(e.URL, func(h *health) { h.succeeded() })
}

// Failed reports that e could not be reached, answered with an error of its own, or cut its answer. A client's error, a
// cancellation and "full" are no failures. reason is shown to operators, and must contain nothing of a request.
func (p *Pool) Failed(e *fleet.Endpoint, reason string) {
	now := time.Now()
	p.manager.report(e.URL, func(h *health) {
		h.failed(now, reason, func() bool { return p.manager.mayEjectLocked(p) })
	})
}

// Refused reports that e has refused or reset a connection before anything was sent. It is ejected at once, unless more than half of the
// pool's endpoints would be, and checked soon: two failed checks take it down, and one that succeeds brings it back.
func (p *Pool) Refused(e *fleet.Endpoint, reason string) {
	now := time.Now()
	p.manager.report(e.URL, func(h *health) {
		h.refused(now, reason, func() bool { return p.manager.mayEjectLocked(p) })
	})
}

// LatestStart returns when a request that asks now must have its permit to get its first byte by firstBy: with a later permit, no
// endpoint would serve it in time.
func (p *Pool) LatestStart(now, firstBy time.Time, w Work) time.Time {
	return p.ttft.latestStart(now, firstBy, &w)
}

// recordTTFT records how soon an answer has begun.
func (p *Pool) recordTTFT(f *FirstByte) {
	now := f.At
	if now.IsZero() {
		now = time.Now()
	}
	if p.ttft.add(now, &f.Work, f.After) {
		return
	}
	p.manager.mu.Lock()
	p.ttft.addClassLocked(now, f.Work.class())
	p.manager.mu.Unlock()
	p.ttft.add(now, &f.Work, f.After)
}

// Refuse makes the refusal of a request that no endpoint took though it had a permit.
func (p *Pool) Refuse(r *permits.Request, reason permits.Reason) *permits.Refusal {
	return p.permits.Refuse(r, reason)
}

// idle reports whether no request runs or waits.
func (p *Pool) idle() bool {
	l := p.permits.Load()
	free := p.free.Load()
	return l.Held == 0 && l.Queued == 0 && (free == nil || free.Load().Held == 0)
}

// Check returns which of the pool's invariants do not hold, or nil.
func (p *Pool) Check() error {
	if err := p.permits.Check(); err != nil {
		return fmt.Errorf("pool %s: %w", p.name, err)
	}
	if free := p.free.Load(); free != nil {
		if err := free.Check(); err != nil {
			return fmt.Errorf("pool %s, requests without slots: %w", p.name, err)
		}
	}
	return nil
}

// Check returns which invariants of any pool do not hold, or nil.
func (m *Manager) Check() error {
	var all []error
	for _, p := range m.Pools() {
		all = append(all, p.Check())
	}
	return errors.Join(append(all, m.checkGrants()...)...)
}

// checkGrants returns where more can be granted than the grants allow: on an engine that is not in them, or slots that other pools and
// servers hold.
func (m *Manager) checkGrants() (all []error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held, _ := m.heldLocked()
	for _, p := range m.pools {
		for _, s := range p.permits.Endpoints() {
			share, granted := m.grantLocked(s.URL)
			switch others := held[s.URL].without(p); {
			case s.Removed:
			case !granted && !s.Withheld:
				all = append(all, fmt.Errorf("pool %s: permits can be granted on %s, which is outside the grants", p.name, s.URL))
			case s.Taken < others+share.Taken:
				all = append(all, fmt.Errorf("pool %s: %d slots of %s are taken, but other pools hold %d and other servers %d",
					p.name, s.Taken, s.URL, others, share.Taken))
			}
		}
	}
	return all
}
