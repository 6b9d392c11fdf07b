package balance_test

import (
	"fmt"
	"testing"

	"colonnade/balance"
)

// pool is a balancer, and the last state of each of its endpoints.
type pool struct {
	t *testing.T
	*balance.Balancer
	list   []balance.Endpoint
	states []balance.State
}

// engines returns endpoints e0, e1, … of weight 1 with so many slots each.
func engines(n, slots int) []balance.Endpoint {
	list := make([]balance.Endpoint, n)
	for i := range list {
		list[i] = balance.Endpoint{ID: fmt.Sprintf("http://10.0.0.%d:8000", i), Slots: slots, Weight: 1}
	}
	return list
}

// newPool returns a pool whose endpoints are all up and idle.
func newPool(t *testing.T, c balance.Config, list []balance.Endpoint) *pool {
	p := &pool{t: t, Balancer: balance.New(c)}
	p.set(list)
	return p
}

// set replaces the endpoints by others, which are all up and idle.
func (p *pool) set(list []balance.Endpoint) {
	p.list, p.states = list, make([]balance.State, len(list))
	p.SetEndpoints(list)
	for at, e := range list {
		p.update(at, balance.State{Free: e.Slots, Up: true})
	}
}

func (p *pool) update(at int, s balance.State) {
	p.states[at] = s
	p.Update(at, s)
}

// take grants a slot of an endpoint.
func (p *pool) take(at int, r *balance.Request) {
	s := p.states[at]
	if s.Free == 0 {
		p.t.Fatalf("%s was chosen, and has no free slot", p.list[at].ID)
	}
	s.Load, s.Free = s.Load+1, s.Free-1
	p.update(at, s)
	p.Granted(0, at, r)
}

// release ends a request.
func (p *pool) release(at int, r *balance.Request) {
	s := p.states[at]
	s.Load, s.Free = s.Load-1, s.Free+1
	p.update(at, s)
	p.Released(at, p.list[at].ID, r)
}

// full makes all slots of an endpoint taken.
func (p *pool) full(at int) {
	p.update(at, balance.State{Load: p.list[at].Slots, Up: true})
}

// want expects a choice.
func (p *pool) want(r *balance.Request, barred []bool, want balance.Choice) {
	p.t.Helper()
	if got := p.Choose(0, r, barred); got != want {
		p.t.Errorf("Choose(key %x, barred %v) = %s, want %s", r.Key, barred, text(got), text(want))
	}
}

func text(c balance.Choice) string {
	return fmt.Sprintf("{At: %d, Prefers: %d, Why: %v}", c.At, c.Prefers, c.Why)
}
