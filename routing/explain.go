package routing

import (
	"fmt"
	"time"

	"colonnade/fleet"
)

// Explanation says why each colo of a fleet stands where it does in a plan, or why it was left out.
type Explanation struct {
	Model     string `json:"model"`
	Pool      string `json:"pool"`
	Algorithm string `json:"algorithm"` // of the model; "forced" = the request names the colo
	// PoolsUnknown says that no colo that the steps select has registered the pool, so the plan does not go by registrations.
	PoolsUnknown bool            `json:"pools_unknown,omitempty"`
	Steps        []ExplainedStep `json:"steps"`
	Unusable     []ExplainedColo `json:"unusable"` // colos that no step can use, by name
}

// Forced is the algorithm of the explanation of a request that names its colo.
const Forced = "forced"

// ExplainedStep is one step of an explanation.
type ExplainedStep struct {
	Number  int             `json:"step"` // from 1
	Pick    string          `json:"pick"`
	Colos   []ExplainedColo `json:"colos"`    // in the order of the plan
	LeftOut []ExplainedColo `json:"left_out"` // usable ones, by name
}

// ExplainedColo is one colo of an explanation.
type ExplainedColo struct {
	Colo     string        `json:"colo"`
	Region   string        `json:"region,omitempty"`
	Distance time.Duration `json:"distance_ns"` // round trip
	Measured bool          `json:"measured"`    // Distance was measured, not guessed
	Known    bool          `json:"load_known"`  // Free and Limit were reported
	Free     int           `json:"free"`
	Limit    int           `json:"limit"`
	Last     Reason        `json:"last,omitempty"` // why it stands behind others of its step; empty = it does not
	Why      string        `json:"why"`            // why it stands there, or was left out
}

// Explain explains the plan of a request. It needs the distance of each colo, so it calls r.RoundTrip for colos that Plan does not
// ask for.
func (p *Planner) Explain(t *fleet.Table, m *fleet.Model, r Request) Explanation {
	e := explainer{planner: p, table: t, model: m, request: remembered(r)}
	out := Explanation{Model: m.Name, Pool: m.Pool, Algorithm: m.Routing.Algorithm, Steps: []ExplainedStep{}}
	stops := p.Plan(nil, t, m, e.request)
	if r.Forced != "" {
		out.Algorithm = Forced
		out.Steps, out.Unusable = e.forced(stops)
		return out
	}
	routes := p.routes(t, m, r.Draining)
	out.PoolsUnknown = routes.poolsUnknown
	out.Unusable = e.unusable(routes)
	for i, s := range stepsOf(p.at, t, m) {
		out.Steps = append(out.Steps, e.step(routes, s, i+1, stops))
	}
	return out
}

// remembered returns the request with functions that answer each question once, so that the plan and its explanation agree although
// new reports arrive meanwhile.
func remembered(r Request) Request {
	if ask := r.Seen; ask != nil {
		known := map[*fleet.Colo]Seen{}
		r.Seen = func(c *fleet.Colo) Seen {
			seen, ok := known[c]
			if !ok {
				seen = ask(c)
				known[c] = seen
			}
			return seen
		}
	}
	if ask := r.RoundTrip; ask != nil {
		type answer struct {
			d  time.Duration
			ok bool
		}
		known := map[*fleet.Colo]answer{}
		r.RoundTrip = func(c *fleet.Colo) (time.Duration, bool) {
			a, ok := known[c]
			if !ok {
				a.d, a.ok = ask(c)
				known[c] = a
			}
			return a.d, a.ok
		}
	}
	return r
}

type explainer struct {
	planner *Planner
	table   *fleet.Table
	model   *fleet.Model
	request Request
}

// forced explains the plan of a request that names its colo.
func (e *explainer) forced(stops []Stop) ([]ExplainedStep, []ExplainedColo) {
	only := ExplainedStep{Number: 1, Pick: Forced, Colos: []ExplainedColo{}, LeftOut: []ExplainedColo{}}
	unusable := []ExplainedColo{}
	for _, stop := range stops {
		only.Colos = append(only.Colos, e.stop(stop, "the request names it"))
	}
	for _, c := range e.table.Colos() {
		why := whyUnusable(e.table, c, e.request.Draining)
		switch {
		case why != "":
			unusable = append(unusable, e.colo(c, why))
		case c.Name != e.request.Forced:
			only.LeftOut = append(only.LeftOut, e.colo(c, "the request names another colo"))
		}
	}
	return []ExplainedStep{only}, unusable
}

// unusable returns the colos that no step can use.
func (e *explainer) unusable(r *routes) []ExplainedColo {
	out := []ExplainedColo{}
	for _, c := range e.table.Colos() {
		why := whyUnusable(e.table, c, e.request.Draining)
		if why == "" && !r.poolsUnknown && !mayHavePool(e.table, c, e.model.Pool) {
			why = "no pool " + e.model.Pool
		}
		if why != "" {
			out = append(out, e.colo(c, why))
		}
	}
	return out
}

// step explains one step. Stops is the whole plan.
func (e *explainer) step(r *routes, s routingStep, number int, stops []Stop) ExplainedStep {
	out := ExplainedStep{Number: number, Pick: s.pick.String(), Colos: []ExplainedColo{}, LeftOut: []ExplainedColo{}}
	earlier := map[*fleet.Colo]int{}
	for _, stop := range stops {
		if stop.Step == number {
			out.Colos = append(out.Colos, e.stop(stop, e.whyThere(s, stop.Colo)))
		}
		if stop.Step <= number {
			earlier[stop.Colo] = stop.Step
		}
	}
	for _, c := range r.colos {
		if step := earlier[c]; step != number {
			out.LeftOut = append(out.LeftOut, e.colo(c, e.whyNotInStep(s, c, step)))
		}
	}
	return out
}

// whyNotInStep returns why a usable colo is not in a step. Earlier is the step before that has it; 0 = none.
func (e *explainer) whyNotInStep(s routingStep, c *fleet.Colo, earlier int) string {
	distance, _ := e.planner.Distance(c, e.request)
	switch {
	case !s.Selects(c):
		return "not selected"
	case earlier > 0:
		return fmt.Sprintf("already in step %d", earlier)
	case s.Within > 0 && distance > s.Within.Std():
		return fmt.Sprintf("beyond within: %v", rounded(distance))
	}
	return "beyond attempts"
}

// whyThere returns by which rule a colo has its place in a step.
func (e *explainer) whyThere(s routingStep, c *fleet.Colo) string {
	weight := s.Weights[c.Name]
	switch s.pick {
	case pickRandom:
		return "random"
	case pickLatency:
		return "distance"
	case pickLeastLoaded:
		if seen := e.seen(c); seen.hasLoad() {
			return "free slots"
		}
		return "load not known"
	case pickWeighted, pickFlow:
		switch {
		case weight > 0:
			return fmt.Sprintf("weight %g", weight)
		case s.pick == pickFlow:
			return "no weight, so by distance"
		}
		return "no weight"
	}
	for i, name := range s.Colos {
		if name == c.Name {
			return fmt.Sprintf("colo %d of the step", i+1)
		}
	}
	return "by name"
}

// stop explains a colo of the plan.
func (e *explainer) stop(stop Stop, why string) ExplainedColo {
	out := e.colo(stop.Colo, why)
	switch out.Last = stop.Last; stop.Last {
	case ReasonFull:
		out.Why += "; last, since it was full a moment ago"
	case ReasonUnreached:
		out.Why += "; last, since it does not answer"
	}
	return out
}

func (e *explainer) colo(c *fleet.Colo, why string) ExplainedColo {
	seen := e.seen(c)
	out := ExplainedColo{Colo: c.Name, Region: c.Region, Known: seen.Known, Free: seen.Free, Limit: seen.Limit, Why: why}
	out.Distance, out.Measured = e.planner.Distance(c, e.request)
	return out
}

func (e *explainer) seen(c *fleet.Colo) Seen {
	if e.request.Seen == nil {
		return Seen{}
	}
	return e.request.Seen(c)
}

// rounded returns a round trip for reading, in tenths of a millisecond.
func rounded(d time.Duration) time.Duration { return d.Round(time.Millisecond / 10) }
