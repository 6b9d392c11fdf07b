package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/analytics/query"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// loggingNode is a node with events, whose page is registered in etcd.
type loggingNode struct {
	*journal.Log
	admin string
}

// startLogging registers a node under a key of etcd, such as entries/edge-1.
func startLogging(t *testing.T, s *etcdtest.Server, key string) loggingNode {
	t.Helper()
	dir, name := t.TempDir(), key[strings.LastIndex(key, "/")+1:]
	l := openLog(t, dir, name)
	page := query.NewPage(dir, name)
	t.Cleanup(page.Close)
	mux := http.NewServeMux()
	mux.Handle("GET /debug/events", page)
	admin := serveHandler(t, mux)
	if s != nil {
		put(t, s, map[string]string{key: strings.ReplaceAll(registered(admin), `,"boot":"x"`, map[bool]string{true: `,"boot":"x"`}[strings.HasPrefix(key, "servers/")])})
	}
	return loggingNode{l, admin}
}

// timed returns a final event with a time.
func timed(id, account string, second int) *analytics.Event {
	e := ended(id, account, analytics.OutcomeCompleted)
	e.Time = time.Date(2026, 11, 1, 0, 0, second, 0, time.UTC)
	return e
}

// idsIn returns the request ids of lines of JSON.
func idsIn(text string) string {
	var ids []string
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(line, `"request_id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		ids = append(ids, id)
	}
	return strings.Join(ids, " ")
}

// Events of all nodes come merged by time. A node that is away is named, the others are shown, and the exit status says so.
func TestEventsOfAFleet(t *testing.T) {
	s := startEtcd(t)
	edge, ams := startLogging(t, s, "entries/edge-1"), startLogging(t, s, "servers/ams/ams-1")
	var want []string
	for i := range 2500 { // several pages
		id := fmt.Sprintf("r%04d", i)
		if want = append(want, id); i%3 == 0 {
			edge.Append(timed(id, "acme", i))
		} else {
			ams.Append(timed(id, "acme", i))
		}
	}
	f := func(want string, args ...string) {
		t.Helper()
		if got := idsIn(run(t, "", append([]string{"events"}, args...)...).want(t)); got != want {
			t.Errorf("%v: got %.300q, want %.300q", args, got, want)
		}
	}
	f(strings.Join(want, " "))
	f("r2498 r2499", "-n", "2")
	f("r0000 r0003", "-node", "edge-1", "-until", "2026-11-01T00:00:06Z")
	f("r0007", "-request", "r0007")
	f("r2499", "-admin", edge.admin+","+ams.admin, "-n", "1")
	run(t, "", "events", "-node", "edge-2").fail(t, `no node "edge-2" is registered in etcd`)
	run(t, "", "events", "x").fail(t, `unknown command "x"; colonnade events has tail`)

	put(t, s, map[string]string{"servers/ams/ams-2": registered(testkit.Unreachable(t))})
	r := run(t, "", "events", "-n", "1")
	r.fail(t, "missing: node ams-2: ", "the result is partial: 1 of 3 nodes could not be asked")
	if idsIn(r.out) != "r2499" {
		t.Errorf("got %q", r.out)
	}
	run(t, "", "events", "-node", "ams-2").fail(t, "no node could be asked")
}

// A node that cannot be used is named with the reason.
func TestEventsOfNodesThatCannotBeUsed(t *testing.T) {
	f := func(want string, handler http.HandlerFunc) {
		t.Helper()
		run(t, "", "events", "-admin", serveHandler(t, handler)).fail(t, want, "no node could be asked")
	}
	f("it has no page /debug/events", http.NotFound)
	f("this node keeps no events: it was started without -data-dir", query.NewPage("", "n").ServeHTTP)
	f("its answer was cut", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "{}") })
	f(`it cannot read its events: "disk"`, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", query.HeaderEnd)
		fmt.Fprintln(w, "{}")
		w.Header().Set(query.HeaderEnd, `error: "disk"`)
	})
	f("has the status 500: broken", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) })
}

// Following a fleet shows the new events of each node, reports one that is lost, and goes on when it is back, without gaps.
func TestEventsFollowAFleet(t *testing.T) {
	one, two := startLogging(t, nil, "entries/edge-1"), startLogging(t, nil, "entries/edge-2")
	proxy := testkit.NewProxy(t, two.admin)
	var out, notes record
	stop := background(t, &out, &notes, "events", "-f", "-n", "10", "-admin", one.admin+","+proxy.Address)
	one.Append(ended("first", "acme", analytics.OutcomeCompleted))
	out.await(t, `"first"`)
	two.Append(ended("second", "acme", analytics.OutcomeCompleted))
	out.await(t, `"second"`)
	proxy.Swallow()
	notes.await(t, "missing: node "+proxy.Address+": ")
	two.Append(ended("third", "acme", analytics.OutcomeCompleted))
	one.Append(ended("fourth", "acme", analytics.OutcomeCompleted))
	out.await(t, `"fourth"`)
	proxy.Heal()
	notes.await(t, "node "+proxy.Address+" answers again\n")
	out.await(t, `"third"`)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := idsIn(out.String()); got != "first second fourth third" {
		t.Errorf("got %q", got)
	}
}

// A node that registers later is found, with its new events. One that comes back at another address goes on where it was.
func TestEventsFollowNodesThatRegisterLater(t *testing.T) {
	s := startEtcd(t)
	one := startLogging(t, s, "entries/edge-1")
	proxy := testkit.NewProxy(t, one.admin)
	at := func(admin string) {
		put(t, s, map[string]string{"entries/edge-1": strings.ReplaceAll(registered(admin), `,"boot":"x"`, "")})
	}
	at(proxy.Address)
	one.Append(ended("first", "acme", analytics.OutcomeCompleted))
	var out, notes record
	stop := background(t, &out, &notes, "events", "-f", "-n", "10")
	out.await(t, `"first"`)
	two := startLogging(t, s, "servers/ams/ams-1")
	old := ended("old", "acme", analytics.OutcomeCompleted)
	old.Time = time.Now().Add(-time.Hour)
	two.Append(old)
	two.Append(ended("second", "acme", analytics.OutcomeCompleted))
	out.await(t, `"second"`)
	notes.await(t, "node ams-1 has registered\n")
	proxy.Swallow()
	at(one.admin)
	one.Append(ended("third", "acme", analytics.OutcomeCompleted))
	out.await(t, `"third"`)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := idsIn(out.String()); got != "first second third" {
		t.Errorf("got %q", got)
	}
}
