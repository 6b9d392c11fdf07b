package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"colonnade/analytics/capture"
	"colonnade/fleet"
	"colonnade/node"
)

// A process for one place has no etcd: nothing of it is shown, and what the process reports about its files is.
func TestStatusOfOnePlace(t *testing.T) {
	t.Setenv("COLONNADE_ETCD", "http://127.0.0.1:1")
	serve := pooled("ams-1", idlePage)
	c := node.ConfigState{Node: "local-1", Source: "files at conf", Revision: 7, AgeSeconds: 1.5}
	serve.config = func() node.ConfigState { return c }
	admin := serve.serve(t)

	out := run(t, "", "status", "-admin", admin).want(t, "local-1 at "+admin+", documents: files at conf", "chat in fra")
	config := run(t, "", "config", "status", "-admin", admin).want(t, "no problems")
	if !hasRow(config, "local-1|serve|127.0.0.1:?|files at conf|7|1.50s|0") {
		t.Errorf("got\n%s", config)
	}
	for _, word := range []string{"etcd", "record", "BEHIND", "EXPIRED"} {
		if strings.Contains(out+config, word) {
			t.Errorf("%q is shown:\n%s\n%s", word, out, config)
		}
	}

	c.AgeSeconds = 61
	c.Rejected = []fleet.Rejection{
		{Key: "pools/b", File: "conf/pools.yaml:3", Field: "queue.limit", Reason: "must be at least 0", Revision: 8, LastGood: true},
		{File: "conf/keys.yaml", Reason: "has API keys", Revision: 8},
	}
	c.Conflicts = []fleet.Conflict{{What: fleet.ConflictURL, Value: "http://h:1", Winner: "endpoints/local/a", Loser: "endpoints/local/b"}}
	want := []string{
		"conf/pools.yaml:3: pools/b: queue.limit: must be at least 0; an earlier version is in force", "conf/keys.yaml: has API keys",
		"has not been able to read its documents (files at conf) for 1m1s", `endpoints/local/b: url: "http://h:1": not in force`, "4 errors found",
	}
	run(t, "", "config", "status", "-admin", admin).fail(t, want...)
	r := run(t, "", "status", "-admin", admin)
	r.fail(t, want...)
	if strings.Contains(r.out, "etcd") {
		t.Errorf("got\n%s", r.out)
	}
	var state fleetState
	r = run(t, "", "config", "status", "-admin", admin, "-json")
	if err := json.Unmarshal([]byte(r.out), &state); err != nil || len(state.Nodes) != 1 || state.Nodes[0].Role != "serve" || state.Nodes[0].Config.Source != "files at conf" {
		t.Errorf("%v: %s", err, r.out)
	}
	run(t, "", "config", "status", "-admin", "x").fail(t, "must be host:port")
}

// A capture is shown by itself, not as one of so many warnings.
func TestStatusShowsCaptures(t *testing.T) {
	t.Setenv("COLONNADE_ETCD", "http://127.0.0.1:1")
	serve := pooled("ams-1", idlePage)
	c := node.ConfigState{Node: "local-1", Source: "files at conf", Revision: 7, AgeSeconds: 1.5, Captures: []capture.State{
		{Name: "debug", Account: "acme", Until: time.Now().Add(10 * time.Minute), Sink: "file:/tmp/acme.jsonl", Written: 3, Dropped: 2, Problem: "disk full"},
	}}
	serve.config = func() node.ConfigState { return c }
	admin := serve.serve(t)
	want := []string{"CAPTURES requests and responses of account acme with their content for another", "to file:/tmp/acme.jsonl (3 records, 2", "colonnade capture stop debug"}
	run(t, "", "status", "-admin", admin).want(t, append(want, "CAPTURED CONTENT:", "1 warning; ")...) // the other one is about the sink
	run(t, "", "config", "status", "-admin", admin).want(t, append(want, "cannot write the capture debug to file:/tmp/acme.jsonl: disk full")...)
}
