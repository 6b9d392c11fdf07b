package colo

import (
	"context"
	"errors"
	"sync"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/permits"
	"colonnade/reasons"
)

// tableSkew is how far apart the tables of two nodes may be, since a change is in force everywhere within a second. A request waits that
// long for a model that its entry knows and this server does not, and a deleted model is still served that long.
const tableSkew = time.Second

// appliedTable is the table that the pools were made from. The newest table may be ahead of them for a moment, and a request that used it
// would miss the pool of a model that was just added or moved.
type appliedTable struct {
	table    *fleet.Table
	deleted  map[string]deletedModel
	replaced chan struct{} // closed when the next table is applied
	targets  sync.Map      // of type transport.Target, by URL of an endpoint, once a request has needed it
}

// deletedModel is a model whose deletion may not have reached all entries.
type deletedModel struct {
	model *fleet.Model
	at    time.Time
}

func newAppliedTable(t *fleet.Table) *appliedTable {
	return &appliedTable{table: t, deleted: map[string]deletedModel{}, replaced: make(chan struct{})}
}

// after returns the state in force when t replaces the table.
func (f *appliedTable) after(t *fleet.Table, now time.Time) *appliedTable {
	next := newAppliedTable(t)
	for _, m := range f.table.Models() {
		next.deleted[m.Name] = deletedModel{m, now}
	}
	for name, d := range f.deleted {
		if now.Sub(d.at) < tableSkew && next.deleted[name].model == nil {
			next.deleted[name] = d
		}
	}
	for _, m := range t.Models() {
		delete(next.deleted, m.Name)
	}
	return next
}

// model returns a model by name, also one that was deleted less than tableSkew ago.
func (f *appliedTable) model(name string) (*fleet.Model, bool) {
	if m, ok := f.table.Model(name); ok {
		return m, true
	}
	d, ok := f.deleted[name]
	return d.model, ok && time.Since(d.at) < tableSkew
}

// target returns the target of an endpoint's URL, which is parsed once for each table.
func (f *appliedTable) target(url string) (transport.Target, error) {
	if known, ok := f.targets.Load(url); ok {
		return known.(transport.Target), nil
	}
	target, err := transport.ParseTarget(url)
	if err == nil {
		f.targets.Store(url, target)
	}
	return target, err
}

// Apply applies a table. It must be called before Serve, and by one goroutine at a time.
func (s *Server) Apply(t *fleet.Table) {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.pools.Apply(t)
	last := s.applied.Load()
	s.applied.Store(last.after(t, time.Now()))
	close(last.replaced)
	s.credentials.retain(t.EndpointsOf(s.config.Colo))
}

// settled waits until no table is being applied, and returns the state in force.
func (s *Server) settled() *appliedTable {
	s.applying.RLock()
	defer s.applying.RUnlock()
	return s.applied.Load()
}

// table returns the table in force.
func (s *Server) table() *fleet.Table { return s.applied.Load().table }

// find finds the model and its pool, and waits for a table that has them for at most tableSkew: the entry knows the model, so it was put
// or deleted a moment ago.
func (c *call) find(ctx context.Context) *refusal {
	if c.lookUp(c.server.applied.Load()) {
		return nil
	}
	late := time.NewTimer(tableSkew)
	defer late.Stop()
	for {
		now := c.server.applied.Load()
		if c.lookUp(now) {
			return nil
		}
		select {
		case <-now.replaced:
		case <-ctx.Done():
			return c.cancelled(ctx)
		case <-late.C: // another colo may know it
			return &refusal{err: openai.ModelNotFound(c.token.Model), verdict: hop.Verdict{Kind: hop.VerdictError, Reason: reasons.UnknownModel}}
		}
	}
}

// lookUp looks the model and its pool up in one table.
func (c *call) lookUp(f *appliedTable) bool {
	model, ok := f.model(c.token.Model)
	if !ok {
		return false
	}
	pool, ok := c.server.pools.Pool(model.Pool)
	if ok {
		c.model, c.pool, c.table = model, pool, f
	}
	return ok
}

// reroute moves a request whose pool has no endpoint to the pool that its model has in a newer table, if there is one. The request keeps
// its first arrival time and its budget for waiting.
func (c *call) reroute(err error) bool {
	var full *permits.Refusal
	if !errors.As(err, &full) || full.Reason != permits.NoEndpoint {
		return false
	}
	now := c.server.settled()
	model, ok := now.model(c.model.Name)
	if !ok || now == c.table {
		return false
	}
	pool, ok := c.server.pools.Pool(model.Pool)
	if ok {
		c.pool, c.table = pool, now
	}
	return ok
}
