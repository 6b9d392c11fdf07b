package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/cmd/internal/command"
	"colonnade/entry"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
	"colonnade/problems"
	"colonnade/reasons"
)

func TestConfigStatus(t *testing.T) {
	s := startEtcd(t)
	run(t, "", "config", "status").fail(t, "revision 1, 0 documents", "no node is registered", "- there are no documents",
		"effect: every request gets 401", "action: apply the documents of the fleet", "1 error found")
	put(t, s, map[string]string{"models/a": "pool: p\n", "colos/ams": "region: weur\n", "endpoints/ams/x": "url: http://h:1\npool: p\n"})
	configured(node.ConfigState{Node: "ams-1", Revision: 2, AgeSeconds: 1.25}).register(t, s, "servers/ams/ams-1")
	put(t, s, map[string]string{"entries/edge-1": fmt.Sprintf(`{"address":"127.0.0.1:1","admin":%q,"region":"weur"}`,
		configured(node.ConfigState{Node: "edge-1", Revision: 6, AgeSeconds: 0.5}).serve(t))})
	out := run(t, "", "config", "status").want(t, "revision 6, 5 documents",
		"colos 1, endpoints 1, entries 1 (registered), models 1, servers 1 (registered)", "no problems")
	for _, want := range []string{"edge-1|entry weur|127.0.0.1:?|6|0|500ms|0|0|0", "ams-1|colo ams|127.0.0.1:?|2|4|1.25s|0|0|0"} {
		if !hasRow(out, want) {
			t.Errorf("no row %s in\n%s", want, out)
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

func TestConfigStatusReportsProblems(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{
		"models/a": "pool: p\ncost: {unit: eur, input: 1, per: 10}\n", "models/b": "aliases: [a]\npool: p\n", "pools/bad": "queue: {limit: -3}\n", "pools/ours": "{}", "pools/fixed": "{}",
		"colos/fra": "{}", "colos/iad": "{}", "colos/lhr": "{}", "colos/nrt": "{}", "colos/sin": "{}",
		"colos/ams": "region: weur\n", "endpoints/ams/x": "url: http://h:1\npool: p\n", "plans/x\x1b": "{}",
	})
	put(t, s, map[string]string{"endpoints/ams/y": "url: http://h:1\npool: p\n"})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	listener.Close()
	old := serveHandler(t, http.NotFoundHandler())
	bad, ours := revisionOf(t, s, "pools/bad"), revisionOf(t, s, "pools/ours")
	one := configured(node.ConfigState{
		Node: "one", Revision: 3, AgeSeconds: 61, ExpiredLeases: []string{"endpoints/ams/z"}, PendingDeletions: []string{"models/c", "models/d"},
		Rejected: []fleet.Rejection{
			{Key: "pools/bad", Revision: bad, Field: "queue.limit", Reason: "must be at least 0", LastGood: true},
			{Key: "pools/ours", Revision: ours, Field: "new", Reason: "unknown field"},
			{Key: "pools/fixed", Revision: 1, Reason: "was bad"},
		},
	}).register(t, s, "servers/ams/one")
	configured(node.ConfigState{Node: "two", Revision: 1000, PendingDeletions: []string{"models/c"},
		Rejected: []fleet.Rejection{{Key: "pools/bad", Revision: bad}}}).register(t, s, "servers/sin/two")
	put(t, s, map[string]string{
		"servers/fra/gone": registered(closed), "servers/iad/old": registered(old), "servers/lhr/other": registered(one),
		"servers/nrt/mute": `{"address":"127.0.0.1:1","boot":"x"}`,
	})
	r := run(t, "", "config", "status")
	r.fail(t,
		fmt.Sprintf(`- pools/bad (revision %d): queue.limit: -3: must be at least 0; in force: an earlier version at one, none at two`, bad),
		fmt.Sprintf(`- pools/ours (revision %d): new: unknown field; in force: none at one`, ours),
		`- "plans/x\x1b (revision`,
		`- endpoints/ams/y: url: "http://h:1": not in force, since endpoints/ams/x has the same url`,
		`- servers/fra/gone: cannot be asked at `+closed+`: connection refused; if the node is on another machine, run this there`,
		"action: look whether the node runs, and at its log",
		`- servers/iad/old: cannot be asked at `+old+`: it has no page /debug/config`,
		`- servers/lhr/other: cannot be asked at `+one+`: node one answers there; if the node is on another machine`,
		`- servers/nrt/mute: cannot be asked: it has registered no admin address`,
		`- servers/ams/one: has not heard from etcd for 1m1s; the documents of revision 3 are in force`,
		`- servers/sin/two: has heard of revision 1000, but etcd is at`,
		`- 2 deletions held back by one, two: models/c, models/d`, "action: if the deletions are intended: colonnade config confirm-deletions",
		`- models/b: aliases: "a": requests for it go to models/a`,
		`- pools/p: queue.cost: "tokens": priced in "eur": a; without a price`,
		`- servers/ams/one: in force although their leases have expired: endpoints/ams/z`,
		`11 errors found`)
	if strings.Contains(r.out, "was bad") || strings.Contains(r.out, "\x1b") {
		t.Errorf("it reports a version that was replaced, or prints what is in etcd as it is:\n%s", r.out)
	}
	var state fleetState
	r = run(t, "", "config", "status", "-json")
	if err := json.Unmarshal([]byte(r.out), &state); err != nil || r.err == nil {
		t.Fatalf("%v, %v", err, r.err)
	}
	if state.count(problems.SeverityError) != 11 || state.count(problems.SeverityWarning) != 3 || len(state.Nodes) != 6 ||
		state.Documents["servers"] != 6 || state.Registered["servers"] != 6 {
		t.Errorf("%s", r.out)
	}
	for _, p := range state.Problems {
		if p.Subject == "" && !strings.Contains(p.Text, "held back") {
			t.Errorf("a problem without its document: %s", p.Text)
		}
	}
}

func TestConfigStatusShowsDrainingNodes(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"entries/e": `{"address":"127.0.0.1:1","region":"weur","state":"draining"}`, "servers/ams/s": `{"address":"127.0.0.1:1","boot":"x","state":"draining"}`})
	run(t, "", "config", "status").fail(t, "entry weur, draining", "colo ams, draining")
}

func TestHeldDeletionsNameEachKeyOnce(t *testing.T) {
	held := heldBy([]nodeState{
		{registration: registration{Node: "a"}, Config: &node.ConfigState{PendingDeletions: []string{"pools/x", "models/y"}}}, {registration: registration{Node: "mute"}},
		{registration: registration{Node: "b"}, Config: &node.ConfigState{PendingDeletions: []string{"models/y", "models/x", "pools/x"}}}, {Config: &node.ConfigState{}},
	})
	if got := held.String(); got != "3 deletions held back by a, b: pools/x, models/y, models/x" {
		t.Errorf("got %s", got)
	}
}

// A document whose deletion nodes hold back is still there for what refers to it.
func TestReferenceToAHeldDocument(t *testing.T) {
	t.Parallel()
	f := func(held []string, want int, texts ...string) {
		t.Helper()
		docs := document.NewSet()
		for key, value := range map[string]string{"models/m": "pool: p\n", "endpoints/ams/gpu-1": "url: http://h:1\npool: p\n", "endpoints/fra/gpu-1": "url: http://h:1\npool: q\n"} {
			if err := docs.Put(key, []byte(value), 1); err != nil {
				t.Fatal(err)
			}
		}
		table := docs.Table()
		var got []string
		for _, p := range (heldDeletions{keys: held}).inForce(problems.OfTable(table, problems.Scope{}), table) {
			if p.Kind == reasons.ReferenceDangling {
				got = append(got, p.Text)
			}
		}
		all := strings.Join(got, "\n")
		for _, text := range texts {
			if !strings.Contains(all, text) {
				t.Errorf("held %v: no %q in\n%s", held, text, all)
			}
		}
		if len(got) != want {
			t.Errorf("held %v: %d references lead nowhere, want %d:\n%s", held, len(got), want, all)
		}
	}
	f(nil, 3, "there is no document colos/ams", "there is no document colos/fra", "no model uses this pool")
	f([]string{"colos/ams"}, 2, "there is no document colos/fra", "no model uses this pool")
	f([]string{"colos/ams", "colos/fra", "models/q"}, 0)
}

// A pool without an engine that is up is one problem, which names the engines, and says what it does to all models of the pool.
func TestPoolDownIsSaidOnce(t *testing.T) {
	t.Parallel()
	docs := document.NewSet()
	for key, value := range map[string]string{
		"models/a": "pool: p\n", "models/b": "pool: p\n", "colos/ams": "{}", "endpoints/ams/gpu-1": "url: http://h:1\npool: p\n",
		"servers/ams/ams-1": `{"address":"127.0.0.1:1","boot":"x","pools":{"p":0}}`,
	} {
		if err := docs.Put(key, []byte(value), 1); err != nil {
			t.Fatal(err)
		}
	}
	f := func(want string, reported ...problems.Problem) {
		t.Helper()
		n := nodeState{registration: registration{Document: "servers/ams/ams-1", Role: roleColo}, Config: &node.ConfigState{Problems: reported}}
		s := &fleetState{Etcd: "http://127.0.0.1:1", Nodes: []nodeState{n}}
		s.table = docs.Table()
		var got []string
		for _, p := range fleetProblems(s, nil) {
			got = append(got, p.Text+"; "+p.Effect)
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
		}
	}
	f("servers/ams/ams-1: pool p: no engine is up: gpu-1 silent; every request for a, b gets 503",
		problems.Problem{Kind: reasons.PoolDown, Severity: problems.SeverityError, Subject: "servers/ams/ams-1", Text: "servers/ams/ams-1: pool p: no engine is up: gpu-1 silent"})
	f("models/a: pool: \"p\": no engine of it is up in any colo; it is in: ams; every request for a gets 503\n" +
		"models/b: pool: \"p\": no engine of it is up in any colo; it is in: ams; every request for b gets 503")
}

func TestConfigStatusWithoutEtcd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	root := newProgram(strings.NewReader(""), io.Discard, io.Discard)
	err := command.Run(ctx, root, []string{"colonnade", "config", "status", "--etcd", "http://127.0.0.1:1"})
	if err == nil || !strings.Contains(err.Error(), "etcd at http://127.0.0.1:1 does not answer; set its URLs with -etcd") {
		t.Error(err)
	}
}

func TestAdminAddress(t *testing.T) {
	f := func(admin, address, want string) {
		t.Helper()
		if got := node.AdminAddress(admin, address); got != want {
			t.Errorf("adminAddress(%q, %q) = %q, want %q", admin, address, got, want)
		}
	}
	f("127.0.0.1:9080", "10.0.0.1:80", "127.0.0.1:9080")
	f("[::]:9080", "10.0.0.1:80", "10.0.0.1:9080")
	f("0.0.0.0:9080", "host.example:80", "host.example:9080")
	f("[::]:9080", "[::]:80", "127.0.0.1:9080")
	f("", "10.0.0.1:80", "")
}

// A rejected document may be in force in its last good version, so that a reference to it is not reported.
func TestReferenceToARejectedDocument(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{
		"models/a": "pool: p\n", "colos/ams": "region: weur\nextra: 1\n", "endpoints/ams/x": "url: http://h:1\npool: p\n",
	})
	status := run(t, "", "config", "status")
	status.fail(t, "1 error found")
	if strings.Contains(status.out, "there is no document colos/ams") {
		t.Errorf("a rejected document is reported as missing:\n%s", status.out)
	}
	run(t, "", "config", "delete", "colos/ams")
	run(t, "", "config", "status").fail(t, "there is no document colos/ams", "no model can be served")
}

func TestProblemsThatNodesReport(t *testing.T) {
	now := time.Now()
	certificate := func(listener string, age, left time.Duration) node.CertificateState {
		return node.CertificateState{Listener: listener, Begins: now.Add(-age), Expires: now.Add(left)}
	}
	const day = 24 * time.Hour
	n := nodeState{registration: registration{Document: "entries/e"}, Config: &node.ConfigState{
		Certificates: []node.CertificateState{
			certificate("public", 90*day, -3*day-time.Minute), certificate("peer", 80*day, 8*day+time.Minute),
			certificate("public", 60*day, 30*day), certificate("peer", 330*day, 30*day), // not yet
			certificate("public", 10*time.Hour, 14*time.Hour), certificate("peer", 23*time.Hour, time.Hour),
			{Name: "a.example.org"}, {Name: "b.example.org", Problem: "no such host"}, // the first one is not there yet
			{Name: "c.example.org", Begins: now.Add(-90 * day), Expires: now.Add(-3*day - time.Minute), Problem: "no route to host"},
			{Name: "d.example.org", Begins: now.Add(-70 * day), Expires: now.Add(20*day + time.Minute), Problem: "no route to host"},
			{Name: "e.example.org", Begins: now.Add(-89 * day), Expires: now.Add(day)}, // being renewed
		},
		Unresponsive: []entry.Unresponsive{
			{Colo: "ams", Node: "ams-1", Since: now.Add(-3 * time.Hour), Last: now.Add(-2 * time.Second), Times: 41, Error: "connect: connection refused"},
			{Colo: "fra", Node: "fra-1", Since: now.Add(-3 * time.Hour), Last: now.Add(-time.Hour), Times: 1, Error: "old"},
		},
		UnreachedColos: []entry.ObservedColo{{Colo: "ams", Unreached: true, Failures: 41, FailingSince: new(now.Add(-3 * time.Hour))}},
		LostEvents:     []string{"events are being dropped: refusals, 3 since the start"},
	}}
	s := &fleetState{Time: now, Nodes: []nodeState{n}}
	s.documentState = newDocumentState(nil, 0)
	got := fleetProblems(s, nil)
	want := []problems.Problem{
		{Severity: problems.SeverityError, Subject: "entries/e", Text: "entries/e: its public certificate expired 3 days ago, so connections to it fail; replace the files of -tls-cert and -tls-key"},
		{Severity: problems.SeverityError, Subject: "entries/e", Text: "entries/e: has no certificate for b.example.org, so connections to it fail: no such host"},
		{Severity: problems.SeverityError, Subject: "entries/e", Text: "entries/e: its certificate for c.example.org expired 3 days ago, so connections to it fail: no route to host"},
		{Severity: problems.SeverityError, Subject: "entries/e", Text: "entries/e: events are being dropped: refusals, 3 since the start"},
		{Severity: problems.SeverityWarning, Subject: "entries/e", Text: "entries/e: its peer certificate expires in 8 days, at 20"}, {Severity: problems.SeverityWarning, Subject: "entries/e", Text: "entries/e: its peer certificate expires in 1h0m0s, at 20"},
		{Severity: problems.SeverityWarning, Subject: "entries/e", Text: "entries/e: has requested its first certificate for a.example.org, and no answer yet"},
		{Severity: problems.SeverityWarning, Subject: "entries/e", Text: "entries/e: cannot renew its certificate for d.example.org, which expires in 20 days: no route to host"},
		{Severity: problems.SeverityWarning, Subject: "entries/e", Text: "entries/e: has had no answer from server ams/ams-1 for 3h0m0s (41 attempts, the last one 2.00s ago): connect: connection refused"},
		{Severity: problems.SeverityWarning, Subject: "entries/e", Text: "entries/e: has reached no server of colo ams for 3h0m0s (41 attempts), and asks it last"},
	}
	if len(got) != len(want) {
		t.Fatalf("got %q", got)
	}
	for i := range want {
		if got[i].Severity != want[i].Severity || got[i].Subject != want[i].Subject || !strings.HasPrefix(got[i].Text, want[i].Text) {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}
