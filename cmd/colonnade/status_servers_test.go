package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"colonnade/node"
)

// sharedPage is what one of several servers of ams reports of the pool chat: its home, what the server has of it, and the ownership
// of its engines. The second engine has been wanted for so long.
func sharedPage(server, home string, held, queued int, ownership string) string {
	return fmt.Sprintf(`[{"colo": "ams", "node": %q, "home": %q, "here": %v, "pool": "chat", "limit": 8, "held": %d, "free": 0, "queued": %d,
"expected_wait_ms": 100, "rate_per_second": 10, "granted": 7, "refused": {}, "granting": true,
"endpoints": [{"id": "gpu-1", "url": "http://h:1", "state": "up", "concurrency": 4, "held": 1, "taken": 3},
 {"id": "gpu-2", "url": "http://h:2", "state": "up", "concurrency": 4}], "ownership": [%s],
"queue": {"discipline": "fair", "cost": "tokens", "limit": 32, "per_account": 12, "max_wait_ms": 10000}, "bands": [], "accounts": []}]`,
		server, home, server == home, held, queued, ownership)
}

// serveShared serves the pages of three servers of ams: ams-2 is the home, ams-1 was, and ams-3 has nothing.
func serveShared(t *testing.T, waited time.Duration) (admins string) {
	t.Helper()
	since := time.Now().Add(-waited).Format(time.RFC3339Nano)
	one := pooled("ams-1", sharedPage("ams-1", "ams-2", 3, 2, `{"url": "http://h:1", "state": "elsewhere", "owner": "ams-2/B", "held_elsewhere": 1},
 {"url": "http://h:2", "state": "owned", "owner": "ams-1/A"}`))
	two := pooled("ams-2", sharedPage("ams-2", "ams-2", 1, 5, fmt.Sprintf(`{"url": "http://h:1", "state": "owned", "owner": "ams-2/B", "held_elsewhere": 2},
 {"url": "http://h:2", "state": "wanted", "owner": "ams-1/A", "blocked_by": "ams-1/A", "why": "another process owns it", "since": %q}`, since)))
	three := configured(node.ConfigState{Node: "ams-3", WrittenOff: 1})
	three.pools = func() string {
		return sharedPage("ams-3", "ams-2", 0, 0, `{"url": "http://h:1", "state": "elsewhere", "owner": "ams-2/B"}`)
	}
	return one.serve(t) + "," + two.serve(t) + "," + three.serve(t)
}

const wantShared = `
COLO  POOL              SLOTS              QUEUE  DRAIN   WAIT  OLDEST
ams   chat  █░░░░░░░░░    1/8  ██░░░░░░░░   5/32   10/s  100ms       -  1 engine not granted yet, 3 on other servers

COLO  SERVER  HOME OF  HELD  WAITING  OWNED  WANTED  ELSEWHERE  WRITTEN OFF
ams   ams-1         0     3        2      1       0          0
ams   ams-2         1     1        5      1       1          2
ams   ams-3         0     0        0      0       0          0            1

chat in ams  home ams-2, one of 3 servers; fair by tokens; at most 12 requests of an account wait, for 10s
  granted   7
  ENDPOINT              SLOTS  STATE
  gpu-1     ███░░░░░░░    1/4  up, 2 held by other servers, 1 held for another pool
  gpu-2     ░░░░░░░░░░    0/4  up, not granted yet for 2.00s: another process owns it (ams-1/A)
  OTHER SERVER  HELD  WAITING  OWNED  WANTED  ITS HOME
  ams-1            3        2      1       0  ams-2
`

// A pool that several servers report is one row, as its home shows it, and what the others still have of it stands below.
func TestStatusOfSeveralServers(t *testing.T) {
	admins := serveShared(t, 2*time.Second)
	out := run(t, "", "status", "-admin", admins).want(t)
	if !strings.Contains(regexp.MustCompile(`yet for [0-9.]+s`).ReplaceAllString(out, "yet for 2.00s"), wantShared) {
		t.Errorf("got\n%s\nwant\n%s", out, wantShared)
	}
	page, err := os.ReadFile("../../docs/status.md")
	if err != nil || !strings.Contains(string(page), "\n```text"+wantShared+"```\n") {
		t.Errorf("docs/status.md does not have the sample: %v", err)
	}
	var state fleetState
	if err := json.Unmarshal([]byte(run(t, "", "status", "-json", "-admin", admins).want(t)), &state); err != nil {
		t.Fatal(err)
	}
	for _, n := range state.Nodes {
		if len(n.Pools) != 1 || n.Pools[0].Home != "ams-2" || n.Pools[0].Here != (n.Node == "ams-2") || len(n.Pools[0].Ownership) == 0 {
			t.Errorf("-json has for %s: %+v", n.Node, n.Pools)
		}
	}
}

// An engine that a server has waited for longer than any takeover lasts is an error that names the record in the way.
func TestStatusReportsBlockedEngines(t *testing.T) {
	run(t, "", "status", "-admin", serveShared(t, time.Minute)).fail(t, ": grants nothing on http://h:2 for more than 20s: another process owns it (record owners/ams/ams-1/A)", "1 error found")
}

// The counters of a pool whose home has changed are those of another server, and are not compared.
func TestStatusWhenTheHomeChanges(t *testing.T) {
	views := func(home string, granted uint64) []poolView {
		s := &fleetState{}
		for _, name := range []string{"ams-1", "ams-2"} {
			n := nodeState{registration: registration{Node: name, Place: "ams"}, answered: time.Now()}
			if err := json.Unmarshal([]byte(sharedPage(name, home, 0, 0, "")), &n.Pools); err != nil {
				t.Fatal(err)
			}
			n.Pools[0].Granted = granted
			s.Nodes = append(s.Nodes, n)
		}
		return poolViews(s, nil)
	}
	f := func(before, now []poolView, home string, compared bool) {
		t.Helper()
		s := &fleetState{}
		for _, p := range append([]poolView{now[0]}, now[0].others...) {
			s.Nodes = append(s.Nodes, *p.server)
		}
		got := poolViews(s, before)
		if len(got) != 1 || got[0].server.Node != home || len(got[0].others) != 1 || (got[0].grants != "") != compared {
			t.Errorf("got %+v", got)
		}
	}
	one, two := views("ams-1", 7), views("ams-2", 9)
	f(one, views("ams-1", 9), "ams-1", true)
	f(one, two, "ams-2", false)
	f(views("ams-9", 7), two, "ams-2", false)
}
