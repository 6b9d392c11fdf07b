package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"colonnade/internal/etcdtest"
)

const planPage = `{"node": "edge-1", "region": "weur", "account": "acme", "model": "llama-3.1-8b", "pool": "llama", "algorithm": "steps",
"steps": [
 {"step": 1, "pick": "latency", "colos": [
  {"colo": "ams", "region": "weur", "distance_ns": 1240000, "measured": true, "load_known": true, "free": 3, "limit": 16, "why": "distance"},
  {"colo": "fra", "region": "weur", "distance_ns": 8200000, "measured": true, "load_known": true, "free": 0, "limit": 16, "last": "full",
   "why": "distance; last, since it was full a moment ago"}],
  "left_out": [
  {"colo": "iad", "region": "enam", "distance_ns": 81000000, "measured": true, "why": "beyond within: 81ms"},
  {"colo": "sin", "region": "apac", "distance_ns": 161200000, "why": "beyond within: 161.2ms"}]},
 {"step": 2, "pick": "weighted", "colos": [
  {"colo": "iad", "region": "enam", "distance_ns": 81000000, "measured": true, "why": "weight 3"}],
  "left_out": [
  {"colo": "ams", "region": "weur", "distance_ns": 1240000, "measured": true, "why": "already in step 1"},
  {"colo": "fra", "region": "weur", "distance_ns": 8200000, "measured": true, "why": "already in step 1"},
  {"colo": "sin", "region": "apac", "distance_ns": 161200000, "why": "not selected"}]}],
"unusable": [{"colo": "nyc", "region": "enam", "distance_ns": 79500000, "measured": true, "why": "draining"},
 {"colo": "syd", "distance_ns": 100000000, "why": "no pool llama"}],
"onward": {"ams": ["fra"]}}`

const wantPlan = `llama-3.1-8b  from edge-1 in weur for acme; pool llama; algorithm steps

STEP        COLO  REGION  DISTANCE  FREE  WHY THERE                                       ONWARD
1 latency   ams   weur       1.2ms  3/16  distance                                        fra
            fra   weur       8.2ms  0/16  distance; last, since it was full a moment ago
2 weighted  iad   enam        81ms     ?  weight 3

not tried:
COLO  REGION  DISTANCE  FREE  WHY LEFT OUT
sin   apac      ~161ms     ?  step 1: beyond within: 161.2ms
nyc   enam        80ms     ?  draining
syd             ~100ms     ?  no pool llama

~ is a guess by positions or regions: nothing was measured yet.
ONWARD: where a colo that is full forwards a small request by itself.
`

// servePlan is the admin listener of an entry with one plan, for acme's requests for the model llama-3.1-8b.
func servePlan(t *testing.T, page string) (admin string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/plan", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("model") != "llama-3.1-8b" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"error": "there is no model %s; similar names: llama-3.1-8b"}`, q.Get("model"))
			return
		}
		fmt.Fprint(w, page)
	})
	return serveHandler(t, mux)
}

func entryAt(admin string) string {
	return fmt.Sprintf(`{"address":"127.0.0.1:1","admin":%q,"region":"weur"}`, admin)
}

func TestRouteExplain(t *testing.T) {
	s := startEtcd(t)
	run(t, "", "route", "explain", "llama-3.1-8b").fail(t, "no entry is registered in etcd")
	put(t, s, map[string]string{"entries/edge-1": entryAt(servePlan(t, planPage))})
	r := run(t, "", "route", "explain", "llama-3.1-8b", "-account", "acme")
	if out := r.want(t); out != wantPlan || r.notes != "" {
		t.Errorf("got\n%s%s\nwant\n%s", r.notes, out, wantPlan)
	}
	for line := range strings.Lines(wantPlan) {
		if len(line) > 100 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	run(t, "", "route", "explain", "llama-3.1-8b", "-json").want(t, `"algorithm": "steps"`, `"distance_ns": 1240000`, `"why": "draining"`)
	run(t, "", "route", "explain", "lama").fail(t, "entry edge-1: there is no model lama; similar names: llama-3.1-8b")
	run(t, "", "route", "explain").fail(t, "MODEL")
	run(t, "", "route", "explain", "a", "b").fail(t, "one MODEL is expected, and there are 2")

	put(t, s, map[string]string{"entries/edge-0": entryAt(etcdtest.FreeAddress(t)), "entries/edge-2": entryAt(servePlan(t, planPage)),
		"entries/old": entryAt(serveHandler(t, http.NotFoundHandler())), "entries/odd": entryAt(servePlan(t, "<html>"))})
	run(t, "", "route", "explain", "llama-3.1-8b").fail(t, "asking edge-0, the first of 5 entries; -entry asks another: edge-1, edge-2, odd, old",
		"entry edge-0: connection refused")
	if r = run(t, "", "route", "explain", "llama-3.1-8b", "-entry", "edge-1"); r.want(t) == "" || r.notes != "" {
		t.Errorf("with -entry: %q", r.notes)
	}
	run(t, "", "route", "explain", "llama-3.1-8b", "-entry", "edge-9").fail(t, `flag -entry: no entry "edge-9" is registered; registered: edge-0, edge-1, edge-2, odd, old`)
	run(t, "", "route", "explain", "llama-3.1-8b", "-entry", "edge-2").fail(t, "entry edge-2: node edge-1 answers there")
	run(t, "", "route", "explain", "llama-3.1-8b", "-entry", "old").fail(t, "entry old: it has no page /debug/plan: an entry of an older version")
	run(t, "", "route", "explain", "llama-3.1-8b", "-entry", "odd").fail(t, "entry odd: cannot read its page /debug/plan")
}

// A plan without colos says what clients get, and many colos that are left out are counted.
func TestRouteExplainWithoutColos(t *testing.T) {
	s := startEtcd(t)
	var colos []string
	for i := range 30 {
		colos = append(colos, fmt.Sprintf(`{"colo": "c%d", "measured": true, "why": "no active server"}`, i))
	}
	page := `{"node": "edge-1", "model": "llama-3.1-8b", "pool": "p", "algorithm": "random", "pools_unknown": true, "steps": [{"step": 1, "pick": "random"}], "unusable": [` +
		strings.Join(colos, ",") + "]}"
	put(t, s, map[string]string{"entries/edge-1": entryAt(servePlan(t, page))})
	run(t, "", "route", "explain", "llama-3.1-8b").want(t, "no colo is tried: requests get 503", "c19", "and 10 colos more; -json has all",
		"No colo of the steps has registered the pool p")
}
