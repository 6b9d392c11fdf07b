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

// fullMarkDuration is how long an endpoint that said "full" is taken at its word.
const fullMarkDuration = time.Second

// Pool is one pool of this node: its permits, its queue, and the endpoints they are for.
type Pool struct {
	name    string
	manager *Manager
	permits *permits.Pool
	removed bool // the last table does not speak of it; guarded by the manager's mutex

	document  atomic.Pointer[fleet.Pool]
	endpoints atomic.Pointer[map[string]*fleet.Endpoint] // by URL
	ttft      ttftByClass
}

// Grant is a permit and the endpoint that it is for. It must be released once.
type Grant struct {
	permits.Permit
	Endpoint *fleet.Endpoint

	waitedBefore time.Duration // waited for permits that were of no use
	grantedAt    time.Time     // when it was granted; only of an endpoint that finds its own limit
}

// Queued returns how long the request waited in all.
func (g Grant) Queued() time.Duration { return g.waitedBefore + g.Permit.Queued() }

// Name is the pool's name.
func (p *Pool) Name() string { return p.name }

// Document is the pool's document in force, with defaults. It is shared: do not modify it.
func (p *Pool) Document() *fleet.Pool { return p.document.Load() }

// Load says how busy the pool is.
func (p *Pool) Load() permits.Load { return p.permits.Load() }

// Acquire returns a grant, or a [permits.Refusal], or the cause of ctx's end.
func (p *Pool) Acquire(ctx context.Context, r permits.Request) (Grant, error) {
	var before time.Duration
	for {
		permit, err := p.permits.Acquire(ctx, r)
		if err != nil {
			return Grant{}, err
		}
		e, ok := (*p.endpoints.Load())[permit.Endpoint()]
		if ok && p.manager.fence.Valid() {
			return newGrant(permit, e, before), nil
		}
		// Between the grant and here, the endpoint was removed: take another. Or the process was stopped for so long that
		// somebody else may have granted the same slot.
		permit.Cancel()
		before += permit.Queued()
		r.MaxWait -= permit.Queued()
		r.Rejoin = true
	}
}

func newGrant(permit permits.Permit, e *fleet.Endpoint, before time.Duration) Grant {
	g := Grant{Permit: permit, Endpoint: e, waitedBefore: before}
	if e.Auto != nil {
		g.grantedAt = time.Now()
	}
	return g
}

// Succeeded says that e answered as it should.
func (p *Pool) Succeeded(e *fleet.Endpoint) {
	p.manager.report(e.URL, func(h *health) { h.succeeded() })
}

// Failed says that e could not be reached, answered with an error of its own, or cut its answer. What a client did
// wrong, a cancellation and "full" are no failures. why is for people, and must say nothing of a request.
func (p *Pool) Failed(e *fleet.Endpoint, why string) {
	now := time.Now()
	p.manager.report(e.URL, func(h *health) {
		h.failed(now, why, func() bool { return p.manager.mayEjectLocked(p) })
	})
}

// LatestStart is when a request that wants its first byte by then must have its permit: after it, nobody could serve it
// in time.
func (p *Pool) LatestStart(firstBy time.Time, w Work) time.Time {
	return p.ttft.latestStart(time.Now(), firstBy, &w)
}

// recordTTFT takes note of how soon an answer has begun.
func (p *Pool) recordTTFT(f *FirstByte) {
	now := time.Now()
	if p.ttft.add(now, &f.Work, f.After) {
		return
	}
	p.manager.mu.Lock()
	p.ttft.addClassLocked(now, f.Work.class())
	p.manager.mu.Unlock()
	p.ttft.add(now, &f.Work, f.After)
}

// Refuse makes the refusal of a request that an endpoint would not take though it had a permit.
func (p *Pool) Refuse(r *permits.Request, reason permits.Reason) *permits.Refusal {
	return p.permits.Refuse(r, reason)
}

// idle reports whether nothing runs or waits.
func (p *Pool) idle() bool {
	l := p.permits.Load()
	return l.Held == 0 && l.Queued == 0
}

// Check returns what is wrong with the pool's invariants, or nil.
func (p *Pool) Check() error {
	if err := p.permits.Check(); err != nil {
		return fmt.Errorf("pool %s: %w", p.name, err)
	}
	return nil
}

// Check returns what is wrong with any pool, or nil.
func (m *Manager) Check() error {
	var all []error
	for _, p := range m.Pools() {
		all = append(all, p.Check())
	}
	return errors.Join(all...)
}
