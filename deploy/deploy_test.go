// Package deploy_test checks the files that a fleet is set up with (an image, a Compose file, systemd units, sample
// documents) against the binaries, and runs the samples.
package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v2"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/routing"
)

// samples returns the files of documents.
func samples() []string {
	return []string{"fleet.yaml", "two-regions.yaml", "by-distance.yaml", "external.yaml", "serve.yaml", "compose/fleet.yaml"}
}

func text(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// tableOf returns the table that nodes build from documents.
func tableOf(t *testing.T, name, documents string) *fleet.Table {
	t.Helper()
	docs, err := document.SplitFile([]byte(documents))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	all := document.NewSet()
	for i, d := range docs {
		if err := document.Check(d.Key, d.Value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := all.Put(d.Key, d.Value, int64(i+1)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	return all.Table()
}

func TestSampleDocuments(t *testing.T) {
	for _, name := range samples() {
		table := tableOf(t, name, text(t, name))
		for _, c := range table.Conflicts {
			t.Errorf("%s: %s and %s both claim the %s %s", name, c.Winner, c.Loser, c.What, c.Value)
		}
		for _, d := range table.Dangling() {
			t.Errorf("%s: %s, %s %q: %s", name, d.Document, d.Field, d.Value, d.Reason)
		}
		if _, ok := table.Model("default"); !ok {
			t.Errorf("%s: no model is called default, which the commands of the README use", name)
		}
		for _, m := range table.Models() {
			reachable(t, name, text(t, name), m)
		}
	}
	// The files that are not named above have no documents.
	files, _ := filepath.Glob("*.yaml")
	for _, name := range files {
		if !slices.Contains(samples(), name) {
			t.Errorf("%s is not among the samples of this test", name)
		}
	}
}

// reachable checks that each colo which a step of a model selects has an endpoint for it: servers of older versions do not say so.
func reachable(t *testing.T, name, documents string, m *fleet.Model) {
	t.Helper()
	if m.Routing.Algorithm != fleet.AlgorithmSteps {
		return
	}
	for i, step := range m.Routing.Steps {
		alone := *m
		alone.Routing = fleet.Routing{Algorithm: fleet.AlgorithmSteps, Steps: []fleet.Step{step}}
		alone.Routing.Steps[0].Attempts, alone.Routing.Steps[0].Within = 0, 0
		table := withServers(t, name, documents)
		plan := routing.NewPlanner(routing.Place{}).Plan(nil, table, &alone, routing.Request{})
		if len(plan) == 0 {
			t.Errorf("%s: %s: step %d selects no colo", name, m.Name, i)
		}
		for _, stop := range plan {
			c := stop.Colo
			if !slices.ContainsFunc(table.Endpoints(c.Name, m.Pool), func(e *fleet.Endpoint) bool { return e.Concurrency > 0 }) {
				t.Errorf("%s: %s: step %d selects the colo %s, which has no endpoint in the pool %s", name, m.Name, i, c.Name, m.Pool)
			}
		}
	}
}

// withServers returns the table with a server in each colo.
func withServers(t *testing.T, name, documents string) *fleet.Table {
	t.Helper()
	for _, c := range tableOf(t, name, documents).Colos() {
		documents += fmt.Sprintf("\n---\nkey: servers/%s/%s-1\naddress: \"127.0.0.1:1\"\nboot: b\n", c.Name, c.Name)
	}
	return tableOf(t, name, documents)
}

// The comments of two-regions.yaml agree with its documents.
func TestTwoRegions(t *testing.T) {
	documents := text(t, "two-regions.yaml")
	table := withServers(t, "two-regions.yaml", documents)
	f := func(model, want string) {
		t.Helper()
		m, ok := table.Model(model)
		if !ok {
			t.Fatalf("no model %s", model)
		}
		var names []string
		for _, stop := range routing.NewPlanner(routing.Place{}).Plan(nil, table, m, routing.Request{Seed: 1}) {
			names = append(names, stop.Colo.Name)
		}
		if got := strings.Join(names, " "); !regexp.MustCompile("^(" + want + ")$").MatchString(got) {
			t.Errorf("%s is tried in %q, want %q", model, got, want)
		}
	}
	f("default", "ams fra nyc|fra ams nyc")
	f("bge-m3", "nyc ams")
	f("bge-reranker-v2-m3", "ams nyc")

	// The overview at the top names each endpoint, and no other.
	head, _, _ := strings.Cut(documents, "\nkey:")
	for _, c := range table.Colos() {
		line := regexp.MustCompile(`(?m)^#   ` + c.Region + ` +` + c.Name + ` .*$`).FindString(head)
		named := regexp.MustCompile(`\b\w+-\d\b`).FindAllString(line, -1)
		var there []string
		for _, e := range table.EndpointsOf(c.Name) {
			there = append(there, e.ID)
		}
		slices.Sort(named)
		if !slices.Equal(named, there) {
			t.Errorf("the overview has %q in %s, the documents have %q", named, c.Name, there)
		}
	}
	if regexp.MustCompile(`(?m)^key: keys/`).MatchString(documents) {
		t.Error("a sample has an API key, which everyone can read")
	}
}

// The comments of by-distance.yaml agree with what entries do.
func TestByDistance(t *testing.T) {
	documents := text(t, "by-distance.yaml")
	for _, c := range tableOf(t, "by-distance.yaml", documents).Colos() {
		pools := "llama-3.1-8b: 16"
		if len(tableOf(t, "by-distance.yaml", documents).Endpoints(c.Name, "embeddings")) > 0 {
			pools += ", embeddings: 64"
		}
		documents += fmt.Sprintf("\n---\nkey: servers/%s/%s-1\naddress: \"127.0.0.1:1\"\nboot: b\npools: {%s}\n", c.Name, c.Name, pools)
	}
	table := tableOf(t, "by-distance.yaml", documents)
	first := func(model string, at routing.Place, seed uint64) (names []string) {
		t.Helper()
		m, _ := table.Model(model)
		for _, stop := range routing.NewPlanner(at).Plan(nil, table, m, routing.Request{Seed: seed}) {
			names = append(names, stop.Colo.Name)
		}
		return names
	}
	amsterdam := routing.Place{Region: "eu", Position: &fleet.Position{Lat: 52.37, Lon: 4.90}}
	ashburn := routing.Place{Region: "us", Position: &fleet.Position{Lat: 39.04, Lon: -77.49}}
	if got := strings.Join(first("default", amsterdam, 1), " "); !regexp.MustCompile("^ams fra ath (iad pdx|pdx iad)$").MatchString(got) {
		t.Errorf("chat is tried in %q", got)
	}
	shares := func(model string, at routing.Place) string {
		const draws = 1000
		times := map[string]int{}
		for seed := range uint64(draws) {
			times[first(model, at, seed)[0]]++
		}
		var out []string
		for _, c := range table.Colos() {
			if n := times[c.Name]; n > 0 {
				out = append(out, fmt.Sprintf("%s %.1f", c.Name, float64(n)/draws))
			}
		}
		return strings.Join(out, ", ")
	}
	if got := shares("llama-3.1-8b-long", amsterdam); !regexp.MustCompile(`^ams 0\.[78], iad 0\.[23]$`).MatchString(got) {
		t.Errorf("long context goes to %s first", got)
	}
	if got := first("llama-3.1-8b-long", amsterdam, 1); len(got) != 3 || got[2] != "fra" {
		t.Errorf("long context is tried in %q", got)
	}
	if got := shares("bge-m3", amsterdam); got != "ams 0.4, fra 0.4, iad 0.2" {
		t.Errorf("from Europe, embeddings go to %s first", got)
	}
	if got := strings.Join(first("bge-m3", ashburn, 1), " "); got != "iad ams fra" {
		t.Errorf("from America, embeddings are tried in %q", got)
	}
}

// Each YAML file is valid, without duplicate keys.
func TestYAML(t *testing.T) {
	for _, name := range append(samples(), "compose/compose.yaml") {
		for i, part := range regexp.MustCompile(`(?m)^---$`).Split(text(t, name), -1) {
			var tree map[string]any
			if err := yaml.UnmarshalStrict([]byte(part), &tree); err != nil {
				t.Errorf("%s, document %d: %v", name, i+1, err)
			}
		}
	}
}
