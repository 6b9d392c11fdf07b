package routing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/routing"
)

// testFleet has active colos a to e with one server each; f is draining, g has no server, the server of h is draining,
// and i is disabled.
func testFleet(t testing.TB, model string) (*fleet.Table, *fleet.Model) {
	t.Helper()
	docs := document.NewSet()
	put := func(key, value string) {
		t.Helper()
		if err := docs.Put(key, []byte(value), 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, region, state, server string }{
		{"a", "west", "active", "active"}, {"b", "west", "active", "active"}, {"c", "east", "active", "active"},
		{"d", "east", "active", "active"}, {"e", "south", "active", "active"},
		{"f", "west", "draining", "active"}, {"g", "west", "active", ""}, {"h", "west", "active", "draining"}, {"i", "west", "disabled", "active"},
	} {
		put("colos/"+c.name, fmt.Sprintf("{region: %s, state: %s}", c.region, c.state))
		if c.server != "" {
			put("servers/"+c.name+"/"+c.name+"-1", fmt.Sprintf(`{address: "127.0.0.1:1", boot: b, state: %s, protocol: {min: 1, max: 1}}`, c.server))
		}
	}
	put("models/m", model)
	table := docs.Table()
	m, ok := table.Model("m")
	if !ok {
		t.Fatal("no model")
	}
	return table, m
}

func plan(t testing.TB, model string, r routing.Request) string {
	t.Helper()
	table, m := testFleet(t, model)
	return strings.Join(names(planOf(table, m, r)), "")
}

// planOf returns the plan of an entry without a place.
func planOf(t *fleet.Table, m *fleet.Model, r routing.Request) []routing.Stop {
	return routing.NewPlanner(routing.Place{}).Plan(nil, t, m, r)
}

// names returns the colos of a plan.
func names(plan []routing.Stop) []string {
	var names []string
	for _, stop := range plan {
		names = append(names, stop.Colo.Name)
	}
	return names
}

// full returns what is known if these colos were seen full.
func full(colos ...string) func(*fleet.Colo) routing.Seen {
	return func(c *fleet.Colo) routing.Seen { return routing.Seen{Full: slices.Contains(colos, c.Name)} }
}

func TestPlan(t *testing.T) {
	f := func(model, want string) {
		t.Helper()
		if got := plan(t, model, routing.Request{}); got != want {
			t.Errorf("%s: plan %q, want %q", model, got, want)
		}
	}
	f(`{}`, "abcde")
	f(`{routing: {steps: [{colos: [e, c]}]}}`, "ec")
	f(`{routing: {steps: [{regions: [east]}]}}`, "cd")
	f(`{routing: {steps: [{regions: [east, south], attempts: 2}, {}]}}`, "cdabe")
	f(`{routing: {steps: [{colos: [d], regions: [west]}]}}`, "dab")
	f(`{routing: {steps: [{colos: [a, a, nowhere, f, g, h, i]}, {colos: [b, a]}]}}`, "ab")
	f(`{routing: {steps: [{colos: [d, a, d], regions: [west]}]}}`, "dab")
	f(`{routing: {steps: [{regions: [nowhere]}]}}`, "")
}

func TestPlanFullColosLast(t *testing.T) {
	f := func(model, want string) {
		t.Helper()
		if got := plan(t, model, routing.Request{Seen: full("a", "c")}); got != want {
			t.Errorf("%s: plan %q, want %q", model, got, want)
		}
	}
	f(`{}`, "bdeac")
	// Only within the step.
	f(`{routing: {steps: [{colos: [a]}, {}]}}`, "abdec")
	// The attempts of a step go to colos with room.
	f(`{routing: {steps: [{regions: [west], attempts: 1}]}}`, "b")
}

func TestPlanForced(t *testing.T) {
	if got := plan(t, `{routing: {steps: [{colos: [a]}]}}`, routing.Request{Forced: "d"}); got != "d" {
		t.Errorf("forced: plan %q, want d", got)
	}
	if got := plan(t, `{}`, routing.Request{Forced: "f"}); got != "" {
		t.Errorf("forced to a draining colo: plan %q, want none", got)
	}
}

func TestPlanRandomIsEven(t *testing.T) {
	table, m := testFleet(t, `{routing: {algorithm: random}}`)
	first := map[string]int{}
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		p := planOf(table, m, routing.Request{Seed: random.Uint64()})
		if len(p) != 5 {
			t.Fatalf("plan has %d colos, want 5", len(p))
		}
		first[p[0].Colo.Name]++
	}
	for colo, n := range first {
		if n < 850 || n > 1150 {
			t.Errorf("%s came first %d times of 5000, want about 1000", colo, n)
		}
	}
	seed := random.Uint64()
	if !slices.Equal(planOf(table, m, routing.Request{Seed: seed}), planOf(table, m, routing.Request{Seed: seed})) {
		t.Error("one seed gives two plans")
	}
}

// Plan agrees with a naive implementation of the rules on random steps.
func TestPlanAgainstModel(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	pick := func(from ...string) []string {
		var out []string
		for _, s := range from {
			if random.IntN(3) == 0 {
				out = append(out, s)
			}
		}
		random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		return out
	}
	table, m := testFleet(t, `{}`)
	for range 2000 {
		model := *m
		model.Routing = fleet.Routing{Algorithm: fleet.AlgorithmSteps}
		for range 1 + random.IntN(3) {
			model.Routing.Steps = append(model.Routing.Steps, fleet.Step{
				Colos: pick("a", "b", "c", "d", "e", "f", "g", "zz"), Regions: pick("west", "east", "south"),
				Pick: fleet.PickOrder, Attempts: random.IntN(4),
			})
		}
		fullColos := pick("a", "b", "c", "d", "e")
		got := names(planOf(table, &model, routing.Request{Seen: full(fullColos...)}))
		if want := naivePlan(model.Routing.Steps, func(c string) bool { return slices.Contains(fullColos, c) }); !slices.Equal(got, want) {
			t.Fatalf("steps %+v, full %v: plan %v, want %v", model.Routing.Steps, fullColos, got, want)
		}
	}
}

func naivePlan(steps []fleet.Step, full func(string) bool) []string {
	regions := map[string]string{"a": "west", "b": "west", "c": "east", "d": "east", "e": "south"}
	var plan []string
	for _, s := range steps {
		names := slices.Clone(s.Colos)
		for _, c := range []string{"a", "b", "c", "d", "e"} {
			if slices.Contains(s.Regions, regions[c]) || len(s.Colos)+len(s.Regions) == 0 {
				names = append(names, c)
			}
		}
		var roomy, fullOnes []string
		for _, n := range names {
			switch {
			case regions[n] == "" || slices.Contains(plan, n) || slices.Contains(roomy, n) || slices.Contains(fullOnes, n):
			case full(n):
				fullOnes = append(fullOnes, n)
			default:
				roomy = append(roomy, n)
			}
		}
		step := append(roomy, fullOnes...)
		if s.Attempts > 0 {
			step = step[:min(s.Attempts, len(step))]
		}
		plan = append(plan, step...)
	}
	return plan
}
