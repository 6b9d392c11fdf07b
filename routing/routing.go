// Package routing turns a table and a model into a plan: the colos to try, in order. Plan is a pure function: randomness
// comes from a seed, and knowledge of load is a parameter.
//
// A step selects colos and orders them; colos that were last seen full go to the end of the step; the step then yields at
// most as many colos as its attempts. A colo is in a plan once, in the first step that yields it. Colos that are not
// active or have no live server are left out.
package routing

import (
	"math/rand/v2"
	"slices"

	"colonnade/fleet"
)

// Request holds what a plan depends on besides the table and the model.
type Request struct {
	Forced   string                 // the only colo to try; empty = by the routing of the model
	Full     func(colo string) bool // reports whether the pool of a colo was last seen full; nil = none was
	Draining bool                   // plan colos with a draining server instead of those with an active one
	Seed     uint64
}

// Plan returns the colos to try for m, best first. It is empty if no colo can serve m now.
func Plan(t *fleet.Table, m *fleet.Model, r Request) []*fleet.Colo {
	p := planner{table: t, model: m, request: r, random: rand.New(rand.NewPCG(r.Seed, 0))}
	switch {
	case r.Forced != "":
		p.step(fleet.Step{Colos: []string{r.Forced}})
	case m.Routing.Algorithm == fleet.AlgorithmRandom:
		p.step(fleet.Step{Pick: fleet.PickRandom})
	default:
		for _, s := range m.Routing.Steps {
			p.step(s)
		}
	}
	return p.plan
}

type planner struct {
	table   *fleet.Table
	model   *fleet.Model
	request Request
	random  *rand.Rand
	plan    []*fleet.Colo
}

// step adds the colos that one step yields.
func (p *planner) step(s fleet.Step) {
	colos := p.selected(s)
	if s.Pick == fleet.PickRandom {
		p.random.Shuffle(len(colos), func(i, j int) { colos[i], colos[j] = colos[j], colos[i] })
	}
	if p.request.Full != nil {
		colos = fullLast(colos, p.request.Full)
	}
	if s.Attempts > 0 {
		colos = colos[:min(s.Attempts, len(colos))]
	}
	p.plan = append(p.plan, colos...)
}

// selected returns the usable colos that s names, in its order, and those of its regions; all if it names neither. Colos
// that are in the plan already are left out.
func (p *planner) selected(s fleet.Step) []*fleet.Colo {
	var colos []*fleet.Colo
	add := func(c *fleet.Colo) {
		usable := c.State == fleet.StateActive && p.hasServer(c)
		if usable && !slices.Contains(p.plan, c) && !slices.Contains(colos, c) {
			colos = append(colos, c)
		}
	}
	for _, name := range s.Colos {
		if c, ok := p.table.Colo(name); ok {
			add(c)
		}
	}
	for _, c := range p.table.Colos() {
		if len(s.Colos) == 0 && len(s.Regions) == 0 || slices.Contains(s.Regions, c.Region) {
			add(c)
		}
	}
	return colos
}

func (p *planner) hasServer(c *fleet.Colo) bool {
	return slices.ContainsFunc(p.table.Servers(c.Name), func(s *fleet.Server) bool {
		return (s.State == fleet.StateDraining) == p.request.Draining
	})
}

// fullLast moves the colos that were last seen full to the end, and keeps the order of the others.
func fullLast(colos []*fleet.Colo, full func(string) bool) []*fleet.Colo {
	ordered := make([]*fleet.Colo, 0, len(colos))
	var last []*fleet.Colo
	for _, c := range colos {
		if full(c.Name) {
			last = append(last, c)
		} else {
			ordered = append(ordered, c)
		}
	}
	return append(ordered, last...)
}
