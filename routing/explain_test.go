package routing_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/routing"
)

// text writes an explanation as lines of a colo, its distance and its place.
func text(e routing.Explanation) string {
	var b strings.Builder
	line := func(c routing.ExplainedColo) {
		kind := "guessed"
		if c.Measured {
			kind = "measured"
		}
		load := "-"
		if c.Known {
			load = fmt.Sprintf("%d/%d", c.Free, c.Limit)
		}
		fmt.Fprintf(&b, "%s %s %v %s %s: %s\n", c.Colo, c.Region, c.Distance, kind, load, c.Why)
	}
	for _, s := range e.Steps {
		fmt.Fprintf(&b, "step %d, %s\n", s.Number, s.Pick)
		for _, c := range s.Colos {
			line(c)
		}
		fmt.Fprintf(&b, "left out\n")
		for _, c := range s.LeftOut {
			line(c)
		}
	}
	fmt.Fprintf(&b, "unusable\n")
	for _, c := range e.Unusable {
		line(c)
	}
	return b.String()
}

func explainedFleet() *fleet.Table {
	has := []fleet.Server{registered(map[string]int{"p": 4})}
	return tableOf([]site{
		{name: "ams", region: "weur", servers: has}, {name: "cdg", region: "weur", servers: has},
		{name: "fra", region: "weur", servers: has}, {name: "iad", region: "enam", servers: has},
		{name: "lhr", region: "weur", servers: has}, {name: "sin", region: "apac", servers: has},
		{name: "dub", region: "weur", state: "draining", servers: has}, {name: "mad", region: "weur", state: "disabled", servers: has},
		{name: "mxp", region: "weur", servers: []fleet.Server{}},
		{name: "waw", region: "weur", servers: []fleet.Server{registered(map[string]int{"q": 4})}},
	}, map[string]map[string]float64{"weur": {"iad": 2, "ams": 1e-9}})
}

func explainedRequest() routing.Request {
	return routing.Request{
		RoundTrip: roundTrips(map[string]int{"ams": 2, "fra": 8, "iad": 83, "lhr": 9}),
		Seen: func(c *fleet.Colo) routing.Seen {
			return map[string]routing.Seen{
				"ams": {Full: true, Known: true, Limit: 4}, "fra": {Known: true, Free: 3, Limit: 4}, "iad": {Unreached: true},
				"lhr": {Known: true, Free: 1, Limit: 4},
			}[c.Name]
		},
	}
}

func expectText(t *testing.T, e routing.Explanation, want string) {
	t.Helper()
	if got := text(e); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestExplain(t *testing.T) {
	m := modelWith(
		fleet.Step{Within: fleet.Duration(20 * time.Millisecond), Pick: fleet.PickLatency, Attempts: 2},
		fleet.Step{Regions: []string{"weur"}, Pick: fleet.PickLeastLoaded},
		fleet.Step{Colos: []string{"iad"}, Pick: fleet.PickOrder, Attempts: 1},
		fleet.Step{Pick: fleet.PickOrder},
	)
	table, place := explainedFleet(), routing.Place{Region: "weur"}
	expectText(t, routing.NewPlanner(place).Explain(table, m, explainedRequest()), `step 1, latency
cdg weur 5ms guessed -: distance
fra weur 8ms measured 3/4: distance
left out
ams weur 2ms measured 0/4: beyond attempts
iad enam 83ms measured -: beyond within: 83ms
lhr weur 9ms measured 1/4: beyond attempts
sin apac 100ms guessed -: beyond within: 100ms
step 2, least_loaded
lhr weur 9ms measured 1/4: free slots
ams weur 2ms measured 0/4: free slots; last, since it was full a moment ago
left out
cdg weur 5ms guessed -: already in step 1
fra weur 8ms measured 3/4: already in step 1
iad enam 83ms measured -: not selected
sin apac 100ms guessed -: not selected
step 3, order
iad enam 83ms measured -: colo 1 of the step; last, since it does not answer
left out
ams weur 2ms measured 0/4: not selected
cdg weur 5ms guessed -: not selected
fra weur 8ms measured 3/4: not selected
lhr weur 9ms measured 1/4: not selected
sin apac 100ms guessed -: not selected
step 4, order
sin apac 100ms guessed -: by name
left out
ams weur 2ms measured 0/4: already in step 2
cdg weur 5ms guessed -: already in step 1
fra weur 8ms measured 3/4: already in step 1
iad enam 83ms measured -: already in step 3
lhr weur 9ms measured 1/4: already in step 2
unusable
dub weur 5ms guessed -: draining
mad weur 5ms guessed -: disabled
mxp weur 5ms guessed -: no active server
waw weur 5ms guessed -: no pool p
`)
}

func TestExplainFlowAndForced(t *testing.T) {
	table, planner := explainedFleet(), routing.NewPlanner(routing.Place{Region: "weur"})
	r := explainedRequest()
	r.Seen = nil
	expectText(t, planner.Explain(table, modelBy(fleet.AlgorithmFlow), r), `step 1, flow
iad enam 83ms measured -: weight 2
ams weur 2ms measured -: weight 1e-09
cdg weur 5ms guessed -: no weight, so by distance
fra weur 8ms measured -: no weight, so by distance
lhr weur 9ms measured -: no weight, so by distance
sin apac 100ms guessed -: no weight, so by distance
left out
unusable
dub weur 5ms guessed -: draining
mad weur 5ms guessed -: disabled
mxp weur 5ms guessed -: no active server
waw weur 5ms guessed -: no pool p
`)
	r.Forced = "waw"
	e := planner.Explain(table, modelBy(fleet.AlgorithmFlow), r)
	if got := text(e); e.Algorithm != routing.Forced || !strings.HasPrefix(got, "step 1, forced\nwaw weur 5ms guessed -: the request names it\nleft out\nams weur 2ms measured -: the request names another colo\n") {
		t.Errorf("%s:\n%s", e.Algorithm, got)
	}
}

// The plan and its explanation agree although the distances change with each question.
func TestExplainWhileReportsArrive(t *testing.T) {
	changing := time.Second
	e := routing.NewPlanner(routing.Place{}).Explain(explainedFleet(), modelBy(fleet.AlgorithmLatency), routing.Request{
		RoundTrip: func(*fleet.Colo) (time.Duration, bool) { changing--; return changing, true },
		Seen:      func(*fleet.Colo) routing.Seen { changing--; return routing.Seen{Known: true, Free: int(changing)} },
	})
	last := routing.ExplainedColo{}
	for _, c := range e.Steps[0].Colos {
		if c.Distance < last.Distance || c.Free == last.Free {
			t.Errorf("%+v is nearer than the one before it, %+v", c, last)
		}
		last = c
	}
}

// Lists are never null, which some readers of JSON cannot iterate over.
func TestExplanationAsJSON(t *testing.T) {
	for _, r := range []routing.Request{{}, {Forced: "nowhere"}} {
		e := routing.NewPlanner(routing.Place{}).Explain(tableOf([]site{{name: "a"}}, nil), modelWith(fleet.Step{Regions: []string{"nowhere"}}), r)
		if data, err := json.Marshal(e); err != nil || strings.Contains(string(data), "null") {
			t.Errorf("%s, %v", data, err)
		}
	}
	m := modelWith()
	if data, err := json.Marshal(routing.NewPlanner(routing.Place{}).Explain(tableOf(nil, nil), m, routing.Request{})); err != nil || strings.Contains(string(data), "null") {
		t.Errorf("%s, %v", data, err)
	}
}
