package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/entry"
	"colonnade/fleet"
	"colonnade/internal/etcdtest"
	"colonnade/node"
)

// page serves what a node says at /debug/config, and of its pools if it has some, and returns its admin address.
func page(t *testing.T, config func() node.ConfigState, pools ...string) string {
	t.Helper()
	mux := http.NewServeMux()
	for _, page := range pools {
		mux.HandleFunc("GET /debug/pools", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page) })
		mux.HandleFunc("GET /health/ready", func(http.ResponseWriter, *http.Request) {})
	}
	mux.HandleFunc("GET /debug/config", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(config()) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func says(c node.ConfigState) func() node.ConfigState { return func() node.ConfigState { return c } }

func registration(admin string) string {
	return fmt.Sprintf(`{"address":"127.0.0.1:1","admin":%q,"boot":"x"}`, admin)
}

func revisionOf(t *testing.T, s *etcdtest.Server, key string) int64 {
	t.Helper()
	docs, revision, err := etcd.List(t.Context(), s.Client(t), node.Prefix, key)
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) == 1 {
		return docs[0].Revision
	}
	return revision
}

func TestStatus(t *testing.T) {
	s := startEtcd(t)
	run(t, "", "config", "status").want(t, "has 0 documents", "no node has registered", "nothing is wrong")
	put(t, s, map[string]string{
		"models/a": "pool: p\n", "colos/ams": "region: weur\n", "endpoints/ams/x": "url: http://h:1\npool: p\n",
		"servers/ams/ams-1": registration(page(t, says(node.ConfigState{Node: "ams-1", Revision: 2, AgeSeconds: 1.25}))),
	})
	put(t, s, map[string]string{"entries/edge-1": fmt.Sprintf(`{"address":"127.0.0.1:1","admin":%q,"region":"weur"}`,
		page(t, says(node.ConfigState{Node: "edge-1", Revision: 6, AgeSeconds: 0.5})))})
	out := run(t, "", "config", "status").want(t, "is at revision 6 and has 5 documents",
		"colos 1, endpoints 1, entries 1 (registered), models 1, servers 1 (registered)", "nothing is wrong")
	for _, want := range []string{"edge-1|entry weur|127.0.0.1:?|6|0|500ms|0|0|0", "ams-1|colo ams|127.0.0.1:?|2|4|1.25s|0|0|0"} {
		if !hasRow(out, want) {
			t.Errorf("no row %s in\n%s", want, out)
		}
	}
	for line := range strings.Lines(out) {
		if len(line) > 101 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

// hasRow looks for a row of a table; ports are written as ?.
func hasRow(out, want string) bool {
	for line := range strings.Lines(out) {
		fields := strings.FieldsFunc(strings.ReplaceAll(strings.TrimSpace(line), "  ", "\t"), func(r rune) bool { return r == '\t' })
		for i, f := range fields {
			fields[i] = strings.TrimSpace(f)
			if strings.HasPrefix(fields[i], "127.0.0.1:") {
				fields[i] = "127.0.0.1:?"
			}
		}
		if strings.Join(fields, "|") == want {
			return true
		}
	}
	return false
}

func TestStatusOfWhatIsWrong(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{
		"models/a": "pool: p\ncost: {unit: eur, input: 1, per: 10}\n", "models/b": "aliases: [a]\npool: p\n", "pools/bad": "queue: {limit: -3}\n", "pools/ours": "{}", "pools/fixed": "{}",
		"colos/ams": "region: weur\n", "endpoints/ams/x": "url: http://h:1\npool: p\n", "endpoints/ams/y": "url: http://h:1\npool: p\n", "flows/x\x1b": "{}",
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	listener.Close()
	old := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(old.Close)
	bad, ours := revisionOf(t, s, "pools/bad"), revisionOf(t, s, "pools/ours")
	one := page(t, says(node.ConfigState{
		Node: "one", Revision: 3, AgeSeconds: 61, ExpiredLeases: []string{"endpoints/ams/z"}, PendingDeletions: []string{"models/c", "models/d"},
		Rejected: []fleet.Rejection{
			{Key: "pools/bad", Revision: bad, Field: "queue.limit", Reason: "must be at least 0", LastGood: true},
			{Key: "pools/ours", Revision: ours, Field: "new", Reason: "unknown field"},
			{Key: "pools/fixed", Revision: 1, Reason: "was bad"},
		},
	}))
	put(t, s, map[string]string{
		"servers/ams/one": registration(one),
		"servers/ams/two": registration(page(t, says(node.ConfigState{Node: "two", Revision: 1000, PendingDeletions: []string{"models/c"},
			Rejected: []fleet.Rejection{{Key: "pools/bad", Revision: bad}}}))),
		"servers/ams/gone":  registration(closed),
		"servers/ams/old":   registration(strings.TrimPrefix(old.URL, "http://")),
		"servers/ams/other": registration(one),
		"servers/ams/mute":  `{"address":"127.0.0.1:1","boot":"x"}`,
	})
	r := run(t, "", "config", "status")
	flat := ran{strings.ReplaceAll(r.out, "\n  ", " "), r.notes, r.err}
	flat.fail(t,
		fmt.Sprintf(`- pools/bad (revision %d): queue.limit: -3: must be at least 0; one goes on with the last good version; two has none`, bad),
		fmt.Sprintf(`- pools/ours (revision %d): new: unknown field; one has none`, ours),
		`- "flows/x\x1b (revision`,
		`- endpoints/ams/y: url: "http://h:1": not in force, since endpoints/ams/x has this URL, too`,
		`- servers/ams/gone: cannot be asked at `+closed+`: connection refused; if the node is on another machine, run this there`,
		`- servers/ams/old: cannot be asked at `+old.Listener.Addr().String()+`: it has no page /debug/config`,
		`- servers/ams/other: cannot be asked at `+one+`: there, node one answers; if the node is on another machine`,
		`- servers/ams/mute: cannot be asked: it has registered no admin address`,
		`- servers/ams/one: has not heard from etcd for 1m1s, and goes on with the documents of revision 3`,
		`- servers/ams/two: has heard of revision 1000, and etcd is at`,
		`- 2 deletions of models held back by one, two: models/c, models/d; to confirm that they are meant: colonnade config confirm-deletions`,
		`- models/b: aliases: "a": requests for it go to models/a`,
		`- pools/p: queue.cost: "tokens": a has a price, and b has none, and a token counts as 1`,
		`- servers/ams/one: in force although their leases ran out: endpoints/ams/z`,
		`11 things are wrong`)
	if strings.Contains(r.out, "was bad") || strings.Contains(r.out, "\x1b") {
		t.Errorf("it tells of a version that is no more, or repeats what is in etcd as it is:\n%s", r.out)
	}
	var said status
	r = run(t, "", "config", "status", "-json")
	if err := json.Unmarshal([]byte(r.out), &said); err != nil || r.err == nil {
		t.Fatalf("%v, %v", err, r.err)
	}
	if len(said.Wrong) != 11 || len(said.Nodes) != 6 || len(said.Rejected) != 3 || len(said.Conflicts) != 2 || said.Documents["servers"] != 6 || said.Registered["servers"] != 6 {
		t.Errorf("%s", r.out)
	}
}

func TestStatusOfWhoDrains(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"entries/e": `{"address":"127.0.0.1:1","region":"weur","state":"draining"}`, "servers/ams/s": `{"address":"127.0.0.1:1","boot":"x","state":"draining"}`})
	run(t, "", "config", "status").fail(t, "entry weur, draining", "colo ams, draining")
}

// heldBy has each key and node once, and kinds in order.
func TestHeldBy(t *testing.T) {
	var nodes []nodeStatus
	for name, keys := range map[string]string{"a": "pools/x models/y", "b": "models/y models/x pools/x"} {
		nodes = append(nodes, nodeStatus{registeredNode: registeredNode{Node: name}, Config: &node.ConfigState{PendingDeletions: strings.Fields(keys)}})
	}
	slices.SortFunc(nodes, func(a, b nodeStatus) int { return strings.Compare(a.Node, b.Node) })
	var texts []string
	for _, h := range heldBy(nodes) {
		texts = append(texts, h.text())
	}
	if got := strings.Join(texts, "\n"); got != "2 deletions of models held back by a, b: models/y, models/x\n1 deletion of pools held back by a, b: pools/x" {
		t.Errorf("got\n%s", got)
	}
}

func TestStatusWithoutEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes as long as etcd has to answer")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	root := newRoot()
	root.SetArgs([]string{"config", "status", "--etcd", "http://127.0.0.1:1"})
	if err := root.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), "etcd at http://127.0.0.1:1 does not answer; say where it is with -etcd") {
		t.Error(err)
	}
}

func TestReachable(t *testing.T) {
	f := func(admin, address, want string) {
		t.Helper()
		if got := reachable(admin, address); got != want {
			t.Errorf("reachable(%q, %q) = %q, want %q", admin, address, got, want)
		}
	}
	f("127.0.0.1:9080", "10.0.0.1:80", "127.0.0.1:9080")
	f("[::]:9080", "10.0.0.1:80", "10.0.0.1:9080")
	f("0.0.0.0:9080", "host.example:80", "host.example:9080")
	f("[::]:9080", "[::]:80", "127.0.0.1:9080")
	f("", "10.0.0.1:80", "")
}

// What a document refers to that is rejected now may be in force in its last good version.
func TestStatusOfAReferenceToWhatIsRejected(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{
		"models/a": "pool: p\n", "colos/ams": "region: weur\nextra: 1\n", "endpoints/ams/x": "url: http://h:1\npool: p\n",
	})
	status := run(t, "", "config", "status")
	status.fail(t, "wrong")
	if strings.Contains(status.out, "there is no document colos/ams") {
		t.Errorf("it says that what is rejected is not there:\n%s", status.out)
	}
	run(t, "", "config", "delete", "colos/ams")
	run(t, "", "config", "status").fail(t, "there is no document colos/ams", "no model can be served")
}

// What a node says of its certificates, and of colos that it does not reach.
func TestStatusOfCertificates(t *testing.T) {
	now := time.Now()
	certificate := func(listener string, age, left time.Duration) node.CertificateState {
		return node.CertificateState{Listener: listener, Begins: now.Add(-age), Expires: now.Add(left)}
	}
	const day = 24 * time.Hour
	n := nodeStatus{registeredNode: registeredNode{Document: "entries/e"}, Config: &node.ConfigState{
		Certificates: []node.CertificateState{
			certificate("public", 90*day, -3*day-time.Minute), certificate("peer", 80*day, 8*day+time.Minute),
			certificate("public", 60*day, 30*day), certificate("peer", 330*day, 30*day), // not yet
			certificate("public", 10*time.Hour, 14*time.Hour), certificate("peer", 23*time.Hour, time.Hour),
		},
		Unreached: []entry.Unreached{
			{Colo: "ams", Since: now.Add(-3 * time.Hour), Last: now.Add(-2 * time.Second), Times: 41, Why: "connect: connection refused"},
			{Colo: "fra", Since: now.Add(-3 * time.Hour), Last: now.Add(-time.Hour), Times: 1, Why: "old"},
		},
	}}
	s := &status{Nodes: []nodeStatus{n}}
	s.judge(0)
	f := func(got []string, want ...string) {
		t.Helper()
		if len(got) != len(want) {
			t.Errorf("got %q", got)
			return
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("got %q, want %q", got[i], want[i])
			}
		}
	}
	f(s.Wrong, "entries/e: its public certificate has expired 3 days ago: others refuse it; replace the files of -tls-cert and -tls-key")
	f(s.Warnings, "entries/e: its peer certificate expires in 8 days, at 20", "entries/e: its peer certificate expires in 1h0m0s, at 20",
		"entries/e: has not reached colo ams for 3h0m0s, 41 times, the last 2.0")
}
