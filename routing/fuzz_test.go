package routing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/routing"
)

// world is a random fleet with a model, and what an entry knows of it.
type world struct {
	random  *rand.Rand
	place   routing.Place
	table   *fleet.Table
	model   *fleet.Model
	request routing.Request
}

var regions = []string{"", "east", "south", "west"}

func newWorld(seed uint64, colos int) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 7))}
	w.place = routing.Place{Region: oneOf(w, regions...), Position: w.position()}
	var sites []site
	for i := range colos {
		sites = append(sites, w.site(fmt.Sprintf("c%03d", i)))
	}
	flow := map[string]map[string]float64{}
	for _, region := range []string{"east", "*"} {
		if w.random.IntN(2) == 0 {
			flow[region] = w.weights(colos)
		}
	}
	w.table = tableOf(sites, flow)
	w.model = modelWith()
	w.model.Routing.Algorithm = oneOf(w, fleet.AlgorithmSteps, fleet.AlgorithmSteps, fleet.AlgorithmSteps,
		fleet.AlgorithmRandom, fleet.AlgorithmLatency, fleet.AlgorithmFlow)
	for range 1 + w.random.IntN(4) {
		w.model.Routing.Steps = append(w.model.Routing.Steps, w.step(colos))
	}
	w.observe()
	return w
}

func oneOf[T any](w *world, from ...T) T { return from[w.random.IntN(len(from))] }

func (w *world) position() *fleet.Position {
	if w.random.IntN(2) == 0 {
		return nil
	}
	return &fleet.Position{Lat: w.random.Float64()*180 - 90, Lon: w.random.Float64()*360 - 180}
}

func (w *world) site(name string) site {
	s := site{
		name: name, region: oneOf(w, regions...), state: oneOf(w, "active", "active", "active", "draining", "disabled"),
		position: w.position(), servers: []fleet.Server{}, labels: map[string]string{},
	}
	for _, label := range []string{"gpu", "tier"} {
		if w.random.IntN(2) == 0 {
			s.labels[label] = oneOf(w, "", "1", "2")
		}
	}
	for i := range w.random.IntN(4) {
		s.servers = append(s.servers, fleet.Server{
			Node: fmt.Sprint(i), State: oneOf(w, fleet.StateActive, fleet.StateActive, fleet.StateDraining),
			Pools: oneOf(w, nil, map[string]int{}, map[string]int{"p": 0}, map[string]int{"p": 9, "q": 1}, map[string]int{"q": 1}),
		})
	}
	return s
}

func (w *world) weights(colos int) map[string]float64 {
	weights := map[string]float64{}
	for range w.random.IntN(5) {
		weights[fmt.Sprintf("c%03d", w.random.IntN(colos+2))] = oneOf(w, 0, 1, 2.5, 1e-9, 1e6)
	}
	return weights
}

func (w *world) step(colos int) fleet.Step {
	s := fleet.Step{
		Pick:     oneOf(w, "", fleet.PickOrder, fleet.PickRandom, fleet.PickLatency, fleet.PickLeastLoaded, fleet.PickWeighted),
		Attempts: oneOf(w, 0, 1, 2, 5, 17), Within: fleet.Duration(oneOf(w, 0, 0, 20, 100)) * fleet.Duration(time.Millisecond),
		Weights: w.weights(colos), Labels: map[string]string{},
	}
	for range w.random.IntN(4) {
		s.Colos = append(s.Colos, fmt.Sprintf("c%03d", w.random.IntN(colos+2)))
	}
	for range w.random.IntN(3) {
		s.Regions = append(s.Regions, oneOf(w, append(regions, "nowhere")...))
	}
	if w.random.IntN(4) == 0 {
		s.Labels[oneOf(w, "gpu", "tier")] = oneOf(w, "", "1", "2")
	}
	return s
}

// observe makes up what is known of the colos.
func (w *world) observe() {
	w.request.Seed = w.random.Uint64()
	seen, distances := map[*fleet.Colo]routing.Seen{}, map[*fleet.Colo]time.Duration{}
	for _, c := range w.table.Colos() {
		limit := oneOf(w, 0, 1, 16, 100)
		seen[c] = routing.Seen{
			Full: w.random.IntN(4) == 0, Unreached: w.random.IntN(6) == 0, Known: w.random.IntN(4) > 0, Limit: limit, Free: w.random.IntN(limit + 1),
		}
		if w.random.IntN(2) == 0 {
			distances[c] = oneOf(w, 0, time.Millisecond, 20*time.Millisecond, time.Duration(w.random.Int64N(int64(time.Second))))
		}
	}
	if w.random.IntN(4) > 0 {
		w.request.Seen = func(c *fleet.Colo) routing.Seen { return seen[c] }
	}
	if w.random.IntN(4) > 0 {
		w.request.RoundTrip = func(c *fleet.Colo) (time.Duration, bool) { d, ok := distances[c]; return d, ok }
	}
}

// usable says by the rules of the package whether a colo can serve the model.
func (w *world) usable(c *fleet.Colo, poolsCount bool) bool {
	active, pool := false, false
	for _, s := range w.table.Servers(c.Name) {
		_, has := s.Pools["p"]
		active, pool = active || s.State == fleet.StateActive, pool || has || s.Pools == nil
	}
	return c.State == fleet.StateActive && active && (pool || !poolsCount)
}

// selected says whether a step selects a colo, without regard to distance.
func selected(s fleet.Step, c *fleet.Colo) bool {
	for label, value := range s.Labels {
		if has, ok := c.Labels[label]; !ok || has != value {
			return false
		}
	}
	return len(s.Colos)+len(s.Regions) == 0 || slices.Contains(s.Colos, c.Name) || slices.Contains(s.Regions, c.Region)
}

// steps returns the steps that the algorithm stands for.
func (w *world) steps() []fleet.Step {
	switch w.model.Routing.Algorithm {
	case fleet.AlgorithmRandom:
		return []fleet.Step{{Pick: fleet.PickRandom}}
	case fleet.AlgorithmLatency:
		return []fleet.Step{{Pick: fleet.PickLatency}}
	case fleet.AlgorithmFlow:
		f, _ := w.table.Flow("m")
		weights, ok := f.Regions[w.place.Region]
		if !ok {
			weights = f.Regions["*"]
		}
		return []fleet.Step{{Pick: "flow", Weights: weights}}
	}
	return w.model.Routing.Steps
}

func (w *world) distance(c *fleet.Colo) time.Duration {
	if w.request.RoundTrip != nil {
		if d, ok := w.request.RoundTrip(c); ok {
			return d
		}
	}
	return routing.Guess(w.place, routing.Place{Region: c.Region, Position: c.Position})
}

func (w *world) seen(c *fleet.Colo) routing.Seen {
	if w.request.Seen == nil {
		return routing.Seen{}
	}
	return w.request.Seen(c)
}

// rank returns numbers by which the colos of a step are sorted, apart from chance.
func (w *world) rank(s fleet.Step, c *fleet.Colo) []float64 {
	seen, class := w.seen(c), 0.0
	switch {
	case seen.Unreached:
		class = 2
	case seen.Full:
		class = 1
	}
	weighted := 1.0
	if s.Weights[c.Name] > 0 {
		weighted = 0
	}
	byName := float64(slices.Index(w.table.Colos(), c))
	switch s.Pick {
	case fleet.PickRandom:
		return []float64{class}
	case fleet.PickLatency:
		return []float64{class, float64(w.distance(c)), byName}
	case fleet.PickLeastLoaded:
		if !seen.Known || seen.Limit == 0 {
			return []float64{class, 1}
		}
		return []float64{class, 0, -float64(seen.Free) / float64(seen.Limit)}
	case fleet.PickWeighted:
		return []float64{class, weighted, weighted * byName}
	case "flow":
		return []float64{class, weighted, weighted * float64(w.distance(c)), weighted * byName}
	}
	if i := slices.Index(s.Colos, c.Name); i >= 0 {
		return []float64{class, float64(i)}
	}
	return []float64{class, float64(len(s.Colos)), byName}
}

// check checks a plan by the rules: each step yields as many as it should of the colos that it selects, and none of those that it
// leaves out should stand before one that it yields.
func (w *world) check(t *testing.T, plan []routing.Stop) {
	t.Helper()
	poolsCount := slices.ContainsFunc(w.table.Colos(), func(c *fleet.Colo) bool {
		return w.usable(c, true) && slices.ContainsFunc(w.steps(), func(s fleet.Step) bool { return selected(s, c) })
	})
	planned := map[*fleet.Colo]bool{}
	for i, s := range w.steps() {
		var eligible []*fleet.Colo
		for _, c := range w.table.Colos() {
			if w.usable(c, poolsCount) && selected(s, c) && !planned[c] && (s.Within == 0 || w.distance(c) <= s.Within.Std()) {
				eligible = append(eligible, c)
			}
		}
		want := len(eligible)
		if s.Attempts > 0 {
			want = min(s.Attempts, want)
		}
		n := 0
		for n < len(plan) && plan[n].Step == i+1 {
			n++
		}
		if n != want {
			t.Fatalf("step %d %+v yields %d colos, want %d of %d", i+1, s, n, want, len(eligible))
		}
		var last []float64
		for _, stop := range plan[:n] {
			w.checkStop(t, stop, eligible)
			rank := w.rank(s, stop.Colo)
			if planned[stop.Colo] || slices.Compare(rank, last) < 0 {
				t.Fatalf("step %d %+v: %s is twice in the plan, or stands behind one that should come later", i+1, s, stop.Colo.Name)
			}
			planned[stop.Colo], last = true, rank
		}
		for _, c := range eligible {
			if n > 0 && !planned[c] && slices.Compare(w.rank(s, c), last) < 0 {
				t.Fatalf("step %d %+v leaves out %s, which should come before %s", i+1, s, c.Name, plan[n-1].Colo.Name)
			}
		}
		plan = plan[n:]
	}
	if len(plan) > 0 {
		t.Fatalf("%d colos of no step, or of a step before", len(plan))
	}
}

func (w *world) checkStop(t *testing.T, stop routing.Stop, eligible []*fleet.Colo) {
	t.Helper()
	if !slices.Contains(eligible, stop.Colo) {
		t.Fatalf("step %d yields %s, which it does not select, or which is not usable", stop.Step, stop.Colo.Name)
	}
	want := routing.Reason("")
	if seen := w.seen(stop.Colo); seen.Unreached {
		want = routing.ReasonUnreached
	} else if seen.Full {
		want = routing.ReasonFull
	}
	if stop.Last != want {
		t.Fatalf("%s is last because of %q, want %q", stop.Colo.Name, stop.Last, want)
	}
}

// checkExplanation checks that an explanation has the same plan, and each colo once in each step or once as unusable.
func (w *world) checkExplanation(t *testing.T, e routing.Explanation, plan []routing.Stop) {
	t.Helper()
	unusable := map[string]bool{}
	for _, c := range e.Unusable {
		unusable[c.Colo] = true
	}
	for _, step := range e.Steps {
		var all []string
		for _, c := range step.Colos {
			if len(plan) == 0 || plan[0].Colo.Name != c.Colo || plan[0].Step != step.Number || plan[0].Last != c.Last {
				t.Fatalf("step %d is explained with %s, which is not next in the plan", step.Number, c.Colo)
			}
			plan = plan[1:]
			all = append(all, c.Colo)
		}
		for _, c := range step.LeftOut {
			all = append(all, c.Colo)
		}
		slices.Sort(all)
		if len(slices.Compact(all)) != len(all) || len(all)+len(unusable) != len(w.table.Colos()) ||
			slices.ContainsFunc(all, func(name string) bool { return unusable[name] }) {
			t.Fatalf("step %d explains %v beside %v, not each of %d colos once", step.Number, all, unusable, len(w.table.Colos()))
		}
	}
	if len(plan) > 0 {
		t.Fatalf("%d stops are not explained", len(plan))
	}
}

// FuzzPlan makes random fleets, models and observations.
func FuzzPlan(f *testing.F) {
	for seed := range uint64(120) {
		f.Add(seed, uint8(seed*7%200))
	}
	f.Fuzz(func(t *testing.T, seed uint64, colos uint8) {
		w := newWorld(seed, int(colos))
		planner := routing.NewPlanner(w.place)
		plan := planner.Plan(nil, w.table, w.model, w.request)
		w.check(t, plan)
		if again := planner.Plan(slices.Clone(plan), w.table, w.model, w.request); !slices.Equal(again, slices.Concat(plan, plan)) {
			t.Fatalf("one seed gives the plans %v and %v", plan, again[len(plan):])
		}
		w.checkExplanation(t, planner.Explain(w.table, w.model, w.request), plan)
	})
}

// A planner serves requests with old and new tables at once, for models that these have in common.
func TestOnePlannerForManyTables(t *testing.T) {
	worlds := []*world{newWorld(1, 20), newWorld(2, 30), newWorld(3, 40), newWorld(4, 50)}
	planner := routing.NewPlanner(routing.Place{Region: "west"})
	var all sync.WaitGroup
	for i := range uint64(8) {
		all.Go(func() {
			random := rand.New(rand.NewPCG(i, i))
			for range 200 {
				w, m := worlds[random.IntN(4)], worlds[random.IntN(4)].model
				request := routing.Request{Seed: i, Draining: random.IntN(2) == 0, Seen: w.request.Seen, RoundTrip: w.request.RoundTrip}
				got := planner.Plan(nil, w.table, m, request)
				if want := routing.NewPlanner(routing.Place{Region: "west"}).Plan(nil, w.table, m, request); !slices.Equal(got, want) {
					t.Errorf("plan %v, want %v", names(got), names(want))
				}
			}
		})
	}
	all.Wait()
}
