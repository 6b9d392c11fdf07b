package colo

import (
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/openai"
	"colonnade/permits"
)

// catchUp is how far apart the tables of two nodes may be: everywhere a change is in force within a second. So long a
// request waits for a model that its entry knows and this server does not, and so long a model that was deleted is
// still served.
const catchUp = time.Second

// inForce is the table that the pools are in line with. The newest one may be ahead of them for a moment, and a request
// that went by it would miss the pool of a model that has just come or moved.
type inForce struct {
	table    *fleet.Table
	deleted  map[string]deletedModel
	replaced chan struct{} // closed when another one is in force
}

// deletedModel is a model that an entry may not know yet to be gone.
type deletedModel struct {
	model *fleet.Model
	at    time.Time
}

func newInForce(t *fleet.Table) *inForce {
	return &inForce{table: t, deleted: map[string]deletedModel{}, replaced: make(chan struct{})}
}

// after is what is in force when t takes the place of the table before.
func (f *inForce) after(t *fleet.Table, now time.Time) *inForce {
	next := newInForce(t)
	for _, m := range f.table.Models() {
		next.deleted[m.Name] = deletedModel{m, now}
	}
	for name, d := range f.deleted {
		if now.Sub(d.at) < catchUp && next.deleted[name].model == nil {
			next.deleted[name] = d
		}
	}
	for _, m := range t.Models() {
		delete(next.deleted, m.Name)
	}
	return next
}

// model returns the model of that name, also if it was deleted only a moment ago.
func (f *inForce) model(name string) (*fleet.Model, bool) {
	if m, ok := f.table.Model(name); ok {
		return m, true
	}
	d, ok := f.deleted[name]
	return d.model, ok && time.Since(d.at) < catchUp
}

// Apply brings the server in line with a table. It must be called before Serve, and not by two at once.
func (s *Server) Apply(t *fleet.Table) {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.pools.Apply(t)
	last := s.inForce.Load()
	s.inForce.Store(last.after(t, time.Now()))
	close(last.replaced)
}

// settled returns what is in force once no table is being applied: in between, the pools are ahead of it.
func (s *Server) settled() *inForce {
	s.applying.RLock()
	defer s.applying.RUnlock()
	return s.inForce.Load()
}

// table returns the table in force.
func (s *Server) table() *fleet.Table { return s.inForce.Load().table }

// find finds the model and its pool. The entry knows the model, so if we do not, it was put or deleted a moment ago and
// our tables differ.
func (c *call) find() *refusal {
	if c.lookUp(c.server.inForce.Load()) {
		return nil
	}
	late := time.NewTimer(catchUp)
	defer late.Stop()
	for {
		now := c.server.inForce.Load()
		if c.lookUp(now) {
			return nil
		}
		select {
		case <-now.replaced:
		case <-c.Context.Done():
			return unreachable(permits.Draining)
		case <-late.C: // another colo may know it
			return &refusal{err: openai.ModelNotFound(c.hop.Model), verdict: hop.Verdict{Kind: hop.VerdictError, Reason: "unknown_model"}}
		}
	}
}

// lookUp looks for the model and its pool. A pool that is not there has come or gone since.
func (c *call) lookUp(f *inForce) bool {
	model, ok := f.model(c.hop.Model)
	if !ok {
		return false
	}
	pool, ok := c.server.pools.Pool(model.Pool)
	if ok {
		c.model, c.pool, c.under = model, pool, f
	}
	return ok
}

// follow takes a request whose pool has no endpoint on to the pool that its model has now, if another table has come
// since the pool was chosen. There it waits from when it first arrived, within what it may wait in all.
func (c *call) follow(err error) bool {
	full := refusedFor(err)
	if full == nil || full.Reason != permits.NoEndpoint {
		return false
	}
	now := c.server.settled()
	model, ok := now.model(c.model.Name)
	if !ok || now == c.under {
		return false
	}
	pool, ok := c.server.pools.Pool(model.Pool)
	if ok {
		c.pool, c.under = pool, now
	}
	return ok
}
