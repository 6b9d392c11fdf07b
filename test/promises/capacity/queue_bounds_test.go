package capacity_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/colo"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
)

// A full queue refuses new requests at once, and none of them reaches an engine.
func TestFullQueueRefusesAtOnce(t *testing.T) {
	t.Parallel()
	const slots, limit = 2, 6
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(slots)), fmt.Sprintf("key: pools/demo\nqueue: {limit: %d, per_account: %d, max_wait: 60s}", limit, 2*limit))
	f.WatchShared(limit + 2*slots)
	before := f.EngineRequests()
	blockers := f.BlockSlots(slots)
	var waiting []*wiretest.Conn
	for n := range limit {
		waiting = append(waiting, f.Enqueue(n+1))
	}
	var took []time.Duration
	for n := range 100 {
		body := fleettest.ChatBody(1, n%2 == 0)
		began := time.Now()
		a := f.RawChat(body, "x-request-id: newcomer")
		took = append(took, time.Since(began))
		fleettest.OutOfCapacity.WithReason("queue_full").Expect(t, a)
		if a.Header.Get("x-colonnade-attempts") != "0" {
			t.Errorf("x-colonnade-attempts is %s, want 0", a.Header.Get("x-colonnade-attempts"))
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	slices.Sort(took)
	if p95 := took[95]; testkit.Soak() && p95 > 10*time.Millisecond {
		t.Errorf("a refusal takes %v (p95), want 10ms", p95)
	}
	events := f.FinalEvents(analytics.KindRequest, "newcomer")
	if len(events) != len(took) {
		t.Errorf("%d final events, want %d", len(events), len(took))
	}
	for _, e := range events {
		if e.Outcome != analytics.OutcomeRefused || e.Status != 429 || e.Reason != "queue_full" || e.Code != "out_of_capacity" {
			t.Fatalf("an event says %+v", e)
		}
	}
	if got := f.Pool("ams", "demo").Queued; got != limit {
		t.Errorf("%d wait, want %d", got, limit)
	}
	if got := f.EngineRequests() - before; got != slots {
		t.Errorf("the engine was sent %d requests, want %d", got, slots)
	}
	for _, c := range blockers {
		c.Close()
	}
	for _, c := range waiting {
		if a := c.Read(); a.Status != 200 {
			t.Errorf("a waiting request: %d %q", a.Status, a.Body)
		}
	}
}

// Retry-After follows from the rate at which slots are freed, and grows with each refusal.
func TestRetryAfterFollowsDrainRate(t *testing.T) {
	const (
		slots, limit = 2, 60
		hold         = 100 * time.Millisecond
		perSecond    = slots * float64(time.Second) / float64(hold) // at most
	)
	f := fleettest.Start(t, fleettest.OneColo(simengine.Config{Slots: slots, TTFT: hold, ITL: time.Millisecond}),
		fmt.Sprintf("key: pools/demo\nqueue: {limit: %d, per_account: %d, max_wait: 60s}", limit, 2*limit))
	f.Watch(limit)
	var clients []*wiretest.Conn
	for range 20 { // the rate is used from 16 on
		clients = append(clients, f.BeginChat(fleettest.ChatBody(1, false)))
	}
	for _, c := range clients {
		c.Read()
	}
	const newcomers, refused = slots + limit + 30, 10 // the others are admitted meanwhile, or not waited for
	answered := make(chan *wiretest.Conn, newcomers)
	for range newcomers {
		c := f.BeginChat(fleettest.ChatBody(1, false))
		go func() {
			_, _ = c.R.Peek(1)
			answered <- c
		}()
	}
	var waits []int64
	for len(waits) < refused {
		a := (<-answered).Read()
		if a.Status == 200 {
			continue
		}
		fleettest.OutOfCapacity.WithReason("queue_full").Expect(t, a)
		waits = append(waits, a.APIError(t).RetryAfterMS)
	}
	slices.Sort(waits)
	for n, ms := range waits {
		if least := math.Floor(1000 * float64(limit+n) / perSecond); float64(ms) < least {
			t.Errorf("refusal %d: Retry-After is %d ms; the rate is at most %g a second, so want at least %.0f ms", n+1, ms, perSecond, least)
		}
	}
}

// An account has at most per_account requests in the queue, and a full queue has room for another account within its share.
func TestAccountsShareQueue(t *testing.T) {
	t.Parallel()
	floodDoc, flood := fleettest.AccountWithKey("flood", "")
	otherDoc, other := fleettest.AccountWithKey("other", "")
	start := func(t *testing.T, limit, perAccount int) *fleettest.Fleet {
		f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), fmt.Sprintf("key: pools/demo\nqueue: {limit: %d, per_account: %d, max_wait: 60s}\n", limit, perAccount)+floodDoc+otherDoc)
		f.WatchShared(4)
		return f
	}
	t.Run("account cap", func(t *testing.T) {
		f := start(t, 10, 3)
		blockers := f.BlockSlots(1)
		var waiting []*wiretest.Conn
		for n := range 3 {
			waiting = append(waiting, f.Enqueue(n+1, "Authorization: "+flood))
		}
		for range 5 {
			fleettest.OutOfCapacity.WithReason("account_queue_full").Expect(t, f.RawChat(fleettest.ChatBody(1, true), "Authorization: "+flood))
		}
		waiting = append(waiting, f.Enqueue(4, "Authorization: "+other))
		expectAccounts(f, "flood 0+3, open 1+0, other 0+1")
		waiting[0].Leave(0)
		testkit.WaitFor(t, "the cancelled request to be removed", func() bool { return f.Pool("ams", "demo").Queued == 3 })
		waiting[0] = f.Enqueue(4, "Authorization: "+flood)
		fleettest.OutOfCapacity.WithReason("account_queue_full").Expect(t, f.RawChat(fleettest.ChatBody(1, true), "Authorization: "+flood))
		fleettest.ServeAll(t, blockers, waiting)
	})
	t.Run("room for another account", func(t *testing.T) {
		f := start(t, 4, 8)
		blockers := f.BlockSlots(1)
		var waiting []*wiretest.Conn
		for n := range 4 {
			waiting = append(waiting, f.Enqueue(n+1, "Authorization: "+flood))
		}
		fleettest.OutOfCapacity.WithReason("queue_full").Expect(t, f.RawChat(fleettest.ChatBody(1, false), "Authorization: "+flood))
		for n := range 2 { // up to its fair share of the room
			c := f.BeginChat(fleettest.ChatBody(1, false), "Authorization: "+other)
			victim := waiting[len(waiting)-1-n]
			fleettest.OutOfCapacity.WithReason("queue_full").Expect(t, victim.Read())
			waiting = append(slices.Delete(waiting, len(waiting)-1-n, len(waiting)-n), c)
		}
		fleettest.OutOfCapacity.WithReason("queue_full").Expect(t, f.RawChat(fleettest.ChatBody(1, false), "Authorization: "+other))
		fleettest.ServeAll(t, blockers, waiting)
	})
	t.Run("running at once", func(t *testing.T) {
		cappedDoc, capped := fleettest.AccountWithKey("capped", "limits: {concurrent: 2}")
		f := fleettest.Start(t, fleettest.OneColo(simengine.Config{Slots: 8, TTFT: 30 * time.Millisecond}), fleettest.LongQueue+"\n"+cappedDoc)
		f.WatchShared(12)
		var waiting []*wiretest.Conn
		for range 10 {
			waiting = append(waiting, f.BeginChat(fleettest.ChatBody(1, false), "Authorization: "+capped))
		}
		fleettest.ServeAll(t, nil, waiting)
		if peak := f.Engine("ams").Stats().Peak; peak != 2 {
			t.Errorf("the engine had %d requests of the account at once, want 2", peak)
		}
	})
}

// expectAccounts compares the accounts on the colo's page, each as "NAME HELD+QUEUED".
func expectAccounts(f *fleettest.Fleet, want string) {
	f.T.Helper()
	var pools []colo.PoolState
	if err := json.Unmarshal(f.Page(f.Colos[0].Admin, "/debug/pools?accounts=5"), &pools); err != nil || len(pools) != 1 || pools[0].Node != f.Colos[0].Node || pools[0].Colo != f.Colos[0].Colo {
		f.T.Fatalf("%v: %+v", err, pools)
	}
	var who []string
	for _, a := range pools[0].Accounts {
		who = append(who, fmt.Sprintf("%s %d+%d", a.Account, a.Held, a.Queued))
	}
	slices.Sort(who)
	if got := strings.Join(who, ", "); got != want {
		f.T.Errorf("got %s, want %s", got, want)
	}
}

// Each refusal names its reason in the same form, for plain requests and for streams.
func TestRefusalReasons(t *testing.T) {
	t.Parallel()
	f := func(want fleettest.Refusal, documents string, body string, headers ...string) {
		t.Helper()
		t.Run(want.Reason, func(t *testing.T) {
			f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), documents)
			f.WatchShared(4)
			f.BlockSlots(1)
			for _, stream := range []string{"false", "true"} {
				a := f.RawChat(strings.Replace(body, "false", stream, 1), headers...)
				want.Expect(t, a)
			}
			if n := f.Pool("ams", "demo").Queued; n != 0 {
				t.Errorf("%d are left in the queue", n)
			}
		})
	}
	plain := fleettest.ChatBody(1, false)
	f(fleettest.OutOfCapacity.WithReason("busy"), "", plain, "x-colonnade-queue: never")
	f(fleettest.OutOfCapacity.WithReason("queue_full"), "key: pools/demo\nqueue: {limit: 0}", plain)
	f(fleettest.OutOfCapacity.WithReason("account_queue_full"), "key: pools/demo\nqueue: {per_account: 0}", plain)
	f(fleettest.OutOfCapacity.WithReason("queue_timeout"), "key: pools/demo\nqueue: {max_wait: 100ms}", plain)
	f(fleettest.OutOfCapacity.WithReason("deadline"), "", plain, "x-colonnade-deadline-ms: 200")
	unavailable := fleettest.Refusal{Status: 503, Number: 50301, Code: "unavailable", Type: "server_error"}
	f(unavailable.WithReason("no_endpoint"), "key: models/homeless\npool: nowhere", strings.Replace(plain, "demo-chat", "homeless", 1))
}
