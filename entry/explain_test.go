package entry

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
)

const planned = twoColos + `---
key: models/llama-3.1-8b
aliases: [default]
pool: p
routing: {steps: [{colos: [fra]}, {}]}
---
key: models/qwen-2.5
---
key: accounts/acme
models: [llama-3.1-8b]
---
key: accounts/closed
models: []
`

// The plan is explained for any name of a model, with what the entry has seen of the colos.
func TestExplainPlan(t *testing.T) {
	table := tableOf(t, planned)
	_, e := startEntryWith(t, Config{Table: tableFunc(table)}, t.TempDir())
	e.observed.noteLoad(poolIn{"p", "fra"}, hop.Load{Held: 3, Limit: 4, Free: 1}, time.Now())
	for _, name := range []string{"llama-3.1-8b", "default"} {
		plan, err := e.ExplainPlan(name, "acme")
		if err != nil {
			t.Fatal(err)
		}
		if plan.Node != "edge" || plan.Account != "acme" || plan.Model != "llama-3.1-8b" || len(plan.Steps) != 2 {
			t.Fatalf("%+v", plan)
		}
		first, second := plan.Steps[0], plan.Steps[1]
		if len(first.Colos) != 1 || first.Colos[0].Colo != "fra" || !first.Colos[0].Known || first.Colos[0].Free != 1 || first.Colos[0].Measured {
			t.Errorf("%s: the first step %+v", name, first)
		}
		if len(second.Colos) != 1 || second.Colos[0].Colo != "ams" || second.Colos[0].Known || second.Colos[0].Why == "" {
			t.Errorf("%s: the second step %+v", name, second)
		}
	}
	f := func(model, account, want string) {
		t.Helper()
		if _, err := e.ExplainPlan(model, account); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s for %s: %v, want %q", model, account, err, want)
		}
	}
	f("lama-3.1-8b", "", `there is no model "lama-3.1-8b"; similar names: llama-3.1-8b`)
	f("qwen", "", `similar names: qwen-2.5`)
	f("something-else", "", `there is no model "something-else"`)
	f("default", "acne", `there is no account "acne"; similar names: acme`)
	f("qwen-2.5", "acme", `the account "acme" may not use the model "qwen-2.5"`)
	f("default", "closed", `the account "closed" may not use the model "llama-3.1-8b"`)
}

// Asking for an explanation makes no colo one whose distance is measured.
func TestExplainPlanCausesNoPings(t *testing.T) {
	_, e := startEntryWith(t, Config{Table: tableFunc(tableOf(t, planned))}, t.TempDir())
	if _, err := e.ExplainPlan("default", ""); err != nil {
		t.Fatal(err)
	}
	if p, ok := e.observed.nextPing(time.Now()); ok {
		t.Errorf("a light request is due: %+v", p)
	}
}

// An entry without documents says so.
func TestExplainPlanWhileStarting(t *testing.T) {
	_, e := startEntryWith(t, Config{Table: func() *fleet.Table { return tableOf(t, planned) }, Starting: func() bool { return true }}, t.TempDir())
	if _, err := e.ExplainPlan("default", ""); err == nil || !strings.Contains(err.Error(), "no documents yet") {
		t.Error(err)
	}
}

func TestNearNames(t *testing.T) {
	known := []string{"llama-3.1-8b", "llama-3.1-70b", "qwen-2.5-7b", "bge-m3", "Llama-guard", "m1", "m2", "m3", "m4", "m5"}
	f := func(name string, want ...string) {
		t.Helper()
		if got := nearNames(name, known); !slices.Equal(got, want) {
			t.Errorf("near %q: %q, want %q", name, got, want)
		}
	}
	f("lama-3.1-8b", "llama-3.1-8b", "llama-3.1-70b")
	f("LLAMA-3.1-8B", "llama-3.1-8b", "llama-3.1-70b")
	f("guard", "Llama-guard")
	f("bge_m3", "bge-m3")
	f("m", "m1", "m2", "m3", "m4")
	f("mistral-large")
	f("")
	f(strings.Repeat("a", 4096))
	if d := editDistance("kitten", "sitting"); d != 3 {
		t.Error(fmt.Sprint("distance ", d))
	}
}
