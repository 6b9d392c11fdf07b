package entry

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/server"
	"colonnade/openai"
	"colonnade/reasons"
)

// onwardAttempts returns attempts at colos of one server each, all of which are near to the first and far from the entry.
func onwardAttempts(r fleet.Retry, colos ...string) *attempts {
	t := testAttempts(testStops(colos...), queueDefault, r)
	t.rank = func(colo string) []*fleet.Server {
		s := testServers(colo, 2)
		for _, server := range s {
			server.Protocol.Max = fleet.Protocol
		}
		return s
	}
	t.onwardRule = onwardRule{limit: r.Hops - 1, stop: func(_ *fleet.Colo, next candidate) (hop.Stop, bool) {
		return hop.Stop{Colo: next.Colo.Name, Node: next.Colo.Name + "-1"}, next.Colo.Name[0] != 'x'
	}}
	return t
}

// asked returns the next attempt with its stops.
func asked(t *attempts) string {
	at, ok := t.next()
	if !ok {
		return "nothing"
	}
	stops := ""
	for _, s := range t.onward(at, 1) {
		stops += " " + s.Node
		if s.Last {
			stops += "!"
		}
	}
	return fmt.Sprintf("%s %s%s", at.server().Node, at.wait, stops)
}

// The next colos of the plan travel with a request as far as each is nearer to the one before, within the hops and the budget for full
// colos. A request that may wait takes none along.
func TestStopsThatTravel(t *testing.T) {
	f := func(want string, r fleet.Retry, colos ...string) {
		t.Helper()
		if got := asked(onwardAttempts(r, colos...)); got != want {
			t.Errorf("%v: %s, want %s", colos, got, want)
		}
	}
	all := fleet.Retry{OutOfCapacity: 4, Hops: 4}
	f("ams-1 spill fra-1 waw-1!", all, "ams", "fra", "waw")
	f("ams-1 spill fra-1 waw-1 iad-1", all, "ams", "fra", "waw", "iad", "lax")
	f("ams-1 spill fra-1", all, "ams", "fra", "xyz", "waw") // which is nearer to the entry
	f("ams-1 spill", all, "ams", "xyz", "waw")
	f("ams-1 spill fra-1", fleet.Retry{OutOfCapacity: 4, Hops: 2}, "ams", "fra", "waw")
	f("ams-1 spill", fleet.Retry{OutOfCapacity: 4}, "ams", "fra", "waw")
	f("ams-1 spill fra-1", fleet.Retry{OutOfCapacity: 1, Hops: 4}, "ams", "fra", "waw")
	f("ams-1 spill", fleet.Retry{Hops: 4}, "ams", "fra", "waw")
	f("ams-1 full", all, "ams")
	old := onwardAttempts(all, "ams", "fra")
	old.rank = func(colo string) []*fleet.Server { return testServers(colo, 1) }
	if got := asked(old); got != "ams-1 spill" {
		t.Errorf("to a server of an older version: %s", got)
	}
}

// A request is not given up at a silent stop if it could go nowhere else: at the last colo of the plan if that has one server and no colo before
// has room in its queue, and at any stop if no further loss of a server is allowed.
func TestStopsWithoutAlternative(t *testing.T) {
	f := func(name, want string, servers int, change func(*attempts)) {
		t.Helper()
		tr := onwardAttempts(fleet.Retry{OutOfCapacity: 4, Hops: 4, Errors: 1}, "ams", "fra", "waw")
		rank := tr.rank
		tr.rank = func(colo string) []*fleet.Server { return rank(colo)[:servers] }
		change(tr)
		at, _ := tr.next()
		got := ""
		for _, s := range tr.onward(at, 1) {
			got += fmt.Sprintf("%s %v ", s.Colo, s.NoAlternative)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	f("two servers in each", "fra false waw false ", 2, func(*attempts) {})
	f("one server in each", "fra false waw true ", 1, func(*attempts) {})
	f("room in a queue", "fra false waw false ", 1, func(tr *attempts) { tr.waitingRooms = make([]waitingRoom, 1) })
	f("after a loss", "fra false waw true ", 1, func(tr *attempts) { tr.lostServerOnce = true })
	f("after all losses", "fra true waw true ", 2, func(tr *attempts) { tr.lostServerOnce, tr.errorsLeft = true, 0 })
}

// A verdict that another server has got counts as though the entry had asked: the colo is asked again only for the last try, the budgets
// and the least Retry-After are the same.
func TestVisitsCountAsOwnAttempts(t *testing.T) {
	verdicts := map[string]hop.Verdict{
		"ams": ooc("busy", 5*time.Second, 300*time.Millisecond, true),
		"fra": ooc("busy", 4*time.Second, 200*time.Millisecond, true),
		"waw": ooc("queue_full", 3*time.Second, 0, false),
	}
	tr := onwardAttempts(fleet.Retry{OutOfCapacity: 4, Hops: 4}, "ams", "fra", "waw")
	at, _ := tr.next()
	at.onward = tr.onward(at, 1)
	for _, colo := range []string{"ams", "fra", "waw"} {
		visited, ok := tr.visited(at, colo, colo+"-1")
		if !ok || visited.Colo.Name != colo || visited.server().Node != colo+"-1" {
			t.Fatalf("visited %s: %+v", colo, visited)
		}
		refuse(tr, visited, verdicts[colo])
	}
	if tr.fullLeft != 1 {
		t.Errorf("%d of 4 further colos are left", tr.fullLeft)
	}
	if got := []string{asked(tr), asked(tr), asked(tr)}; !slices.Equal(got, []string{"fra-1 full", "ams-1 full", "nothing"}) {
		t.Errorf("then %v, want to wait where it is shortest", got)
	}
	if e := tr.clientError(); e.RetryAfter != 3*time.Second {
		t.Errorf("the client comes back after %v, want the least", e.RetryAfter)
	}
}

// A server that got lost on the way is not asked again: the next server of its colo is, then the rest of the plan.
func TestVisitThatGotLost(t *testing.T) {
	tr := onwardAttempts(fleet.Retry{OutOfCapacity: 4, Hops: 4, Errors: 3}, "ams", "fra", "waw")
	at, _ := tr.next()
	at.onward = tr.onward(at, 1)
	busy := ooc("busy", time.Second, 0, true)
	refuse(tr, at, busy)
	lost, _ := tr.visited(at, "fra", "fra-2")
	tr.serverLost(lost, peer.ErrorOf(hop.Verdict{}), always)
	for _, want := range []string{"fra-1 spill waw-1!", "waw-1 spill", "ams-1 full"} {
		if want == "waw-1 spill" {
			lost.line = lost.line.next()
			tr.noAnswer(lost)
		}
		if got := asked(tr); got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	}
}

// A colo cannot name others than those in its token.
func TestVisitToAnUnknownColo(t *testing.T) {
	tr := onwardAttempts(fleet.Retry{OutOfCapacity: 4, Hops: 2}, "ams", "fra", "waw")
	at, _ := tr.next()
	at.onward = tr.onward(at, 1)
	for _, colo := range []string{"waw", "lax", ""} {
		if visited, ok := tr.visited(at, colo, colo+"-1"); ok {
			t.Errorf("believes in a visit to %q: %+v", colo, visited)
		}
	}
	if len(tr.candidates) != 2 {
		t.Errorf("%d colos are left in the plan", len(tr.candidates))
	}
}

// threeColos are ams and fra, close to each other, and iad, far away from both.
const threeColos = `
key: models/m
---
key: colos/ams
region: weur
position: {lat: 52.3, lon: 4.9}
---
key: colos/fra
region: weur
position: {lat: 50.1, lon: 8.7}
---
key: colos/iad
region: enam
position: {lat: 38.9, lon: -77.4}
---
key: servers/ams/ams-1
address: 127.0.0.1:1
boot: x
protocol: {min: 1, max: 4}
---
key: servers/fra/fra-1
address: 127.0.0.1:1
boot: x
protocol: {min: 1, max: 4}
---
key: servers/iad/iad-1
address: 127.0.0.1:1
boot: x
protocol: {min: 1, max: 4}
`

// Requests go on from a colo to one that is nearer to it than to the entry, unless the entry has measured that it is near.
func TestColosToWhichRequestsGoOn(t *testing.T) {
	lax := &fleet.Position{Lat: 33.9, Lon: -118.4}
	f := func(name, documents string, at *fleet.Position, change func(*Entry), want string) {
		t.Helper()
		_, e := startEntryWith(t, Config{Table: tableFunc(tableOf(t, documents)), Region: "wnam", Position: at}, t.TempDir())
		change(e)
		plan, err := e.ExplainPlan("m", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range plan.Steps {
			for _, c := range step.Colos {
				got := fmt.Sprint(plan.Onward[c.Colo])
				if c.Colo == "ams" && got != want {
					t.Errorf("%s: from ams on to %s, want %s", name, got, want)
				}
			}
		}
	}
	with := func(retry string) string {
		return threeColos + "---\nkey: defaults\nmodel: {routing: {algorithm: steps, steps: [{colos: [ams, fra, iad]}]}, retry: {" + retry + "}}\n"
	}
	ordered := with("")
	nothing := func(*Entry) {}
	f("from the west coast", ordered, lax, nothing, "[fra]") // iad is nearer to the entry than to fra
	f("without a position of the entry", ordered, nil, nothing, "[fra iad]")
	f("from next door", ordered, &fleet.Position{Lat: 52, Lon: 5}, nothing, "[]")
	f("measured", ordered, lax, func(e *Entry) { e.observed.state("fra").noteAnswered(time.Millisecond, true, time.Now()) }, "[]")
	f("one hop", with("hops: 1"), lax, nothing, "[]")
	f("no further colo when full", with("out_of_capacity: 0"), lax, nothing, "[]")
	f("not forwarded", with("forward_below: 0"), lax, nothing, "[]")
}

// An entry believes what an answer says about other colos only of those to which it has let the request go on. A colo that names others
// has refused the request itself.
func TestAnswersThatNameOtherColos(t *testing.T) {
	refused := hop.Visit{Colo: "ams", Node: "ams-1", Verdict: ooc("busy", 5*time.Second, 0, false)}
	elsewhere := hop.Visit{Colo: "lax", Node: "lax-1", Verdict: ooc("busy", time.Second, 0, false)}
	f := func(name string, status int, header http.Header, wantStatus int, want string) {
		t.Helper()
		colo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			maps.Copy(w.Header(), header)
			w.Header().Set(hop.HeaderVerdict, refused.Verdict.String())
			if status == 200 {
				w.Header().Del(hop.HeaderVerdict)
				w.Header().Set(hop.HeaderAttempts, "1")
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "{}")
		}))
		defer colo.Close()
		table := tableOf(t, "key: models/m\n---\nkey: colos/ams\n---\nkey: colos/lax\nstate: draining\n---\nkey: servers/ams/ams-1\naddress: "+
			strings.TrimPrefix(colo.URL, "http://")+"\nboot: x\nprotocol: {min: 1, max: 4}\n")
		url, _ := startEntryWith(t, Config{Table: tableFunc(table)}, t.TempDir())
		answer, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(request))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if got := answer.Header.Get(hop.HeaderColo) + " " + answer.Header.Get(hop.HeaderRetryAfter); answer.StatusCode != wantStatus || got != want {
			t.Errorf("%s: %d %q, want %d %q", name, answer.StatusCode, got, wantStatus, want)
		}
	}
	with := func(servedBy string, visits ...hop.Visit) http.Header {
		h := http.Header{}
		h.Set(hop.HeaderServedBy, servedBy)
		h.Set(hop.HeaderVisits, hop.FormatVisits(visits))
		return h
	}
	f("its own verdict", 429, with("", refused), 429, " 5")
	f("with another's", 429, with("", refused, elsewhere), 429, " 5")
	f("only another's", 429, with("", elsewhere), 429, " 5")
	f("served by itself", 200, with("ams/ams-1"), 200, "ams ")
	f("served by another", 200, with("lax/lax-1", refused), 200, "ams ")
	f("served by nonsense", 200, with("lax", refused), 200, "ams ")
}

// startThreeColos starts an entry far away from ams and fra, and returns a request of it that has asked ams. more are further documents.
func startThreeColos(t *testing.T, more string) (c *call, at attempt) {
	t.Helper()
	documents := threeColos + more + "---\nkey: defaults\nmodel: {routing: {algorithm: steps, steps: [{colos: [ams, fra, iad]}]}}\n"
	table := tableOf(t, documents)
	_, e := startEntryWith(t, Config{Table: tableFunc(table), Region: "wnam"}, t.TempDir())
	c = &call{Request: e.inflight.Begin(), entry: e, arrived: time.Now()}
	c.caller.Account = &fleet.Account{Name: "a"}
	t.Cleanup(func() { c.Close() })
	c.model, _ = table.Model("m")
	c.startAttempts(table, "", queueDefault, 1)
	t.Cleanup(e.budget.End)
	at, _ = c.attempts.next()
	at.onward = c.attempts.onward(at, 1)
	if at.Colo.Name != "ams" || len(at.onward) != 2 {
		t.Fatalf("asks %s with the stops %+v", at.Colo.Name, at.onward)
	}
	c.path = []string{"ams/ams-1"}
	return c, at
}

// refusedBy is the answer of ams, which had no room, after a visit to fra.
func refusedBy(v hop.Verdict) *peer.Answer {
	busy := ooc("busy", time.Second, 0, false)
	return &peer.Answer{Verdict: busy, Error: peer.ErrorOf(busy), Visits: []hop.Visit{
		{Colo: "ams", Node: "ams-1", Verdict: busy}, {Colo: "fra", Node: "fra-1", Verdict: v},
	}}
}

// A colo to which another has no connection is asked by the entry, which may have one: nothing of the request was sent there.
func TestColoThatOnlyAnotherDoesNotReach(t *testing.T) {
	c, at := startThreeColos(t, "")
	c.handleResult(&at, refusedBy(hop.Verdict{Kind: hop.VerdictUnread, Number: openai.NumberUnavailable, Reason: reasons.NoServer}), nil)
	if next, ok := c.attempts.next(); !ok || next.server().Node != "fra-1" || !slices.Equal(c.path, []string{"ams/ams-1"}) {
		t.Errorf("next is %+v, after %v", next, c.path)
	}
	c, at = startThreeColos(t, "")
	c.handleResult(&at, refusedBy(hop.Verdict{Kind: hop.VerdictLost, Number: openai.NumberEngineFailed, Reason: reasons.ColoUnreachable}), nil)
	if next, ok := c.attempts.next(); !ok || next.server().Node != "iad-1" || !slices.Equal(c.path, []string{"ams/ams-1", "fra/fra-1"}) {
		t.Errorf("after a loss: next is %+v, after %v", next, c.path)
	}
}

// The time in the queue of a server counts although the home that the server has named then gets lost or cannot be reached, and so does the
// place in that queue.
func TestQueueTimeBeforeALostHome(t *testing.T) {
	const sibling = "---\nkey: servers/fra/fra-2\naddress: 127.0.0.1:1\nboot: x\nprotocol: {min: 1, max: 4}\n"
	f := func(kind hop.VerdictKind, wantNext string, wantRejoin bool) {
		t.Helper()
		c, at := startThreeColos(t, sibling)
		answer := refusedBy(hop.Verdict{Kind: kind, Number: openai.NumberUnavailable, Reason: reasons.NoServer, Waited: true})
		answer.Visits[1].Queued = 3 * time.Second
		c.handleResult(&at, answer, nil)
		next, _ := c.attempts.next()
		if c.waited != 3*time.Second || !c.hadPlace || next.Colo.Name != wantNext || next.rejoin != wantRejoin {
			t.Errorf("%s: waited %v, had a place: %v; next is %s, which it rejoins: %v", kind, c.waited, c.hadPlace, next.Colo.Name, next.rejoin)
		}
	}
	f(hop.VerdictLost, "fra", true)
	f(hop.VerdictUnread, "fra", false) // as the first attempt of this entry there
	c, at := startThreeColos(t, "")
	answer := refusedBy(hop.Verdict{Kind: hop.VerdictUnread, Waited: true})
	answer.Visits[1].Colo, answer.Visits[1].Queued = "lax", time.Hour
	if c.handleResult(&at, answer, nil); c.waited != 0 || c.hadPlace {
		t.Errorf("believes that it has waited for %v in a colo that is no stop", c.waited)
	}
}

// A client whose own deadline ends a request in the second colo learns that, although each hop has kept time for the way back.
func TestDeadlineOfClientOverTwoHops(t *testing.T) {
	for left, want := range map[time.Duration]*openai.Error{
		240 * time.Millisecond: openai.OverDeadline(), // 200 ms are kept for the way from ams, and 50 ms for that from fra to ams
		time.Minute:            openai.InferenceTimeout(reasons.FirstByteTimeout),
	} {
		c, at := startThreeColos(t, "")
		c.entry.observed.state("ams").noteAnswered(100*time.Millisecond, true, time.Now())
		c.firstByteDeadline = time.Now().Add(left)
		c.handleResult(&at, refusedBy(hop.Verdict{Kind: hop.VerdictError, Number: openai.NumberInferenceTimeout, Reason: reasons.FirstByteTimeout, Final: true}), nil)
		if e := c.attempts.clientError(); e.Message != want.Message {
			t.Errorf("%v before the deadline: %v, want %v", left, e, want)
		}
	}
}

// A colo that seems too far for its clients' deadlines is pinged, so that one slow hour does not keep requests away for ever.
func TestColoTooFarForDeadlinesIsPinged(t *testing.T) {
	table := tableOf(t, "key: models/m\n---\nkey: colos/ams\n---\nkey: servers/ams/ams-1\naddress: 127.0.0.1:1\nboot: x\nprotocol: {min: 1, max: 4}\n")
	url, e := startEntryWith(t, Config{Table: tableFunc(table)}, t.TempDir())
	e.observed.state("ams").noteAnswered(time.Minute, true, time.Now())
	r, _ := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", strings.NewReader(request))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(hop.HeaderDeadlineMS, "2000")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != 429 || answer.Header.Get(hop.HeaderReason) != reasons.Deadline {
		t.Errorf("answer %d %v", answer.StatusCode, answer.Header)
	}
	if p, ok := e.observed.nextPing(time.Now().Add(measuredFor + time.Second)); !ok || p.server.Node != "ams-1" {
		t.Error("it is not pinged")
	}
}

// A request that two servers of one colo have had came over one colo.
func TestColoPathNamesColosOnce(t *testing.T) {
	f := func(want string, path ...string) {
		t.Helper()
		got := ""
		(&call{path: path}).eachHeader(func(name server.HeaderName, value string) {
			if name.String() == hop.HeaderColoPath {
				got = value
			}
		})
		if got != want {
			t.Errorf("%v: %q, want %q", path, got, want)
		}
	}
	f("", "ams/ams-1")
	f("", "ams/ams-1", "ams/ams-2")
	f("ams, fra", "ams/ams-1", "fra/fra-1", "ams/ams-1")
}
