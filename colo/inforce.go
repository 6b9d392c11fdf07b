package colo

import (
	"context"
	"errors"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/openai"
	"colonnade/permits"
	"colonnade/reasons"
)

// tableSkew is how far apart the tables of two nodes may be: everywhere a change is in force within a second. So long a
// request waits for a model that its entry knows and this server does not, and so long a model that was deleted is
// still served.
const tableSkew = time.Second

// appliedTable is the table that the pools are in line with. The newest one may be ahead of them for a moment, and a request
// that went by it would miss the pool of a model that has just come or moved.
type appliedTable struct {
	table    *fleet.Table
	deleted  map[string]deletedModel
	replaced chan struct{} // closed when another one is in force
}

// deletedModel is a model that an entry may not know yet to be gone.
type deletedModel struct {
	model *fleet.Model
	at    time.Time
}

func newAppliedTable(t *fleet.Table) *appliedTable {
	return &appliedTable{table: t, deleted: map[string]deletedModel{}, replaced: make(chan struct{})}
}

// after is what is in force when t takes the place of the table before.
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

// model returns the model of that name, also if it was deleted only a moment ago.
func (f *appliedTable) model(name string) (*fleet.Model, bool) {
	if m, ok := f.table.Model(name); ok {
		return m, true
	}
	d, ok := f.deleted[name]
	return d.model, ok && time.Since(d.at) < tableSkew
}

// Apply brings the server in line with a table. It must be called before Serve, and not by two at once.
func (s *Server) Apply(t *fleet.Table) {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.pools.Apply(t)
	last := s.applied.Load()
	s.applied.Store(last.after(t, time.Now()))
	close(last.replaced)
}

// settled returns what is in force once no table is being applied: in between, the pools are ahead of it.
func (s *Server) settled() *appliedTable {
	s.applying.RLock()
	defer s.applying.RUnlock()
	return s.applied.Load()
}

// table returns the table in force.
func (s *Server) table() *fleet.Table { return s.applied.Load().table }

// find finds the model and its pool. The entry knows the model, so if we do not, it was put or deleted a moment ago and
// our tables differ.
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
			if cause := context.Cause(ctx); !errors.Is(cause, errDrained) {
				return &refusal{gone: cause}
			}
			return unreachable(permits.Draining)
		case <-late.C: // another colo may know it
			return &refusal{err: openai.ModelNotFound(c.hop.Model), verdict: hop.Verdict{Kind: hop.VerdictError, Reason: reasons.UnknownModel}}
		}
	}
}

// lookUp looks for the model and its pool. A pool that is not there has come or gone since.
func (c *call) lookUp(f *appliedTable) bool {
	model, ok := f.model(c.hop.Model)
	if !ok {
		return false
	}
	pool, ok := c.server.pools.Pool(model.Pool)
	if ok {
		c.model, c.pool, c.table = model, pool, f
	}
	return ok
}

// reroute takes a request whose pool has no endpoint on to the pool that its model has now, if another table has come
// since the pool was chosen. There it waits from when it first arrived, within what it may wait in all.
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
