package routing_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/routing"
)

// site is a colo of a test with its servers.
type site struct {
	name, region string
	state        string // empty = active
	labels       map[string]string
	position     *fleet.Position
	servers      []fleet.Server // nil = one active server that has registered no pools
}

// tableOf returns a table of sites, with the flow of the model m if there is one.
func tableOf(sites []site, flow map[string]map[string]float64) *fleet.Table {
	var c fleet.Contents
	for _, s := range sites {
		c.Colos = append(c.Colos, &fleet.Colo{
			Name: s.name, Region: s.region, State: cmp.Or(s.state, fleet.StateActive), Labels: s.labels, Position: s.position,
		})
		if s.servers == nil {
			s.servers = []fleet.Server{{State: fleet.StateActive}}
		}
		for _, server := range s.servers {
			server.Colo = s.name
			c.Servers = append(c.Servers, &server)
		}
	}
	if flow != nil {
		c.Flows = []*fleet.Flow{{Model: "m", Regions: flow}}
	}
	return fleet.NewTable(c)
}

// modelWith returns the model m, which uses the pool p, with steps.
func modelWith(steps ...fleet.Step) *fleet.Model {
	return &fleet.Model{Name: "m", Pool: "p", Routing: fleet.Routing{Algorithm: fleet.AlgorithmSteps, Steps: steps}}
}

// modelBy returns the model m with an algorithm.
func modelBy(algorithm string) *fleet.Model {
	m := modelWith()
	m.Routing.Algorithm = algorithm
	return m
}

// at makes the plan of an entry at a place, and returns the colos in order.
func at(p routing.Place, t *fleet.Table, m *fleet.Model, r routing.Request) string {
	return strings.Join(names(routing.NewPlanner(p).Plan(nil, t, m, r)), " ")
}

// roundTrips returns measured round trips in milliseconds; the other colos were not measured.
func roundTrips(ms map[string]int) func(*fleet.Colo) (time.Duration, bool) {
	return func(c *fleet.Colo) (time.Duration, bool) {
		d, ok := ms[c.Name]
		return time.Duration(d) * time.Millisecond, ok
	}
}

// shares makes many plans with different seeds, and returns how often each beginning of so many colos came.
func shares(t testing.TB, table *fleet.Table, m *fleet.Model, length int) map[string]float64 {
	t.Helper()
	planner := routing.NewPlanner(routing.Place{Region: "west"})
	count := map[string]float64{}
	random := rand.New(rand.NewPCG(1, 2))
	const plans = 8000
	for range plans {
		plan := names(planner.Plan(nil, table, m, routing.Request{Seed: random.Uint64()}))
		if len(plan) != len(table.Colos()) || len(slices.Compact(slices.Sorted(slices.Values(plan)))) != len(plan) {
			t.Fatalf("plan %v, want each of %d colos once", plan, len(table.Colos()))
		}
		count[strings.Join(plan[:length], " ")] += 1.0 / plans
	}
	return count
}

// expectShares compares shares with the expected ones, each of which may be off by 0.02, which is more than three standard deviations.
func expectShares(t testing.TB, got, want map[string]float64) {
	t.Helper()
	for beginning, share := range want {
		if diff := got[beginning] - share; diff > 0.02 || diff < -0.02 {
			t.Errorf("%q came in %.3f of all plans, want %.3f", beginning, got[beginning], share)
		}
	}
	for beginning, share := range got {
		if _, expected := want[beginning]; !expected {
			t.Errorf("%q came in %.3f of all plans, want never", beginning, share)
		}
	}
}
