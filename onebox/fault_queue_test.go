package onebox_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"colonnade/accounts"
	"colonnade/analytics"
	"colonnade/colo"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

// keyed makes the document of an account with a key, and the header value that shows the key.
func keyed(account, rest string) (document, authorization string) {
	key, doc := accounts.NewKey("", time.Time{}, time.Time{})
	document = fmt.Sprintf("---\nkey: accounts/%s\nkeys: [{id: %q, sha256: %q}]\n%s\n", account, doc.ID, hex.EncodeToString(doc.SHA256[:]), rest)
	return document, "Bearer " + key
}

// block takes all slots of the first colo, for as long as the clients that it returns stay.
func (f *testFleet) block(slots int) []*wire {
	f.t.Helper()
	var blockers []*wire
	f.engine("ams").SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: slots})
	for range slots {
		blockers = append(blockers, f.begin(chatBody(1, false)))
	}
	testkit.WaitFor(f.t, "all slots to be taken", func() bool { return inHand(f.engine("ams")) == slots })
	return blockers
}

// join sends a request that is to wait, as the one at this place in the queue.
func (f *testFleet) join(place int, headers ...string) *wire {
	f.t.Helper()
	c := f.begin(chatBody(1, false), headers...)
	testkit.WaitFor(f.t, "the request to wait", func() bool { return f.pool("ams", "demo").Queued == place })
	return c
}

// refusal is what a client is told that is turned away.
type refusal struct {
	status, number     int
	code, kind, reason string
}

var outOfCapacity = refusal{status: 429, number: 42902, code: "out_of_capacity", kind: "rate_limit_error"}

func (r refusal) because(reason string) refusal {
	r.reason = reason
	return r
}

// expect compares every part of an answer that clients may rely on.
func (r refusal) expect(t testing.TB, a answer) {
	t.Helper()
	e := a.error(t)
	if a.Status != r.status || e.Number != r.number || e.Code != r.code || e.Type != r.kind || e.Reason != r.reason || e.Message == "" {
		t.Errorf("refused with %d %+v, want %+v", a.Status, e, r)
	}
	var body struct{ Error map[string]any }
	if err := json.Unmarshal([]byte(a.Body), &body); err != nil {
		t.Errorf("body: %v", err)
	}
	for _, name := range []string{"message", "type", "param", "code", "number", "reason", "retry_after_ms", "request_id"} {
		if _, ok := body.Error[name]; !ok {
			t.Errorf("the error has no %s: %s", name, a.Body)
		}
	}
	if body.Error["param"] != nil {
		t.Errorf("param is %v, want null", body.Error["param"])
	}
	h := a.Header
	if h.Get("Content-Type") != "application/json" || h.Get("x-colonnade-reason") != r.reason || h.Get("x-should-retry") != "" {
		t.Errorf("headers: %v", h)
	}
	if id := h.Get("x-request-id"); id != e.RequestID || !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) {
		t.Errorf("x-request-id is %q, in the body %q", id, e.RequestID)
	}
	if e.RetryAfterMS < 1000 || e.RetryAfterMS > 32000 || h.Get("retry-after-ms") != strconv.FormatInt(e.RetryAfterMS, 10) ||
		h.Get("retry-after") != strconv.Itoa(int(math.Ceil(float64(e.RetryAfterMS)/1000))) {
		t.Errorf("retry-after is %q, retry-after-ms %q, in the body %d", h.Get("retry-after"), h.Get("retry-after-ms"), e.RetryAfterMS)
	}
}

// A full queue turns newcomers away at once, and nothing of them reaches an engine.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	const slots, limit = 2, 6
	f := startFleet(t, oneColo(quick(slots)), fmt.Sprintf("key: pools/demo\nqueue: {limit: %d, per_account: %d, max_wait: 60s}", limit, 2*limit))
	f.watchBeside(limit + 2*slots)
	before := f.arrivals()
	blockers := f.block(slots)
	var waiting []*wire
	for n := range limit {
		waiting = append(waiting, f.join(n+1))
	}
	var took []time.Duration
	for n := range 100 {
		body := chatBody(1, n%2 == 0)
		began := time.Now()
		a := f.ask(body, "x-request-id: newcomer")
		took = append(took, time.Since(began))
		outOfCapacity.because("queue_full").expect(t, a)
		if a.Header.Get("x-colonnade-attempts") != "0" {
			t.Errorf("x-colonnade-attempts is %s, want 0", a.Header.Get("x-colonnade-attempts"))
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	slices.Sort(took)
	if p95 := took[95]; testkit.Soak() && p95 > 10*time.Millisecond || p95 > 10*patience {
		t.Errorf("a refusal takes %v (p95), want 10ms", p95)
	}
	events := f.ends(analytics.KindRequest, "newcomer")
	if len(events) != len(took) {
		t.Errorf("%d final events, want %d", len(events), len(took))
	}
	for _, e := range events {
		if e.Outcome != analytics.OutcomeRefused || e.Status != 429 || e.Reason != "queue_full" || e.Code != "out_of_capacity" {
			t.Fatalf("an event says %+v", e)
		}
	}
	if got := f.pool("ams", "demo").Queued; got != limit {
		t.Errorf("%d wait, want %d", got, limit)
	}
	if got := f.arrivals() - before; got != slots {
		t.Errorf("the engine was sent %d requests, want %d", got, slots)
	}
	for _, c := range blockers {
		c.Close()
	}
	for _, c := range waiting {
		if a := c.read(); a.Status != 200 {
			t.Errorf("one who waited: %d %q", a.Status, a.Body)
		}
	}
}

// Retry-After comes from the rate at which slots come free, and those who are turned away later are to come back later.
func TestRetryAfterIsComputed(t *testing.T) {
	const (
		slots, limit = 2, 60
		hold         = 100 * time.Millisecond
		perSecond    = slots * float64(time.Second) / float64(hold) // at most
	)
	f := startFleet(t, oneColo(simengine.Config{Slots: slots, TTFT: hold, ITL: time.Millisecond}),
		fmt.Sprintf("key: pools/demo\nqueue: {limit: %d, per_account: %d, max_wait: 60s}", limit, 2*limit))
	f.watch(limit)
	var clients []*wire
	for range 20 { // the rate is used from 16 on
		clients = append(clients, f.begin(chatBody(1, false)))
	}
	for _, c := range clients {
		c.read()
	}
	const newcomers, refused = slots + limit + 30, 10 // the others are let in meanwhile, or not waited for
	answered := make(chan *wire, newcomers)
	for range newcomers {
		c := f.begin(chatBody(1, false))
		go func() {
			_, _ = c.br.Peek(1)
			answered <- c
		}()
	}
	var told []int64
	for len(told) < refused {
		a := (<-answered).read().answer
		if a.Status == 200 {
			continue
		}
		outOfCapacity.because("queue_full").expect(t, a)
		told = append(told, a.error(t).RetryAfterMS)
	}
	slices.Sort(told)
	for n, ms := range told {
		if least := math.Floor(1000 * float64(limit+n) / perSecond); float64(ms) < least {
			t.Errorf("told number %d to come back after %d ms; the rate is %g a second at most, so want %.0f ms", n+1, ms, perSecond, least)
		}
	}
}

// An account waits with so many requests and no more, and a full queue is no reason to refuse another account its share.
func TestAccountsInTheQueue(t *testing.T) {
	t.Parallel()
	floodDoc, flood := keyed("flood", "")
	otherDoc, other := keyed("other", "")
	start := func(t *testing.T, limit, perAccount int) *testFleet {
		f := startFleet(t, oneColo(quick(1)), fmt.Sprintf("key: pools/demo\nqueue: {limit: %d, per_account: %d, max_wait: 60s}\n", limit, perAccount)+floodDoc+otherDoc)
		f.watchBeside(4)
		return f
	}
	t.Run("account cap", func(t *testing.T) {
		f := start(t, 10, 3)
		blockers := f.block(1)
		var waiting []*wire
		for n := range 3 {
			waiting = append(waiting, f.join(n+1, "Authorization: "+flood))
		}
		for range 5 {
			outOfCapacity.because("account_queue_full").expect(t, f.ask(chatBody(1, true), "Authorization: "+flood))
		}
		waiting = append(waiting, f.join(4, "Authorization: "+other))
		f.whoWaits("flood 0+3, open 1+0, other 0+1")
		waiting[0].goAway(0)
		testkit.WaitFor(t, "one to have left", func() bool { return f.pool("ams", "demo").Queued == 3 })
		waiting[0] = f.join(4, "Authorization: "+flood)
		outOfCapacity.because("account_queue_full").expect(t, f.ask(chatBody(1, true), "Authorization: "+flood))
		serveAll(t, blockers, waiting)
	})
	t.Run("room for another account", func(t *testing.T) {
		f := start(t, 4, 8)
		blockers := f.block(1)
		var waiting []*wire
		for n := range 4 {
			waiting = append(waiting, f.join(n+1, "Authorization: "+flood))
		}
		outOfCapacity.because("queue_full").expect(t, f.ask(chatBody(1, false), "Authorization: "+flood))
		for n := range 2 { // up to its fair share of the room
			c := f.begin(chatBody(1, false), "Authorization: "+other)
			victim := waiting[len(waiting)-1-n]
			outOfCapacity.because("queue_full").expect(t, victim.read().answer)
			waiting = append(slices.Delete(waiting, len(waiting)-1-n, len(waiting)-n), c)
		}
		outOfCapacity.because("queue_full").expect(t, f.ask(chatBody(1, false), "Authorization: "+other))
		serveAll(t, blockers, waiting)
	})
	t.Run("running at once", func(t *testing.T) {
		cappedDoc, capped := keyed("capped", "limits: {concurrent: 2}")
		f := startFleet(t, oneColo(simengine.Config{Slots: 8, TTFT: 30 * time.Millisecond}), roomy+"\n"+cappedDoc)
		f.watchBeside(12)
		var waiting []*wire
		for range 10 {
			waiting = append(waiting, f.begin(chatBody(1, false), "Authorization: "+capped))
		}
		serveAll(t, nil, waiting)
		if peak := f.engine("ams").Stats().Peak; peak != 2 {
			t.Errorf("the engine had %d requests of the account at once, want 2", peak)
		}
	})
}

// whoWaits compares what the colo's page says of its accounts: what they hold, and what of them waits.
func (f *testFleet) whoWaits(want string) {
	f.t.Helper()
	r, err := f.client.Get("http://" + f.Colos[0].Admin + "/debug/pools?accounts=5")
	if err != nil {
		f.t.Fatal(err)
	}
	defer r.Body.Close()
	var pools []colo.PoolState
	if err := json.NewDecoder(r.Body).Decode(&pools); err != nil || len(pools) != 1 || pools[0].Node != f.Colos[0].Node || pools[0].Colo != f.Colos[0].Colo {
		f.t.Fatalf("%v: %+v", err, pools)
	}
	var who []string
	for _, a := range pools[0].Accounts {
		who = append(who, fmt.Sprintf("%s %d+%d", a.Account, a.Held, a.Queued))
	}
	slices.Sort(who)
	if got := strings.Join(who, ", "); got != want {
		f.t.Errorf("got %s, want %s", got, want)
	}
}

// serveAll lets the blockers go, and expects that all who wait are served.
func serveAll(t testing.TB, blockers, waiting []*wire) {
	t.Helper()
	for _, c := range blockers {
		c.Close()
	}
	for n, c := range waiting {
		if a := c.read(); a.Status != 200 {
			t.Errorf("waiter %d: %d %q", n, a.Status, a.Body)
		}
	}
}

// Each refusal names its reason in the same form, plain or for a stream.
func TestRefusalsSayWhy(t *testing.T) {
	t.Parallel()
	f := func(want refusal, documents string, body string, headers ...string) {
		t.Helper()
		t.Run(want.reason, func(t *testing.T) {
			f := startFleet(t, oneColo(quick(1)), documents)
			f.watchBeside(4)
			f.block(1)
			for _, stream := range []string{"false", "true"} {
				a := f.ask(strings.Replace(body, "false", stream, 1), headers...)
				want.expect(t, a)
			}
			if n := f.pool("ams", "demo").Queued; n != 0 {
				t.Errorf("%d are left in the queue", n)
			}
		})
	}
	plain := chatBody(1, false)
	f(outOfCapacity.because("busy"), "", plain, "x-colonnade-queue: never")
	f(outOfCapacity.because("queue_full"), "key: pools/demo\nqueue: {limit: 0}", plain)
	f(outOfCapacity.because("account_queue_full"), "key: pools/demo\nqueue: {per_account: 0}", plain)
	f(outOfCapacity.because("queue_timeout"), "key: pools/demo\nqueue: {max_wait: 100ms}", plain)
	f(outOfCapacity.because("deadline"), "", plain, "x-colonnade-deadline-ms: 200")
	unavailable := refusal{status: 503, number: 50301, code: "unavailable", kind: "server_error"}
	f(unavailable.because("no_endpoint"), "key: models/homeless\npool: nowhere", strings.Replace(plain, "demo-chat", "homeless", 1))
}
