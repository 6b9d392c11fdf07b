package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"colonnade/fleet"
	"colonnade/node"
)

const busyPage = `[{"colo": "ams", "node": "ams-1", "pool": "chat", "limit": 8, "held": 8, "free": 0, "queued": 27, "draining": false,
"expected_wait_ms": 1250, "rate_per_second": 11.73, "full_seconds": 431.2, "granted": 4810, "released": 4802,
"refused": {"busy": 90, "queue_full": 12, "account_queue_full": 31},
"endpoints": [
 {"id": "gpu-1", "url": "http://10.0.0.1:8000", "state": "up", "concurrency": 4, "held": 4, "auto": {"min": 2, "max": 64, "samples": 812}},
 {"id": "gpu-0", "url": "http://10.0.0.2:8000", "state": "up", "concurrency": 4, "held": 3, "taken": 1, "full": true},
 {"id": "gpu-9", "url": "http://10.0.0.3:8000", "state": "down", "concurrency": 16, "state_seconds": 190.4, "reason": "health path /health answered 500"},
 {"id": "", "url": "http://10.0.0.4:8000", "state": "gone", "concurrency": 4, "held": 1}],
"granting": true, "mean_held_ms": 682.4, "pending_retries": 5,
"queue": {"discipline": "fair", "cost": "tokens", "limit": 32, "per_account": 12, "bytes": 1234567, "bytes_limit": 67108864, "max_wait_ms": 10000, "oldest_wait_ms": 2310},
"bands": [
 {"band": "interactive", "held": 2, "queued": 3, "accounts": 1, "oldest_wait_ms": 310, "virtual_time": 7},
 {"band": "standard", "held": 6, "queued": 24, "accounts": 2, "oldest_wait_ms": 2310, "virtual_time": 9},
 {"band": "batch", "held": 0, "queued": 0, "accounts": 0, "oldest_wait_ms": null, "virtual_time": 0}],
"accounts": [
 {"account": "acme", "weight": 4, "held": 4, "queued": 15, "cap": 4, "at_limit": true, "bytes": 1000, "pending_retries": 4, "mean_output_cost": 312.4, "oldest_wait_ms": 2310, "bands": [
  {"band": "interactive", "held": 2, "queued": 3, "vtime_lead": 0}, {"band": "standard", "held": 2, "queued": 12, "vtime_lead": 1234}]},
 {"account": "flood", "weight": 0.5, "held": 3, "queued": 12, "cap": 100, "at_limit": false, "bytes": 12, "oldest_wait_ms": 1200, "bands": [
  {"band": "standard", "held": 3, "queued": 12, "vtime_lead": 15230.5}]},
 {"account": "quiet", "weight": 1, "held": 1, "queued": 0, "cap": null, "at_limit": false, "bytes": 0, "oldest_wait_ms": null, "bands": [
  {"band": "standard", "held": 1, "queued": 0, "vtime_lead": 0.25}]}],
"other_accounts": 1}]`

const idlePage = `[{"colo": "fra", "node": "fra-1", "pool": "chat", "limit": 4, "held": 0, "free": 4, "queued": 0, "expected_wait_ms": 0,
"rate_per_second": 0, "granted": 0, "refused": {}, "endpoints": [{"id": "gpu-0", "url": "http://10.0.1.1:8000", "state": "up", "concurrency": 4,
 "auto": {"min": 1, "max": 16, "samples": 0}}],
"granting": true, "mean_held_ms": null, "queue": {"discipline": "fifo", "cost": "requests", "limit": 0, "per_account": 64, "bytes_limit": 1, "max_wait_ms": 1500, "oldest_wait_ms": null},
"bands": [], "accounts": [], "other_accounts": 0}]`

const wantBusy = `TIME  etcd ETCD

1 warning; colonnade config status lists them

COLO  POOL              SLOTS              QUEUE   DRAIN   WAIT  OLDEST
ams   chat  ██████████    8/8  ████████░░  27/32  11.7/s  1.25s   2.31s  2/4 OUT, 1 full, 1 account at limit
fra   chat  ░░░░░░░░░░    0/4  ░░░░░░░░░░    0/0       ?   none       -

chat in ams  server ams-1; fair by tokens; at most 12 requests of an account wait, for 10s
  granted   4810, held for 682ms each
  refused   43: account_queue_full 31, queue_full 12
  busy      90, which usually went to another colo
  retries   5 pending: refused, with a Retry-After that is not due yet
  full      no slot free for 7m11s in total
  bytes     1205 KiB of 64 MiB wait
  ENDPOINT                          SLOTS  STATE
  http://10.0.0.4:8000  ███░░░░░░░    1/4  gone
  gpu-9                 ░░░░░░░░░░   0/16  down for 3m10s: health path /health answered 500
  gpu-0                 ████████░░    3/4  up, said full, 1 held for another pool
  gpu-1                 ██████████    4/4  up, auto 2-64
  BAND         HELD  WAITING  OLDEST  ACCOUNTS
  interactive     2        3   310ms         1
  standard        6       24   2.31s         2
  ACCOUNT  HELD  WAITING  OLDEST  RETRIES  WEIGHT   LEAD  OUTPUT  BANDS
  acme      4/4       15   2.31s        4       4      0     312  interactive 3, standard 12, at its limit
  flood       3       12   1.20s        0     0.5  15.2k          standard
  quiet       1        0       -        0       1   0.25          standard
  and 1 account with less; -accounts shows more

chat in fra  server fra-1; fifo by requests; at most 64 requests of an account wait, for 1.5s
  granted   0
  ENDPOINT              SLOTS  STATE
  gpu-0     ░░░░░░░░░░    0/4  up, auto 1-16, nothing learned yet: no streamed answers
`

// normalized replaces what differs from run to run.
func normalized(out string) string {
	for _, r := range []struct{ from, to string }{
		{`(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, "TIME"}, {`\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)`, "TIME"},
		{`http://127\.0\.0\.1:\d{4,}`, "ETCD"}, {`127\.0\.0\.1:\d{2,}`, "ADMIN"},
	} {
		out = regexp.MustCompile(r.from).ReplaceAllString(out, r.to)
	}
	return out
}

// golden compares with a file below testdata, or writes it if COLONNADE_GOLDEN is set.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("COLONNADE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}

func TestStatus(t *testing.T) {
	s := startEtcd(t)
	run(t, "", "status").fail(t, "no colo server is registered", "there are no documents", "2 errors found")
	put(t, s, map[string]string{
		"colos/ams": "region: weur\n", "colos/fra": "region: weur\n", "colos/iad": "state: draining\n", "models/m": "pool: chat\n",
		"endpoints/ams/gpu-1": "url: http://10.0.0.1:8000\npool: chat\n", "endpoints/ams/spare": "url: http://10.0.0.5:8000\npool: spare\n",
		"entries/e": `{"address":"127.0.0.1:1","region":"weur"}`,
	})
	pooled("ams-1", busyPage).register(t, s, "servers/ams/ams-1")
	pooled("fra-1", idlePage).register(t, s, "servers/fra/fra-1")
	out := run(t, "", "status").want(t)
	if got := normalized(out); got != wantBusy {
		t.Errorf("got\n%s\nwant\n%s", got, wantBusy)
	}
	page, err := os.ReadFile("../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sample, _ := strings.Cut(string(page), "```text\n")
	sample, _, _ = strings.Cut(sample, "```\n")
	if !strings.Contains(wantBusy, "\n\n"+sample+"\n") {
		t.Errorf("the sample in docs/status.md is not what status prints:\n%s", sample)
	}
	golden(t, "status.json", normalized(run(t, "", "status", "-json").want(t)))
	if out := run(t, "", "status", "-colo", "fra").want(t, "chat in fra"); strings.Contains(out, "ams") {
		t.Errorf("-colo shows another:\n%s", out)
	}
	run(t, "", "status", "-pool", "chat").want(t, "chat in fra", "chat in ams")
	run(t, "", "status", "-pool", "tiny").fail(t, `no colo server has a pool that matches -colo "" -pool "tiny"`)
	run(t, "", "status", "-colo", "nrt").fail(t, `no colo server has a pool that matches -colo "nrt"`)
}

func TestStatusReportsServersThatAreNotReady(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"colos/ams": "region: weur\n", "colos/fra": "region: weur\n", "colos/iad": "region: us\n",
		"models/m": "pool: chat\n", "endpoints/ams/e": "url: http://h:1\npool: chat\n"})
	lost := pooled("ams-1", busyPage)
	lost.notReady = "granting nothing: lost \x1b[31metcd"
	lost.register(t, s, "servers/ams/ams-1")
	draining := pooled("fra-1", idlePage)
	draining.notReady = "draining"
	put(t, s, map[string]string{"servers/fra/fra-1": strings.Replace(registered(draining.serve(t)), "{", `{"state":"draining",`, 1)})
	run(t, "", "status").fail(t, "colo iad: no server is registered", `- "servers/ams/ams-1: is not ready: granting nothing: lost \x1b[31metcd"`,
		"NOT READY, 2/4 OUT", "draining", "2 errors found")
}

// Rejected documents come first, since the pools may not be what was intended.
func TestStatusReportsRejectedDocuments(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"models/m": "pool: chat\n", "colos/fra": "{}", "endpoints/fra/e": "url: http://h:1\npool: chat\n", "pools/good": "queue: {limit: 3}\n", "pools/bad": "queue: {limit: -3}\n", "entries/e": `{"address":"127.0.0.1:1","region":"weur"}`})
	bad, good := revisionOf(t, s, "pools/bad"), revisionOf(t, s, "pools/good")
	fra := configured(node.ConfigState{Node: "fra-1", Rejected: []fleet.Rejection{
		{Key: "pools/bad", Revision: bad, Field: "queue.limit", Reason: "must be at least 0", LastGood: true, InForce: 1},
		{Key: "pools/good", Revision: good - 1, Field: "queue", Reason: "was bad"},
	}})
	fra.pools = func() string { return idlePage }
	admin := fra.register(t, s, "servers/fra/fra-1")
	r := run(t, "", "status")
	r.fail(t, "1 error found", "chat in fra")
	want := fmt.Sprintf("pools/bad (revision %d): ", bad)
	if at := strings.Index(r.out, want); at < 0 || at > strings.Index(r.out, "COLO") || strings.Count(r.out, "pools/bad") != 1 ||
		!strings.Contains(r.out, "in force: revision 1 at fra-1") || strings.Contains(r.out, "pools/good") {
		t.Errorf("got\n%s", r.out)
	}
	run(t, "", "status", "-admin", admin).want(t, "chat in fra", "server fra-1")
	run(t, "", "status", "-admin", admin, "-colo", "fra").want(t, "chat in fra")
	run(t, "", "status", "-admin", admin, "-colo", "typo").fail(t, `no colo server has a pool that matches -colo "typo"`)
}

// While etcd is away, it is not asked at each poll, and the nodes of the last list are shown.
func TestPollWithoutEtcd(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"servers/fra/fra-1": registered("127.0.0.1:1")})
	p := newPoller("http://"+s.Address, s.Client(t), nil)
	if err := p.list(t.Context()); err != nil || len(p.documents.nodes) != 1 {
		t.Fatal(p.documents.nodes, err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	p.last = p.last.Add(-time.Minute)
	before := time.Now()
	if err := p.list(gone); err != nil || p.listErr == "" || p.last.Before(before) || len(p.documents.nodes) != 1 {
		t.Errorf("%q, tried at %v, %v", p.listErr, p.last, err)
	}
	last := p.last
	if err := p.list(t.Context()); err != nil || p.listErr == "" || p.last != last {
		t.Errorf("etcd was asked again at once: %v", err)
	}
}

// A server that cannot be asked is reported with the reason, and the others are shown.
func TestStatusReportsServersThatCannotBeAsked(t *testing.T) {
	s := startEtcd(t)
	unready := http.NewServeMux()
	unready.HandleFunc("GET /debug/config", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"node":"unready"}`) })
	unready.HandleFunc("GET /debug/pools", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") })
	old := serveHandler(t, http.NotFoundHandler())
	put(t, s, map[string]string{
		"models/m": "pool: chat\n", "colos/ams": "{}", "endpoints/ams/e": "url: http://h:1\npool: chat\n",
		"servers/old/old": registered(old), "servers/closed/closed": registered("127.0.0.1:1"), "servers/mute/mute": `{"address":"127.0.0.1:1","boot":"x"}`,
		"servers/unready/unready": registered(serveHandler(t, unready)),
	})
	pooled("ams-1", busyPage).register(t, s, "servers/other/other")
	pooled("ams-1", busyPage).register(t, s, "servers/ams/ams-1")
	for name, page := range map[string]string{
		"huge": "[" + strings.Repeat(" ", maxPage) + "]", "list": `{"pools": []}`, "half": busyPage[:200], "odd": `[{"held": "\u001b[2J"}]`,
	} {
		pooled(name, page).register(t, s, "servers/"+name+"/"+name)
	}
	run(t, "", "status").fail(t,
		"servers/old/old: cannot be asked at "+old+": it has no page /debug/config: a node of an older version or of another kind",
		"servers/closed/closed: cannot be asked at 127.0.0.1:1: connection refused; if the node is on another machine, run this there",
		"servers/mute/mute: cannot be asked: it has registered no admin address",
		"node ams-1 answers there", "servers/unready/unready: is not ready: its page /health/ready has the status 404",
		"servers/huge/huge: cannot be asked at", "is longer than 16 MiB",
		"cannot read its page /debug/pools: json: cannot unmarshal object", "cannot read its page /debug/pools: unexpected end of JSON input",
		"cannot read its page /debug/pools: json: cannot unmarshal string", "chat in ams", "9 errors found")
}

// A server that does not answer, or does not complete its answer, is not waited for.
func TestPollOfServersThatHang(t *testing.T) {
	hang := make(chan struct{})
	mute := serveHandler(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	slow := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, busyPage[:200])
		w.(http.Flusher).Flush()
		<-hang
	}))
	t.Cleanup(func() { close(hang) })
	p := newPoller("", nil, &poolQuery{})
	p.documents.nodes, p.reader = []registration{{Role: roleColo, Admin: mute}, {Role: roleColo, Admin: slow}}, newPageReader(200*time.Millisecond)
	s, err := p.poll(t.Context())
	if err != nil || len(s.Problems) != 2 || !strings.Contains(s.Problems[0].Text, ": no complete answer within 200ms") ||
		!strings.Contains(s.Problems[1].Text, ": no complete answer within 200ms") {
		t.Errorf("got %v, %v", s.Problems, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.reader = newPageReader(time.Hour)
	polled := make(chan error, 1)
	go func() {
		_, err := p.poll(ctx)
		polled <- err
	}()
	cancel()
	if err := <-polled; err == nil {
		t.Error("a poll that was cancelled has no error")
	}
	p.close()
}

// Whatever a page holds, a terminal gets printable characters and our own colours.
func TestStatusOfHostilePages(t *testing.T) {
	const evil = `"\u001b]0;x\u0007\u001b[2J\r\n\u202e世界\u200d"`
	page := regexp.MustCompile(`"(ams|ams-1|chat|fair|tokens|gpu-1|up|interactive|standard|acme|busy|health path[^"]*)"`).ReplaceAllString(busyPage, evil)
	page = regexp.MustCompile(`\b(8|27|682\.4|2310|1234|4810)\b`).ReplaceAllString(page, "9223372036854775807")
	page = regexp.MustCompile(`\b(431\.2|11\.73|15230\.5|0\.25)\b`).ReplaceAllString(page, "1e308")
	page = regexp.MustCompile(`\b(3|16|190\.4)\b`).ReplaceAllString(page, "-9223372036854775808")
	allowed := regexp.MustCompile(`^(\x1b\[[0-9;]*m|[ -~█░\n])*$`)
	for _, page := range []string{page, `[{}]`, `[null, {"endpoints": [{}], "bands": [{}], "accounts": [{"bands": [{}, {}]}], "queue": null}]`, `null`, `[]`} {
		hostile := pooled("\x1b[31m", page)
		hostile.notReady = "\x1b[31m"
		c := statusCommand{poller: newPoller("", nil, &poolQuery{})}
		c.poller.documents.nodes = []registration{{Role: roleColo, Admin: hostile.serve(t)}}
		for range 2 {
			if err := c.poll(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, width := range []int{0, 80, 1} {
				out := &screen{width: width, colour: true}
				if c.draw(out); !allowed.MatchString(out.String()) {
					t.Errorf("%s\ngives %q", page, out.String())
				}
			}
		}
		c.poller.close()
	}
}

// On terminals of any usual width, no line is too long, and no fact is left out.
func TestStatusFitsTheTerminal(t *testing.T) {
	c := statusCommand{poller: newPoller("", nil, &poolQuery{})}
	long := strings.NewReplacer(`"chat"`, `"meta-llama/Llama-3.1-8B-Instruct"`, `"gpu-9"`, `"gpu-9.rack-12.example.internal"`, `"acme"`, `"acme-research-and-development"`).Replace(busyPage)
	c.poller.documents.nodes = []registration{{Role: roleColo, Admin: pooled("ams-1", long).serve(t)}}
	defer c.poller.close()
	for range 2 { // with rates
		if err := c.poll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	facts := func(width int) map[string]bool {
		out := &screen{width: width, colour: true}
		c.draw(out)
		found := map[string]bool{}
		for line := range strings.Lines(out.String()) {
			if n := text.StringWidthWithoutEscSequences(strings.TrimSuffix(line, "\n")); n > width && width > 0 {
				t.Errorf("%d columns on a terminal of %d: %s", n, width, line)
			}
			for word := range strings.FieldsSeq(text.StripEscape(line)) {
				found[word] = true
			}
		}
		return found
	}
	all := facts(0)
	for _, width := range []int{80, 100, 160} {
		some := facts(width)
		for word := range all {
			if !some[word] && len(word) < 12 && !strings.ContainsAny(word, "█░") {
				t.Errorf("%q is missing on a terminal of %d columns", word, width)
			}
		}
	}
}

// Many pools and endpoints do not hide those that need attention.
func TestStatusOfManyPools(t *testing.T) {
	var endpoints, pages []string
	for i := range 40 {
		state := "up"
		if i == 33 {
			state = "ejected"
		}
		endpoints = append(endpoints, fmt.Sprintf(`{"id":"gpu-%02d","state":%q,"concurrency":4,"held":%d}`, i, state, i%2))
	}
	for i := range 12 {
		of := `{"state":"up"}`
		if i == 11 {
			of = strings.Join(endpoints, ",")
		}
		pages = append(pages, fmt.Sprintf(`{"colo":"ams","node":"n","pool":"p%d","limit":160,"held":%d,"granting":true,"endpoints":[%s],"queue":{"discipline":"fair","limit":1}}`,
			i, i/11, of))
	}
	admin := pooled("n", "["+strings.Join(pages, ",")+"]").serve(t)
	out := run(t, "", "status", "-admin", admin).want(t, "p0 ", "p11 in ams", "gpu-33", "ejected", "gpu-14",
		"and 24 endpoints; -pool shows all", "11 idle pools without details")
	if strings.Contains(out, "p0 in ams") || strings.Contains(out, "gpu-15") || strings.Index(out, "gpu-33") > strings.Index(out, "gpu-00") {
		t.Errorf("it shows too much, or in another order:\n%s", out)
	}
	run(t, "", "status", "-admin", admin, "-pool", "p11").want(t, "gpu-39")
	if out := run(t, "", "status", "-admin", admin, "-pool", "p0").want(t, "p0 in ams"); strings.Contains(out, "p11") {
		t.Errorf("-pool shows another:\n%s", out)
	}
}

// Both status commands print one JSON form.
func TestStatusJSONOfBothCommands(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"colos/ams": "region: weur\n", "models/m": "pool: chat\n"})
	pooled("ams-1", idlePage).register(t, s, "servers/ams/ams-1")
	for _, args := range [][]string{{"status", "-json"}, {"config", "status", "-json"}} {
		var got fleetState
		if err := json.Unmarshal([]byte(run(t, "", args...).out), &got); err != nil || got.Revision == 0 || got.Documents["models"] != 1 ||
			len(got.Nodes) != 1 || got.Nodes[0].Document != "servers/ams/ams-1" || (len(got.Nodes[0].Pools) == 1) != (args[0] == "status") {
			t.Errorf("%q: %+v, %v", args, got, err)
		}
	}
}
