package problems_test

import (
	"strings"
	"testing"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/problems"
	"colonnade/reasons"
)

// table returns the table of documents as key, value, ….
func table(t *testing.T, docs ...string) *fleet.Table {
	t.Helper()
	set := document.NewSet()
	for i := 0; i+1 < len(docs); i += 2 {
		if err := set.Put(docs[i], []byte(docs[i+1]), 1); err != nil {
			t.Fatal(err)
		}
	}
	return set.Table()
}

// check compares problems with lines of "severity kind subject", and looks for texts in the effects of all.
func check(t *testing.T, got []problems.Problem, want ...string) {
	t.Helper()
	var lines []string
	for _, p := range got {
		lines = append(lines, strings.TrimSpace(string(p.Severity)+" "+p.Kind+" "+p.Subject))
		if p.Text == "" || p.Effect == "" || p.Action == "" {
			t.Errorf("%+v lacks a text, an effect or an action", p)
		}
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s\n%+v", strings.Join(lines, "\n"), strings.Join(want, "\n"), got)
	}
}

const server = `{"address":"h:1","boot":"x"`

// Documents by which no client can be served are an error.
func TestProblemsOfAllModels(t *testing.T) {
	t.Parallel()
	f := func(scope problems.Scope, docs []string, want ...string) {
		t.Helper()
		check(t, problems.OfTable(table(t, docs...), scope), want...)
	}
	f(problems.Scope{}, nil, "error store_empty")
	f(problems.Scope{}, []string{"colos/ams", "{}", "endpoints/ams/e", "{url: 'http://h:1', pool: p}"}, "error no_model", "warning reference_dangling endpoints/ams/e")
	f(problems.Scope{}, []string{"keys/k", "{account: a, sha256: '" + strings.Repeat("ab", 32) + "'}"}, "error no_model")
	f(problems.Scope{Rejected: []string{"models/m"}}, nil)
	f(problems.Scope{Rejected: []string{"pools/p"}}, nil, "error no_model")
	f(problems.Scope{}, []string{"models/m", "{pool: p}", "endpoints/ams/e", "{url: 'http://h:1', pool: p}"}, "error no_colo", "warning reference_dangling endpoints/ams/e")
	f(problems.Scope{}, []string{"models/m", "{pool: p}", "colos/ams", "{state: disabled}", "endpoints/ams/e", "{url: 'http://h:1', pool: p}"}, "error no_colo")
	f(problems.Scope{Rejected: []string{"colos/ams"}}, []string{"models/m", "{pool: p}", "endpoints/ams/e", "{url: 'http://h:1', pool: p}"})
}

// A model without an endpoint or without a way there is an error that names the model and says why.
func TestProblemsOfOneModel(t *testing.T) {
	t.Parallel()
	base := []string{"colos/ams", "{region: weur}", "colos/fra", "{state: draining}", "models/good", "{pool: p}", "endpoints/ams/e", "{url: 'http://h:1', pool: p}",
		"endpoints/fra/f", "{url: 'http://h:2', pool: away}", "endpoints/ams/n", "{url: 'http://h:3', pool: none, concurrency: 0}",
		"models/away2", "{pool: away}", "models/none2", "{pool: none}"}
	f := func(key, value, want string, texts ...string) {
		t.Helper()
		all := problems.OfTable(table(t, append([]string{key, value}, base...)...), problems.Scope{})
		var found []problems.Problem
		for _, p := range all {
			if p.Subject == key {
				found = append(found, p)
			}
		}
		if want == "" {
			check(t, found)
			return
		}
		check(t, found, want)
		for _, text := range append(texts, "every request for llama gets 503") {
			if len(found) > 0 && !strings.Contains(found[0].Text+"\n"+found[0].Effect, text) {
				t.Errorf("%+v does not say %q", found[0], text)
			}
		}
	}
	f("models/llama", "{pool: p}", "")
	f("models/llama", "{pool: typo}", "error model_without_endpoint models/llama", `models/llama: pool: "typo": no endpoint is in this pool, so the model cannot be served`)
	f("models/llama", "{pool: away}", "error model_without_endpoint models/llama", "colos that get no requests, fra (draining)")
	f("models/llama", "{pool: none}", "error model_without_endpoint models/llama", "have concurrency: 0")
	base = append(base, "endpoints/ams/d", "{url: 'http://h:4', pool: drains, state: draining}", "models/drains2", "{pool: drains}")
	f("models/llama", "{pool: drains}", "error model_without_endpoint models/llama", "the endpoints in this pool drain (state: draining), so")
	base[len(base)-3] = "{url: 'http://h:4', pool: drains, state: draining, state_reason: the engine has ended}"
	f("models/llama", "{pool: drains}", "error model_without_endpoint models/llama", "drain (state: draining; endpoints/ams/d: the engine has ended), so")
	base = append(base, "endpoints/ams/z", "{url: 'http://h:5', pool: drains, concurrency: 0}")
	f("models/llama", "{pool: drains}", "error model_without_endpoint models/llama", "drain (state: draining; endpoints/ams/d: the engine has ended) or have concurrency: 0")
	base = append(base, "endpoints/ams/s", "{url: 'http://h:6', pool: drains}")
	f("models/llama", "{pool: drains}", "")
	f("models/llama", "{pool: p, routing: {steps: [{regions: [weur]}]}}", "")
	f("models/llama", "{pool: p, routing: {steps: [{colos: [fra]}]}}", "error model_without_route models/llama", `no step selects a colo that has pool "p"; it is in: ams`)
	f("models/llama", "{pool: p, routing: {steps: [{colos: [fra]}, {within: 1ms}]}}", "")
}

// While documents of a kind are rejected, nothing is reported as missing that they may have.
func TestRejectedDocumentsAreNotMissing(t *testing.T) {
	t.Parallel()
	docs := table(t, "colos/ams", "{}", "models/m", "{pool: p}")
	check(t, problems.OfTable(docs, problems.Scope{}), "error model_without_endpoint models/m")
	check(t, problems.OfTable(docs, problems.Scope{Rejected: []string{"endpoints/ams/e"}}))
	routed := table(t, "colos/ams", "{}", "models/m", "{pool: p, routing: {steps: [{colos: [fra]}]}}", "endpoints/ams/e", "{url: 'http://h:1', pool: p}")
	check(t, problems.OfTable(routed, problems.Scope{}), "error model_without_route models/m", "warning reference_dangling models/m")
	check(t, problems.OfTable(routed, problems.Scope{Rejected: []string{"colos/fra"}}))
}

// An entry does not watch endpoints: it goes by the pools that servers have registered, and claims nothing while one has not.
func TestProblemsWithoutEndpoints(t *testing.T) {
	t.Parallel()
	entry := problems.Scope{Unseen: []fleet.Kind{fleet.KindEndpoint, fleet.KindPool}}
	f := func(pools string, want ...string) {
		t.Helper()
		docs := []string{"colos/ams", "{}", "models/m", "{pool: p}"}
		if pools != "" {
			docs = append(docs, "servers/ams/a", server+pools+"}")
		}
		check(t, problems.OfTable(table(t, docs...), entry), want...)
	}
	f("")
	f("")
	f(`,"pools":{"p":4}`)
	f(`,"pools":{"p":0}`)
	f(`,"pools":{"q":4}`, "error model_without_endpoint models/m")
	f(`,"pools":{}`, "error model_without_endpoint models/m")
	check(t, problems.OfTable(table(t, "models/m", "{pool: p}"), problems.Scope{Unseen: []fleet.Kind{fleet.KindColo, fleet.KindServer, fleet.KindAccount}}))
}

// A model whose engines are all down is an error; one that is up anywhere is enough.
func TestProblemsOfServers(t *testing.T) {
	t.Parallel()
	f := func(ams, fra string, want ...string) {
		t.Helper()
		docs := []string{"colos/ams", "{}", "colos/fra", "{}", "colos/old", "{state: disabled}", "models/m", "{pool: p}"}
		if ams != "" {
			docs = append(docs, "servers/ams/a", server+ams+"}")
		}
		if fra != "" {
			docs = append(docs, "servers/fra/f", server+fra+"}")
		}
		check(t, problems.OfServers(table(t, docs...)), want...)
	}
	f(`,"pools":{"p":0}`, `,"pools":{"p":0}`, "error pool_down models/m")
	f(`,"pools":{"p":0}`, `,"pools":{}`, "error pool_down models/m")
	f(`,"pools":{"p":0}`, `,"pools":{"p":1}`)
	f(`,"pools":{"p":0}`, `,"protocol":{"min":1,"max":1}`)
	f(`,"pools":{"p":0}`, "", "error colo_without_server colos/fra", "error pool_down models/m")
	f("", "", "error colo_without_server colos/ams", "error colo_without_server colos/fra")
}

// Conflicts are errors but for aliases, and settings are warnings.
func TestConflictsAndSettings(t *testing.T) {
	t.Parallel()
	check(t, problems.OfTable(table(t, "colos/ams", "{}", "models/a", "{pool: p, aliases: [b]}", "models/b", "{pool: p}", "pools/p", "queue: {max_wait: 3s, promote_after: 3s}",
		"endpoints/ams/e", "{url: 'http://h:1', pool: p}", "endpoints/ams/f", "{url: 'http://h:1', pool: p}"), problems.Scope{}),
		"error document_conflict endpoints/ams/f", "warning document_conflict models/a", "warning pool_setting pools/p")
}

// A list puts errors first, and has nothing twice.
func TestList(t *testing.T) {
	t.Parallel()
	l := &problems.List{}
	if all := l.All(); all == nil || len(all) != 0 {
		t.Errorf("an empty list: %v", all)
	}
	l.Warnf(reasons.LeaseExpired, "servers/ams/a", "expired %d", 1)
	l.Errorf(reasons.NoColo, "", "none").Effect = "every request for llama gets 503"
	l.Add(l.All()...)
	all := l.All()
	check(t, all, "error no_colo", "warning lease_expired servers/ams/a")
	if all[0].Effect != "every request for llama gets 503" || all[1].Effect != reasons.ProblemOf(reasons.LeaseExpired).Effect || all[1].Text != "expired 1" {
		t.Errorf("got %+v", all)
	}
}

// Each kind has a meaning, an effect and an action, and stands once in the list.
func TestKindsAreDescribed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range reasons.Problems() {
		if seen[p.Kind] || p.Kind == "" || p.Meaning == "" || p.Effect == "" || p.Action == "" {
			t.Errorf("%+v", p)
		}
		seen[p.Kind] = true
	}
}
