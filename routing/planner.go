package routing

import (
	"slices"
	"sync"
	"time"

	"colonnade/fleet"
)

// Planner makes the plans of one entry. It keeps what depends on the table and the model only, for the last two tables. It is
// safe for concurrent use.
type Planner struct {
	at        Place
	scratches sync.Pool // of *scratch

	mu          sync.Mutex // guards the field below
	generations [2]generation
}

// generation has the routes of the models of one table.
type generation struct {
	table  *fleet.Table
	routes map[routesKey]*routes
}

type routesKey struct {
	model    *fleet.Model
	draining bool
}

// NewPlanner returns a planner for an entry at a place.
func NewPlanner(at Place) *Planner {
	return &Planner{at: at, scratches: sync.Pool{New: func() any { return &scratch{} }}}
}

// Plan appends the colos to try for m to dst, best first, and returns the extended slice. It appends none if no colo can serve m now.
func (p *Planner) Plan(dst []Stop, t *fleet.Table, m *fleet.Model, r Request) []Stop {
	if r.Forced != "" {
		return appendForced(dst, t, r)
	}
	routes := p.routes(t, m, r.Draining)
	if len(routes.colos) == 0 {
		return dst
	}
	s := p.scratches.Get().(*scratch)
	dst = s.plan(slices.Grow(dst, len(routes.colos)), routes, r)
	s.routes, s.request = nil, Request{} // so that nothing of the table stays in use
	p.scratches.Put(s)
	return dst
}

// appendForced appends the forced colo, whether it has the model's pool or not: it replaces the plan.
func appendForced(dst []Stop, t *fleet.Table, r Request) []Stop {
	c, ok := t.Colo(r.Forced)
	if !ok || whyUnusable(t, c, r.Draining) != "" {
		return dst
	}
	stop := Stop{Colo: c, Step: 1}
	if r.Seen != nil {
		seen := r.Seen(c)
		stop.Last = seen.reason()
	}
	return append(dst, stop)
}

// Distance returns the round trip to a colo, and whether it was measured or else guessed.
func (p *Planner) Distance(c *fleet.Colo, r Request) (d time.Duration, measured bool) {
	if r.RoundTrip != nil {
		if d, ok := r.RoundTrip(c); ok {
			return d, true
		}
	}
	return Guess(p.at, placeOf(c)), false
}

// routes returns the routes of a model, which it computes once for each table.
func (p *Planner) routes(t *fleet.Table, m *fleet.Model, draining bool) *routes {
	key := routesKey{m, draining}
	if known := p.known(t, key); known != nil {
		return known
	}
	computed := newRoutes(p.at, t, m, draining)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generationLocked(t).routes[key] = computed
	return computed
}

// known returns the routes that were computed before, or nil.
func (p *Planner) known(t *fleet.Table, key routesKey) *routes {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.generationLocked(t).routes[key]
}

// generationLocked returns the generation of a table. A new one replaces the older of two, since requests that began with the
// table before may still be about to plan.
func (p *Planner) generationLocked(t *fleet.Table) *generation {
	for i := range p.generations {
		if p.generations[i].table == t {
			return &p.generations[i]
		}
	}
	p.generations[1] = p.generations[0]
	p.generations[0] = generation{table: t, routes: map[routesKey]*routes{}}
	return &p.generations[0]
}
