package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/node"
)

// serves answers /debug/pools with a page, and /health/ready with why the node is not ready, and returns its admin address.
func serves(t *testing.T, page func() string, notReady string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pools", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page()) })
	mux.HandleFunc("GET /health/ready", func(w http.ResponseWriter, _ *http.Request) {
		if notReady != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, notReady)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func always(page string) func() string { return func() string { return page } }

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

COLO  POOL  SLOTS           QUEUE              DRAIN   WAIT  OLDEST
ams   chat  ########## 8/8  ########-- 27/32  11.7/s  1.25s   2.31s  2/4 OUT, 1 full
fra   chat  ---------- 0/4  ----------   0/0       ?   none       -

chat in ams  server ams-1; fair by tokens; at most 12 of one account wait, for 10s
  granted   4810, held for 682ms each
  refused   43: account_queue_full 31, queue_full 12
  busy      90, which as a rule went on to another colo
  to come   5 told to come back, and not due yet
  full      no slot free for 7m11s in all
  bytes     1205 KiB of 64 MiB wait
  ENDPOINT              SLOTS            STATE
  http://10.0.0.4:8000  ###-------  1/4  gone
  gpu-9                 ---------- 0/16  down for 3m10s: health path /health answered 500
  gpu-0                 ########--  3/4  up, said full, 1 held for another pool
  gpu-1                 ##########  4/4  up, auto 2-64
  BAND         HELD  WAITING  OLDEST  ACCOUNTS
  interactive     2        3   310ms         1
  standard        6       24   2.31s         2
  ACCOUNT  HELD  WAITING  OLDEST  TOLD  WEIGHT  AHEAD  OUTPUT  IN
  acme      4/4       15   2.31s     4       4      0     312  interactive 3, standard 12  at its cap
  flood       3       12   1.20s     0     0.5  15.2k       -  standard
  quiet       1        0       -     0       1   0.25       -  standard
  and 1 more, which holds or has waiting less

chat in fra  server fra-1; fifo by requests; at most 64 of one account wait, for 1.5s
  granted   0
  ENDPOINT  SLOTS           STATE
  gpu-0     ---------- 0/4  up, auto 1-16, nothing learned yet: no streamed answers
`

// leveled replaces what differs from run to run.
func leveled(out string) string {
	out = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`).ReplaceAllString(out, "TIME")
	out = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).ReplaceAllString(out, "ETCD")
	return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(out, "ADMIN")
}

func TestStatusOfPools(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	s := startEtcd(t)
	run(t, "", "status").fail(t, "no colo server has registered", "1 thing is wrong")
	put(t, s, map[string]string{
		"colos/ams": "region: weur\n", "colos/fra": "region: weur\n", "colos/iad": "state: draining\n", "models/m": "pool: chat\n",
		"servers/ams/ams-1": registration(serves(t, always(busyPage), "")), "servers/fra/fra-1": registration(serves(t, always(idlePage), "")),
		"entries/e": `{"address":"127.0.0.1:1","region":"weur"}`,
	})
	out := run(t, "", "status").want(t)
	if got := leveled(out); got != wantBusy {
		t.Errorf("got\n%s\nwant\n%s", got, wantBusy)
	}
	if out := run(t, "", "status", "-colo", "fra").want(t, "chat in fra"); strings.Contains(out, "ams") {
		t.Errorf("-colo shows another:\n%s", out)
	}
	run(t, "", "status", "-pool", "chat").want(t, "chat in fra", "chat in ams")
	run(t, "", "status", "-pool", "tiny").fail(t, `no server has a pool "tiny" in ams, fra`)
	run(t, "", "status", "-colo", "nrt").fail(t, `no server of a colo "nrt" has registered`)
	run(t, "", "status", "-h").want(t, "\n  IN ", "cap that is below the pool's slots", "may be far less than OLDEST")
	run(t, "", "status", "-accounts", "101").fail(t, "-accounts 101: must be 0 to 100")
	run(t, "", "status", "-admin", "x").fail(t, `-admin "x": must be host:port`)
	var said fleetStatus
	if err := json.Unmarshal([]byte(run(t, "", "status", "-json").want(t)), &said); err != nil {
		t.Fatal(err)
	}
	if n := said.Servers[0]; len(said.Servers) != 2 || n.Document != "servers/ams/ams-1" || n.Pools[0].Accounts[1].Account != "flood" || len(said.Wrong) != 0 {
		t.Errorf("got %+v", said)
	}

	// Where things are wrong.
	put(t, s, map[string]string{
		"colos/iad":         "region: us\n",
		"servers/ams/ams-1": registration(serves(t, always(busyPage), "granting nothing: lost \x1b[31metcd")),
		"servers/fra/fra-1": `{"address":"127.0.0.1:1","boot":"x","state":"draining","admin":"` + serves(t, always(idlePage), "draining") + `"}`,
	})
	run(t, "", "status").fail(t, "colo iad: no server has registered", `- "servers/ams/ams-1: is not ready: granting nothing: lost \x1b[31metcd"`,
		"NOT READY, 2/4 OUT", "draining", "2 things are wrong")
}

// What is shown may not be what was meant: documents that are rejected come first.
func TestStatusOfRejectedDocuments(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"pools/good": "queue: {limit: 3}\n", "pools/bad": "queue: {limit: -3}\n", "entries/e": `{"address":"127.0.0.1:1","region":"weur"}`})
	bad, good := revisionOf(t, s, "pools/bad"), revisionOf(t, s, "pools/good")
	server := page(t, says(node.ConfigState{Node: "fra-1", Rejected: []fleet.Rejection{
		{Key: "pools/bad", Revision: bad, Field: "queue.limit", Reason: "must be at least 0", LastGood: true, InForce: 1},
		{Key: "pools/good", Revision: good - 1, Field: "queue", Reason: "was bad"},
	}}), idlePage)
	put(t, s, map[string]string{"servers/fra/fra-1": registration(server)})
	said := run(t, "", "status")
	said.fail(t, "1 thing is wrong", "chat in fra")
	flat := strings.ReplaceAll(said.out, "\n  ", " ")
	want := fmt.Sprintf("wrong: pools/bad (revision %d): ", bad)
	if at := strings.Index(flat, want); at < 0 || at > strings.Index(flat, "COLO") || strings.Count(flat, "pools/bad") != 1 ||
		!strings.Contains(flat, "fra-1 goes on with the last good version, of revision 1; see colonnade config status") || strings.Contains(flat, "pools/good") {
		t.Errorf("got\n%s", said.out)
	}
	run(t, "", "status", "-admin", server).want(t, "chat in fra")
	run(t, "", "status", "-admin", server, "-colo", "fra").want(t, "chat in fra")
	run(t, "", "status", "-admin", server, "-colo", "typo").fail(t, `no server that was asked is of a colo "typo", but of fra`)
}

// While etcd is away, it is not asked at each look, and what was known goes on.
func TestWatchWithoutEtcd(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"servers/fra/fra-1": registration("127.0.0.1:1")})
	d := &directory{etcd: "http://" + s.Address, client: s.Client(t)}
	if err := d.update(t.Context()); err != nil || len(d.servers) != 1 {
		t.Fatal(d.servers, err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	d.read, d.tried = d.read.Add(-time.Minute), d.tried.Add(-time.Minute)
	before := time.Now()
	if err := d.update(gone); err != nil || d.lost == "" || d.tried.Before(before) || len(d.servers) != 1 {
		t.Errorf("lost %q, tried %v, %v", d.lost, d.tried, err)
	}
	tried := d.tried
	if err := d.update(t.Context()); err != nil || d.lost == "" || d.tried != tried {
		t.Errorf("it was asked again at once: %v", err)
	}
}

// A server that cannot be asked is told, with why, and the others are shown.
func TestStatusOfServersThatCannotBeAsked(t *testing.T) {
	old := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(old.Close)
	l := &look{asker: newAsker(time.Minute), directory: &directory{}}
	t.Cleanup(l.asker.client.CloseIdleConnections)
	add := func(name, address string) {
		l.directory.servers = append(l.directory.servers, registeredNode{Document: "servers/ams/" + name, Node: name, Place: "ams", Admin: address})
	}
	add("old", strings.TrimPrefix(old.URL, "http://"))
	add("closed", "127.0.0.1:1")
	add("mute", "")
	add("other", serves(t, always(busyPage), ""))
	add("huge", serves(t, always("["+strings.Repeat(" ", maxPage)+"]"), ""))
	add("list", serves(t, always(`{"pools": []}`), ""))
	add("half", serves(t, always(busyPage[:200]), ""))
	add("odd", serves(t, always(`[{"held": "\u001b[2J"}]`), ""))
	l.directory.servers = append(l.directory.servers, registeredNode{Document: "servers/iad/ams-1", Node: "ams-1", Place: "iad", Admin: serves(t, always(busyPage), "")})
	unready := http.NewServeMux()
	unready.HandleFunc("GET /debug/pools", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") })
	mute := httptest.NewServer(unready)
	t.Cleanup(mute.Close)
	add("unready", mute.Listener.Addr().String())
	add("ams-1", serves(t, always(busyPage), ""))
	add("of-before", serves(t, always(`[{"pool": "legacy", "limit": 2, "held": 1, "queued": 1, "endpoints": [{"id": "e", "state": "up"}]}]`), ""))
	s, err := l.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Join(l.sheet(s, terminal{}).text(0, false), "\n")
	flat := strings.ReplaceAll(said, "\n  ", " ")
	for _, want := range []string{
		"servers/ams/old: cannot be asked at " + old.Listener.Addr().String() + ": it has no page /debug/pools: a node of an older version or of another kind",
		"servers/ams/closed: cannot be asked at 127.0.0.1:1: connection refused",
		"servers/ams/mute: cannot be asked: it has registered no admin address",
		"there, node ams-1 answers",
		"servers/iad/ams-1: cannot be asked at", "there, node ams-1 of colo ams answers",
		"servers/ams/unready: is not ready: its page /health/ready answers with 404",
		"its page /debug/pools is longer than 16 MiB",
		"its page /debug/pools cannot be read: json: cannot unmarshal object",
		"its page /debug/pools cannot be read: unexpected EOF",
		"its page /debug/pools cannot be read: json: cannot unmarshal string",
		"chat in ams", "legacy in ams  server of-before granted",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if len(s.Wrong) != 10 {
		t.Errorf("%d things are wrong:\n%s", len(s.Wrong), said)
	}
}

// A server that does not answer, or does not go on, is not waited for.
func TestStatusOfServersThatHang(t *testing.T) {
	hang := make(chan struct{})
	mute := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	t.Cleanup(mute.Close)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, busyPage[:200])
		w.(http.Flusher).Flush()
		<-hang
	}))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(hang) })
	l := &look{asker: newAsker(200 * time.Millisecond), directory: &directory{servers: []registeredNode{
		{Admin: mute.Listener.Addr().String()}, {Admin: slow.Listener.Addr().String()},
	}}}
	s, err := l.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Join(s.Wrong, "\n")
	if len(s.Wrong) != 2 || !strings.Contains(s.Wrong[0], ": no answer within 200ms") {
		t.Errorf("got\n%s", said)
	}
	if !strings.Contains(s.Wrong[1], "its page /debug/pools has not come whole within 200ms") && !strings.Contains(s.Wrong[1], ": no answer within 200ms") {
		t.Errorf("got\n%s", said)
	}
	// Who asks may leave before.
	ctx, cancel := context.WithCancel(t.Context())
	l.asker = newAsker(time.Hour)
	taken := make(chan error, 1)
	go func() {
		_, err := l.take(ctx)
		taken <- err
	}()
	cancel()
	if err := <-taken; err == nil {
		t.Error("it answered")
	}
}

// Whatever stands on a page, a terminal gets characters of one column and our own colours.
func TestStatusOfHostilePages(t *testing.T) {
	const evil = `"\u001b]0;x\u0007\u001b[2J\r\n\u202e世界\u200d"`
	page := regexp.MustCompile(`"(ams|ams-1|chat|fair|tokens|gpu-1|up|interactive|standard|acme|busy|health path[^"]*)"`).ReplaceAllString(busyPage, evil)
	page = regexp.MustCompile(`\b(8|27|682\.4|2310|1234|4810)\b`).ReplaceAllString(page, "9223372036854775807")
	page = regexp.MustCompile(`\b(431\.2|11\.73|15230\.5|0\.25)\b`).ReplaceAllString(page, "1e308")
	page = regexp.MustCompile(`\b(3|16|190\.4)\b`).ReplaceAllString(page, "-9223372036854775808")
	allowed := regexp.MustCompile(`^(\x1b\[[0-9;]*m|[ -~█░\n])*$`)
	for _, page := range []string{page, `[{}]`, `[null, {"endpoints": [{}], "bands": [{}], "accounts": [{"bands": [{}, {}]}], "queue": null}]`, `null`, `[]`} {
		l := &look{asker: newAsker(time.Minute), directory: &directory{servers: []registeredNode{{Admin: serves(t, always(page), "\x1b[31m")}}}}
		l.options.watch = true
		for range 2 {
			s, err := l.take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, term := range []terminal{{}, {ascii: true}, {is: true, width: 80, height: 20}, {is: true, width: 1, height: 1}} {
				if said := strings.Join(l.sheet(s, term).text(term.width, true), "\n"); !allowed.MatchString(said) {
					t.Errorf("%s\ngives %q", page, said)
				}
			}
		}
		l.asker.client.CloseIdleConnections()
	}
}

// Many pools and many endpoints leave what is the matter in sight.
func TestStatusOfMuch(t *testing.T) {
	var endpoints []string
	for i := range 40 {
		state := "up"
		if i == 33 {
			state = "ejected"
		}
		endpoints = append(endpoints, fmt.Sprintf(`{"id":"gpu-%02d","state":%q,"concurrency":4,"held":%d}`, i, state, i%2))
	}
	var pages []string
	for i := range 12 {
		held := i / 11
		pages = append(pages, fmt.Sprintf(`{"colo":"ams","node":"n","pool":"p%d","limit":160,"held":%d,"granting":true,"endpoints":[%s],"queue":{"discipline":"fair","limit":1}}`,
			i, held, map[bool]string{true: strings.Join(endpoints, ","), false: `{"state":"up"}`}[i == 11]))
	}
	page := "[" + strings.Join(pages, ",") + "]"
	address := serves(t, always(page), "")
	out := run(t, "", "status", "-admin", address).want(t, "p0 ", "p11 in ams", "gpu-33", "ejected", "gpu-14",
		"and 24 more, 24 of them up, with 12/96 slots held; -pool shows all", "11 pools where nothing happens")
	if strings.Contains(out, "p0 in ams") || strings.Contains(out, "gpu-15") || strings.Index(out, "gpu-33") > strings.Index(out, "gpu-00") {
		t.Errorf("it shows too much, or in another order:\n%s", out)
	}
	run(t, "", "status", "-admin", address, "-pool", "p11").want(t, "gpu-39")
	if out := run(t, "", "status", "-admin", address, "-pool", "p0").want(t, "p0 in ams"); strings.Contains(out, "p11") {
		t.Errorf("-pool shows another:\n%s", out)
	}
}

func TestFigures(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(figure(0)+" "+figure(0.001)+" "+figure(1.234)+" "+figure(999.4)+" "+figure(15230)+" "+figure(2_345_678), "0 <0.01 1.23 999 15.2k 2.35M")
	f(size(900)+", "+size(1<<20)+", "+size(64<<20), "900 bytes, 1024 KiB, 64 MiB")
	f(rate(0)+" "+rate(-1)+" "+rate(6), "? ? 6/s")
	f(brief(millis(-5))+" "+millis(1<<62).String(), "0.00ms 1000h0m0s")
}
