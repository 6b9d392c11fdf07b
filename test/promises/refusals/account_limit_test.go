package refusals_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/colo"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// An account that runs as many requests as it may, by its own limits.concurrent or by the pool's max_share, is refused with
// reason account_limit, whether the request waited or not, while other accounts get the slots that are free. Client,
// events, metrics and pages agree on it.
func TestAccountLimit(t *testing.T) {
	t.Parallel()
	for _, by := range []struct{ name, pool, account string }{
		{"concurrent", "queue: {max_wait: 300ms}", "limits: {concurrent: 2}"},
		{"max_share", "queue: {max_wait: 300ms}\npermits: {max_share: 0.25}", ""},
	} {
		t.Run(by.name, func(t *testing.T) {
			cappedDoc, capped := fleettest.AccountWithKey("capped", by.account)
			otherDoc, other := fleettest.AccountWithKey("other", "")
			f := fleettest.Start(t, fleettest.OneColo(simengine.Config{Slots: 8, TTFT: time.Millisecond}), "key: pools/demo\n"+by.pool+"\n"+cappedDoc+otherDoc)
			f.WatchShared(8)
			f.Engine("ams").SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: 2})
			running := []*wiretest.Conn{f.BeginChat(fleettest.ChatBody(1, true), "Authorization: "+capped), f.BeginChat(fleettest.ChatBody(1, true), "Authorization: "+capped)}
			testkit.WaitFor(t, "the account to run as many as it may", func() bool { return fleettest.InFlight(f.Engine("ams")) == 2 })

			wantAtLimit(f, "capped", 2)
			refused := fleettest.OutOfCapacity.WithReason("account_limit")
			refused.Expect(t, f.RawChat(fleettest.ChatBody(1, true), "Authorization: "+capped, "x-request-id: never-waits", "x-colonnade-queue: never"))
			refused.Expect(t, f.RawChat(fleettest.ChatBody(1, true), "Authorization: "+capped, "x-request-id: waits-in-vain"))
			if a := f.RawChat(fleettest.ChatBody(1, true), "Authorization: "+other); a.Status != 200 {
				t.Errorf("another account: %d %q", a.Status, a.Body)
			}

			for _, id := range []string{"never-waits", "waits-in-vain"} {
				if e := f.FinalEvent(analytics.KindRequest, id); e.Reason != "account_limit" || e.Outcome != analytics.OutcomeRefused || e.Status != 429 {
					t.Errorf("%s: the event says %s, %s, %d", id, e.Outcome, e.Reason, e.Status)
				}
			}
			if n := counted(f, "colonnade_refusals_total")["account_limit"]; n != 2 {
				t.Errorf("the entry counts %v, want 2", n)
			}
			if n := f.Metric(f.Colos[0].Admin, `colonnade_pool_refusals_total{pool="demo",reason="account_limit"}`); n != 2 {
				t.Errorf("the colo counts %v, want 2", n)
			}
			if p := f.Pool("ams", "demo"); len(p.Refused) != 1 || p.Refused["account_limit"] != 2 {
				t.Errorf("the page counts %v", p.Refused)
			}
			for _, c := range running {
				c.Close()
			}
		})
	}
}

// The cap of an account is for each colo: a request that meets it in one goes on with its plan.
func TestAccountLimitOfOneColo(t *testing.T) {
	t.Parallel()
	document, capped := fleettest.AccountWithKey("capped", "limits: {concurrent: 2}")
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams", "fra"}, Engine: simengine.Config{Slots: 8, TTFT: time.Millisecond}}, document)
	f.WatchShared(8)
	var running []*wiretest.Conn
	for _, colo := range []string{"ams", "fra"} {
		f.Engine(colo).SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: 2})
	}
	for n := range 4 {
		running = append(running, f.BeginChat(fleettest.ChatBody(1, true), "Authorization: "+capped))
		testkit.WaitFor(t, "the request to run", func() bool { return fleettest.InFlight(f.Engine("ams"), f.Engine("fra")) == n+1 })
	}
	if ams, fra := fleettest.InFlight(f.Engine("ams")), fleettest.InFlight(f.Engine("fra")); ams != 2 || fra != 2 {
		t.Errorf("%d run in one colo and %d in the other, want 2 in each", ams, fra)
	}
	fleettest.OutOfCapacity.WithReason("account_limit").Expect(t, f.RawChat(fleettest.ChatBody(1, true), "Authorization: "+capped, "x-colonnade-queue: never"))
	for _, c := range running {
		c.Close()
	}
}

// wantAtLimit expects the colo's page to say that an account holds as many permits as its cap.
func wantAtLimit(f *fleettest.Fleet, account string, limit int) {
	f.T.Helper()
	var pools []colo.PoolState
	if err := json.Unmarshal(f.Page(f.Colos[0].Admin, "/debug/pools?accounts=5"), &pools); err != nil || len(pools) != 1 {
		f.T.Fatalf("%v: %+v", err, pools)
	}
	for _, a := range pools[0].Accounts {
		if a.Account == account {
			if a.Cap == nil || *a.Cap != limit || !a.AtLimit || a.Held != limit {
				f.T.Errorf("the page says %+v, want a cap of %d, at the limit", a, limit)
			}
			return
		}
	}
	f.T.Errorf("the page names %s, want %s", fmt.Sprint(pools[0].Accounts), account)
}
