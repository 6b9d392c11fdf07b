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
func samples() []string { return []string{"fleet.yaml", "two-regions.yaml", "compose/fleet.yaml"} }

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

// reachable checks that each colo which a step of a model selects has an endpoint for it, since entries do not know endpoints.
func reachable(t *testing.T, name, documents string, m *fleet.Model) {
	t.Helper()
	for i, step := range m.Routing.Steps {
		alone := *m
		alone.Routing = fleet.Routing{Algorithm: fleet.AlgorithmSteps, Steps: []fleet.Step{step}}
		alone.Routing.Steps[0].Attempts = 0
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
