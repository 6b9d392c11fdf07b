package routing_test

import (
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/routing"
)

// Colos on one meridian: one degree is 111.2 km, and so 1.11 ms there and back.
func onMeridian(name, region string, lat float64) site {
	return site{name: name, region: region, position: &fleet.Position{Lat: lat, Lon: 5}}
}

func TestLatencyTakesTheNearestFirst(t *testing.T) {
	table := tableOf([]site{onMeridian("far", "", 40), onMeridian("near", "", 1), {name: "same", region: "west"}, {name: "other", region: "east"}}, nil)
	west := routing.Place{Region: "west", Position: &fleet.Position{Lon: 5}}
	f := func(r routing.Request, want string) {
		t.Helper()
		for _, m := range []*fleet.Model{modelBy(fleet.AlgorithmLatency), modelWith(fleet.Step{Pick: fleet.PickLatency})} {
			if got := at(west, table, m, r); got != want {
				t.Errorf("%s: plan %q, want %q", m.Routing.Algorithm, got, want)
			}
		}
	}
	f(routing.Request{}, "near same far other")
	f(routing.Request{RoundTrip: roundTrips(map[string]int{"other": 4, "near": 50})}, "other same far near")
	f(routing.Request{RoundTrip: roundTrips(map[string]int{"other": 0, "near": 5})}, "other near same far") // equal ones by name
	f(routing.Request{Seen: full("near")}, "same far other near")
}

func TestWithinGoesByTheRoundTrip(t *testing.T) {
	table := tableOf([]site{onMeridian("far", "", 40), onMeridian("near", "", 1), onMeridian("middle", "", 10)}, nil)
	f := func(within time.Duration, measured map[string]int, want string) {
		t.Helper()
		m := modelWith(fleet.Step{Within: fleet.Duration(within)})
		r := routing.Request{RoundTrip: roundTrips(measured)}
		if got := at(routing.Place{Position: &fleet.Position{Lon: 5}}, table, m, r); got != want {
			t.Errorf("within %v: plan %q, want %q", within, got, want)
		}
	}
	f(20*time.Millisecond, nil, "middle near")
	f(time.Millisecond, nil, "")
	f(20*time.Millisecond, map[string]int{"middle": 21, "far": 20}, "far near")
}

// A plan asks for the distances of those colos only whose distance matters, so that an entry measures no others.
func TestOnlyDistancesThatMatterAreAsked(t *testing.T) {
	table := tableOf([]site{{name: "a", region: "west"}, {name: "b", region: "west"}, {name: "c", region: "east"}}, map[string]map[string]float64{"*": {"a": 1}})
	f := func(m *fleet.Model, want map[string]int) {
		t.Helper()
		asked := map[string]int{}
		at(routing.Place{}, table, m, routing.Request{RoundTrip: func(c *fleet.Colo) (time.Duration, bool) {
			asked[c.Name]++
			return 0, false
		}})
		for _, c := range table.Colos() {
			if asked[c.Name] != want[c.Name] {
				t.Errorf("%+v: the distance of %s was asked %d times, want %d", m.Routing, c.Name, asked[c.Name], want[c.Name])
			}
		}
	}
	f(modelWith(fleet.Step{}, fleet.Step{Pick: fleet.PickLeastLoaded}, fleet.Step{Pick: fleet.PickRandom}), nil)
	f(modelBy(fleet.AlgorithmRandom), nil)
	f(modelWith(fleet.Step{Regions: []string{"west"}, Within: 1, Attempts: 1}, fleet.Step{Pick: fleet.PickLatency}), map[string]int{"a": 1, "b": 1, "c": 1})
	f(modelWith(fleet.Step{Regions: []string{"east"}, Pick: fleet.PickLatency}), map[string]int{"c": 1})
	f(modelBy(fleet.AlgorithmFlow), map[string]int{"b": 1, "c": 1})
}

func TestLabelsNarrowAStep(t *testing.T) {
	table := tableOf([]site{
		{name: "a", region: "west", labels: map[string]string{"gpu": "h100", "tier": "own"}},
		{name: "b", region: "west", labels: map[string]string{"gpu": "h100"}},
		{name: "c", region: "east", labels: map[string]string{"gpu": "a100", "tier": "own"}},
		{name: "d", region: "east"},
	}, nil)
	f := func(s fleet.Step, want string) {
		t.Helper()
		if got := at(routing.Place{}, table, modelWith(s), routing.Request{}); got != want {
			t.Errorf("%+v: plan %q, want %q", s, got, want)
		}
	}
	f(fleet.Step{Labels: map[string]string{"gpu": "h100"}}, "a b")
	f(fleet.Step{Labels: map[string]string{"gpu": "h100", "tier": "own"}}, "a")
	f(fleet.Step{Labels: map[string]string{"tier": "own"}, Regions: []string{"east"}}, "c")
	f(fleet.Step{Labels: map[string]string{"gpu": "h100"}, Colos: []string{"d", "b", "a"}}, "b a")
	f(fleet.Step{Labels: map[string]string{"gpu": ""}}, "")
}

func TestLeastLoadedTakesTheMostFreeFirst(t *testing.T) {
	table := tableOf([]site{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}, {name: "e"}, {name: "f"}}, nil)
	m := modelWith(fleet.Step{Pick: fleet.PickLeastLoaded})
	loads := map[string]routing.Seen{
		"a": {Known: true, Free: 0, Limit: 0, Full: true},
		"b": {Known: true, Free: 30, Limit: 100},
		"c": {}, // not known
		"d": {Known: true, Free: 3, Limit: 8},
		"e": {Known: true, Free: 1, Limit: 1, Unreached: true},
		"f": {Known: true, Free: 0, Limit: 4},
	}
	seen := func(c *fleet.Colo) routing.Seen { return loads[c.Name] }
	for seed := range uint64(50) {
		if got := at(routing.Place{}, table, m, routing.Request{Seed: seed, Seen: seen}); got != "d b f c a e" {
			t.Fatalf("plan %q, want %q", got, "d b f c a e")
		}
	}
	// Equal ones are in random order, so that not every entry sends to one colo.
	expectShares(t, shares(t, tableOf([]site{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}}, nil), m, 1),
		map[string]float64{"a": .25, "b": .25, "c": .25, "d": .25})
}

func TestWeightsAreShares(t *testing.T) {
	table := tableOf([]site{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}, {name: "e"}}, nil)
	m := modelWith(fleet.Step{Pick: fleet.PickWeighted, Weights: map[string]float64{"b": 5, "c": 3, "e": 2, "d": 0, "nowhere": 7}})
	expectShares(t, shares(t, table, m, 1), map[string]float64{"b": .5, "c": .3, "e": .2})
	// Each further colo is drawn by the weights of those that are left; colos without a weight come last, by name.
	expectShares(t, shares(t, table, m, 5), map[string]float64{
		"b c e a d": .5 * 3 / 5, "b e c a d": .5 * 2 / 5, "c b e a d": .3 * 5 / 7, "c e b a d": .3 * 2 / 7, "e b c a d": .2 * 5 / 8, "e c b a d": .2 * 3 / 8,
	})
	m = modelWith(fleet.Step{Pick: fleet.PickWeighted, Weights: map[string]float64{"a": 1e-6, "b": 1e6}, Colos: []string{"a", "b"}}, fleet.Step{})
	expectShares(t, shares(t, table, m, 2), map[string]float64{"b a": 1})
}

func TestFlowGoesByTheRegionOfTheEntry(t *testing.T) {
	sites := []site{{name: "a", region: "west"}, {name: "b", region: "east"}, {name: "c", region: "west"}, {name: "d", region: "east"}}
	m := modelBy(fleet.AlgorithmFlow)
	table := tableOf(sites, map[string]map[string]float64{"west": {"b": 3, "d": 1}, "*": {"d": 1}})
	expectShares(t, shares(t, table, m, 4), map[string]float64{"b d a c": .75, "d b a c": .25})
	f := func(region string, table *fleet.Table, want string) {
		t.Helper()
		if got := at(routing.Place{Region: region}, table, m, routing.Request{}); got != want {
			t.Errorf("in region %q: plan %q, want %q", region, got, want)
		}
	}
	f("east", table, "d b a c")
	f("", table, "d a b c")
	f("west", tableOf(sites, nil), "a c b d") // as the algorithm latency
	f("east", tableOf(sites, map[string]map[string]float64{"west": {"a": 1}}), "b d a c")
	f("west", tableOf(sites, map[string]map[string]float64{"west": {"nowhere": 1, "a": 0, "d": 2}}), "d a c b")
}

func TestFlowOfFullColos(t *testing.T) {
	table := tableOf([]site{{name: "a"}, {name: "b"}, {name: "c"}}, map[string]map[string]float64{"*": {"a": 1}})
	if got := at(routing.Place{}, table, modelBy(fleet.AlgorithmFlow), routing.Request{Seen: full("a")}); got != "b c a" {
		t.Errorf("plan %q, want the full colo last", got)
	}
}
