package routing

import (
	"cmp"
	"slices"
	"time"

	"colonnade/fleet"
)

// routes is what a plan needs of a table and a model, without what depends on the request. It is immutable.
type routes struct {
	colos        []*fleet.Colo   // usable ones, by name
	guesses      []time.Duration // distances of colos, by index
	steps        []step
	poolsUnknown bool // no colo that a step selects has the model's pool, so colos without it are usable
}

// step is one step of a plan.
type step struct {
	pick     pick
	attempts int           // greatest number of colos; 0 = all
	within   time.Duration // longest round trip; 0 = any
	members  []member      // in order: as the step names them, then by name; otherwise by name
}

// member is a colo that a step selects.
type member struct {
	colo   int     // index into routes.colos
	weight float64 // 0 = none
}

// pick is the order within a step.
type pick int

const (
	pickOrder pick = iota
	pickRandom
	pickLatency
	pickLeastLoaded
	pickWeighted
	pickFlow // by weights, then by distance
)

var pickNames = [...]string{
	pickOrder: fleet.PickOrder, pickRandom: fleet.PickRandom, pickLatency: fleet.PickLatency,
	pickLeastLoaded: fleet.PickLeastLoaded, pickWeighted: fleet.PickWeighted, pickFlow: fleet.AlgorithmFlow,
}

// String returns the name of p in documents.
func (p pick) String() string { return pickNames[p] }

// newRoutes returns the routes of a model for an entry at a place.
func newRoutes(at Place, t *fleet.Table, m *fleet.Model, draining bool) *routes {
	r := &routes{}
	r.find(at, t, m, draining)
	if !slices.ContainsFunc(r.steps, func(s step) bool { return len(s.members) > 0 }) {
		r.poolsUnknown = true
		r.find(at, t, m, draining)
	}
	return r
}

// find sets the usable colos and the steps.
func (r *routes) find(at Place, t *fleet.Table, m *fleet.Model, draining bool) {
	r.colos, r.guesses, r.steps = nil, nil, nil
	for _, c := range t.Colos() {
		if whyUnusable(t, c, draining) == "" && (r.poolsUnknown || mayHavePool(t, c, m.Pool)) {
			r.colos = append(r.colos, c)
			r.guesses = append(r.guesses, Guess(at, placeOf(c)))
		}
	}
	for _, s := range stepsOf(at, t, m) {
		r.steps = append(r.steps, r.step(s))
	}
}

// routingStep is a step of a model, or the one step that another algorithm stands for.
type routingStep struct {
	fleet.Step
	pick pick
}

// stepsOf returns the steps of a model at a place.
func stepsOf(at Place, t *fleet.Table, m *fleet.Model) []routingStep {
	switch m.Routing.Algorithm {
	case fleet.AlgorithmRandom:
		return []routingStep{{pick: pickRandom}}
	case fleet.AlgorithmLatency:
		return []routingStep{{pick: pickLatency}}
	case fleet.AlgorithmFlow:
		return []routingStep{{pick: pickFlow, Step: fleet.Step{Weights: flowWeights(at, t, m)}}}
	}
	steps := make([]routingStep, len(m.Routing.Steps))
	for i, s := range m.Routing.Steps {
		steps[i] = routingStep{Step: s, pick: pick(max(slices.Index(pickNames[:], s.Pick), 0))}
	}
	return steps
}

// flowWeights returns the weights of colos for the region of the entry; nil if there are none.
func flowWeights(at Place, t *fleet.Table, m *fleet.Model) map[string]float64 {
	flow, ok := t.Flow(m.Name)
	if !ok {
		return nil
	}
	if weights, ok := flow.Regions[at.Region]; ok {
		return weights
	}
	return flow.Regions[fleet.AnyRegion]
}

// step returns a step with the usable colos that it selects.
func (r *routes) step(s routingStep) step {
	out := step{pick: s.pick, attempts: s.Attempts, within: s.Within.Std()}
	for i, c := range r.colos {
		if s.Selects(c) {
			out.members = append(out.members, member{i, s.Weights[c.Name]})
		}
	}
	if s.pick == pickOrder && len(s.Colos) > 0 {
		rank := make(map[string]int, len(s.Colos))
		for i, name := range slices.Backward(s.Colos) { // a name that stands twice counts where it stands first
			rank[name] = i - len(s.Colos)
		}
		slices.SortStableFunc(out.members, func(a, b member) int {
			return cmp.Compare(rank[r.colos[a.colo].Name], rank[r.colos[b.colo].Name])
		})
	}
	return out
}

// whyUnusable returns why a colo gets no requests for any pool; empty = it does.
func whyUnusable(t *fleet.Table, c *fleet.Colo, draining bool) string {
	if c.State != fleet.StateActive {
		return c.State
	}
	has := slices.ContainsFunc(t.Servers(c.Name), func(s *fleet.Server) bool { return (s.State == fleet.StateDraining) == draining })
	switch {
	case has:
		return ""
	case draining:
		return "no draining server"
	}
	return "no active server"
}

// mayHavePool reports whether one of the servers of a colo has registered a pool, or has registered no pools. Draining servers
// count too: another server takes their pools over, and registers them a moment later.
func mayHavePool(t *fleet.Table, c *fleet.Colo, pool string) bool {
	return slices.ContainsFunc(t.Servers(c.Name), func(s *fleet.Server) bool {
		_, has := s.Pools[pool]
		return has || s.Pools == nil
	})
}
