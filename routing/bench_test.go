package routing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/routing"
)

// largeFleet has 300 colos in ten regions, all of them around the globe, and a model with three steps.
func largeFleet(b *testing.B, algorithm string) (*fleet.Table, *fleet.Model) {
	b.Helper()
	docs := document.NewSet()
	put := func(key, value string) {
		b.Helper()
		if err := docs.Put(key, []byte(value), 1); err != nil {
			b.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 300 {
		name := fmt.Sprintf("colo-%03d", i)
		put("colos/"+name, fmt.Sprintf("{region: region-%d, position: {lat: %.3f, lon: %.3f}}", i%10, random.Float64()*120-60, random.Float64()*360-180))
		put("servers/"+name+"/1", `{address: "127.0.0.1:1", boot: b, pools: {m: 16}}`)
	}
	put("models/m", "{routing: {algorithm: "+algorithm+", steps: ["+threeSteps+"]}}")
	put("flows/m", `{regions: {"*": {colo-001: 3, colo-002: 1}}}`)
	table := docs.Table()
	m, ok := table.Model("m")
	if !ok {
		b.Fatal("no model")
	}
	return table, m
}

const threeSteps = "{within: 20ms, pick: latency, attempts: 2}, {regions: [region-1, region-2, region-3], pick: random, attempts: 2}, {pick: least_loaded}"

// BenchmarkPlan makes plans over 300 colos. In "known", the load and the distance of each colo are known, and looked up by name: with the
// three steps that is half of the time. Before there were planners, such a plan took 104 µs, 37 allocations and 15 KiB, without distances
// and loads; BenchmarkBaseline has that algorithm.
func BenchmarkPlan(b *testing.B) {
	for _, algorithm := range []string{"steps", "random", "latency", "flow"} {
		table, m := largeFleet(b, algorithm)
		known := knownRequest(table)
		for _, c := range []struct {
			name    string
			request routing.Request
		}{{"nothing known", routing.Request{Seed: 1}}, {"known", known}} {
			b.Run(algorithm+"/"+c.name, func(b *testing.B) {
				planner := routing.NewPlanner(routing.Place{Region: "region-1", Position: &fleet.Position{Lat: 52, Lon: 5}})
				var plan []routing.Stop
				b.ReportAllocs()
				for b.Loop() {
					c.request.Seed++
					plan = planner.Plan(plan[:0], table, m, c.request)
				}
				if len(plan) != 300 {
					b.Fatalf("%d colos", len(plan))
				}
			})
		}
	}
}

// knownRequest is a request for which the distances and loads of all colos are known, as an entry knows them: by name.
func knownRequest(t *fleet.Table) routing.Request {
	random := rand.New(rand.NewPCG(2, 2))
	seen, distances := map[string]routing.Seen{}, map[string]time.Duration{}
	for _, c := range t.Colos() {
		seen[c.Name] = routing.Seen{Full: random.IntN(10) == 0, Known: true, Free: random.IntN(16), Limit: 16}
		distances[c.Name] = time.Duration(random.IntN(200)) * time.Millisecond
	}
	return routing.Request{
		Seen:      func(c *fleet.Colo) routing.Seen { return seen[c.Name] },
		RoundTrip: func(c *fleet.Colo) (time.Duration, bool) { d, ok := distances[c.Name]; return d, ok },
	}
}

// BenchmarkNewTable makes the first plan with a new table.
func BenchmarkNewTable(b *testing.B) {
	table, m := largeFleet(b, "steps")
	other := table.WithStoreState(fleet.StoreState{})
	third := table.WithStoreState(fleet.StoreState{})
	planner := routing.NewPlanner(routing.Place{Region: "region-1"})
	b.ReportAllocs()
	for b.Loop() {
		for _, t := range []*fleet.Table{table, other, third} {
			planner.Plan(nil, t, m, routing.Request{})
		}
	}
}

// BenchmarkBaseline makes plans by selecting from all colos for each request, as a planner without routes must.
func BenchmarkBaseline(b *testing.B) {
	table, m := largeFleet(b, "steps")
	b.ReportAllocs()
	for seed := uint64(0); b.Loop(); seed++ {
		baseline{table: table, random: rand.New(rand.NewPCG(seed, 0))}.plan(m.Routing.Steps)
	}
}

// baseline makes plans of colos by name and region, in order or at random.
type baseline struct {
	table  *fleet.Table
	random *rand.Rand
	stops  []*fleet.Colo
}

func (p baseline) plan(steps []fleet.Step) []*fleet.Colo {
	for _, s := range steps {
		colos := p.selected(s)
		if s.Pick != fleet.PickOrder {
			p.random.Shuffle(len(colos), func(i, j int) { colos[i], colos[j] = colos[j], colos[i] })
		}
		if s.Attempts > 0 {
			colos = colos[:min(s.Attempts, len(colos))]
		}
		p.stops = append(p.stops, colos...)
	}
	return p.stops
}

func (p baseline) selected(s fleet.Step) []*fleet.Colo {
	var colos []*fleet.Colo
	for _, c := range p.table.Colos() {
		named := len(s.Colos)+len(s.Regions) == 0 || slices.Contains(s.Regions, c.Region) || slices.Contains(s.Colos, c.Name)
		usable := c.State == fleet.StateActive && slices.ContainsFunc(p.table.Servers(c.Name), func(s *fleet.Server) bool { return s.State == fleet.StateActive })
		if named && usable && !slices.Contains(p.stops, c) && !slices.Contains(colos, c) {
			colos = append(colos, c)
		}
	}
	return colos
}
