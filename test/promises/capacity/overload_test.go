package capacity_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

// Each engine of these tests runs eight requests at once, with one token in eight milliseconds.
const (
	overloadSlots = 8
	perToken      = 8 * time.Millisecond
)

// overloadPools are three pools with an engine each.
const overloadPools = `
key: pools/load
queue: {limit: 60, per_account: 60, max_wait: 2s}
---
key: pools/counts
queue: {limit: 96, per_account: 48, max_wait: 10s, cost: requests}
---
key: pools/costs
queue: {limit: 96, per_account: 36, max_wait: 10s, cost: tokens}
---
key: models/load
upstream_name: demo-chat
pool: load
---
key: models/counts
upstream_name: demo-chat
pool: counts
---
key: models/costs
upstream_name: demo-chat
pool: costs
`

// Under overload, by all accounts or by one, the engines stay in use, requests are served in time or refused, and an account
// within its share gets it.
func TestOverload(t *testing.T) {
	t.Parallel()
	floodDoc, flood := fleettest.AccountWithKey("flood", "")
	otherDoc, other := fleettest.AccountWithKey("other", "")
	c := fleettest.OneColo(simengine.Config{Slots: overloadSlots, TTFT: perToken, ITL: perToken, Tokens: 100, Record: 1 << 20})
	c.Engines = 3
	f := fleettest.Start(t, c, overloadPools+floodDoc+otherDoc)
	f.WatchShared(128) // as many as are in flight at once
	var documents []string
	for n, pool := range []string{"load", "counts", "costs"} {
		documents = append(documents, f.EndpointDocument(fmt.Sprintf("sim-%d", n+1), n, pool, fmt.Sprintf("concurrency: %d", overloadSlots)))
	}
	f.ApplyAndWait(strings.TrimPrefix(strings.Join(documents, ""), "---\n"), func() bool {
		return f.Pool("ams", "load").Limit == overloadSlots && f.Pool("ams", "counts").Limit == overloadSlots &&
			f.Pool("ams", "costs").Limit == overloadSlots && f.Pool("ams", "demo").Limit == 0
	})
	t.Run("four times the load", func(t *testing.T) { overload(f.In(t), other) })
	// One account sends a hundred times the requests of the other. Each takes a slot for 200 ms, so the pool serves 40 a second.
	t.Run("a hundred times the requests", func(t *testing.T) {
		besideFlood(f.In(t), f.Engines[1].Simulated,
			&flow{name: "flood", model: "counts", key: flood, every: 5 * time.Millisecond, tokens: 25},
			&flow{name: "other", model: "counts", key: other, every: 500 * time.Millisecond, tokens: 25})
	})
	// Two accounts send as many requests, those of one a hundred times as costly: of these alone the pool serves 10 a second.
	t.Run("requests a hundred times as costly", func(t *testing.T) {
		besideFlood(f.In(t), f.Engines[2].Simulated,
			&flow{name: "flood", model: "costs", key: flood, every: 25 * time.Millisecond, tokens: 100},
			&flow{name: "other", model: "costs", key: other, every: 25 * time.Millisecond, tokens: 1})
	})
}

// overload sends four times what the pool can serve. A third of the requests have a deadline of 300 ms.
func overload(f *fleettest.Fleet, key string) {
	const (
		tokens   = 25
		capacity = float64(overloadSlots) / float64(tokens) * float64(time.Second/perToken) // a second
		maxWait  = 2 * time.Second
		deadline = 300 * time.Millisecond
	)
	length := time.Duration(testkit.AtScale(2000, 60_000)) * time.Millisecond
	l := newLoad(context.Background(), f)
	all := &flow{name: "any", model: "load", key: key, tokens: tokens, every: time.Duration(float64(time.Second) / capacity / 4),
		deadline: func(n int) time.Duration {
			if n%3 == 0 {
				return deadline
			}
			return 0
		}}
	until := l.run(length, all).Add(length)
	testkit.Within(f.T, 2*maxWait, "the pool to be idle", func() bool {
		p := f.Pool("ams", "load")
		return p.Held == 0 && p.Queued == 0
	})
	l.wait()
	if a := f.Chat(`{"model":"load","max_tokens":1,"messages":[]}`); a.Status != http.StatusOK || a.Header.Get("x-colonnade-queued-ms") != "0" {
		f.T.Errorf("afterwards: %d %v", a.Status, a.Header)
	}

	results := l.byStatus(all)
	served, inTime := results[http.StatusOK], 0
	for _, s := range served {
		if s.answered.Before(until) {
			inTime++
		}
		if s.deadline > 0 && s.queued() >= s.deadline {
			f.T.Errorf("a request was served that waited for %v, with a deadline of %v", s.queued(), s.deadline)
		}
	}
	goodput := float64(inTime) / (capacity * (length - tokens*perToken).Seconds())
	f.T.Logf("of %d requests %d were served and %d refused; goodput is %.3f of capacity",
		len(l.sent), len(served), len(results[http.StatusTooManyRequests]), goodput)
	if goodput < float64(testkit.AtScale(25, 90))/100 && !l.isLate() {
		f.T.Errorf("goodput is %.2f of capacity", goodput)
	}
	checkRefused(f, results)
	l.checkArrivals(f.Engines[0].Simulated)
}

// checkRefused expects that each request that was not served got a reason and a Retry-After.
func checkRefused(f *fleettest.Fleet, results map[int][]*sending) {
	f.T.Helper()
	reasons := map[string]int{}
	for status, some := range results {
		for _, s := range some {
			if status == http.StatusOK || s.timedOutAtEngine() {
				continue
			}
			reason := s.a.Header.Get("x-colonnade-reason")
			reasons[reason]++
			fleettest.OutOfCapacity.WithReason(reason).Expect(f.T, s.a)
		}
	}
	f.T.Logf("refused: %v", reasons)
	if reasons["deadline"] == 0 || len(reasons) < 2 {
		f.T.Errorf("refused: %v, want some for their deadline and some for the full queue, or a long wait", reasons)
	}
}

// timedOutAtEngine reports whether a request got a slot before its deadline and no first byte.
func (s *sending) timedOutAtEngine() bool {
	return s.a.Status == http.StatusGatewayTimeout && s.deadline > 0 && s.queued() < s.deadline
}

// checkArrivals compares an engine's record with the responses: it has each request that was served once, none that was
// refused, and none after its deadline.
func (l *load) checkArrivals(e *simengine.Engine) {
	t := l.f.T
	t.Helper()
	late := time.Duration(testkit.AtScale(1000, 20)) * time.Millisecond // for the way there, on a busy machine
	seen := map[string]bool{}
	for _, a := range l.arrivalsAt(e) {
		s := l.sent[a.name]
		if s == nil || s.a.Status != http.StatusOK && !s.timedOutAtEngine() || seen[a.name] {
			t.Errorf("%s reached the engine (before: %v): %+v", a.name, seen[a.name], s)
			continue
		}
		seen[a.name] = true
		if took := a.at.Sub(s.at); s.deadline > 0 && took > s.deadline+late {
			t.Errorf("%s reached the engine %v after it was sent, with a deadline of %v", a.name, took, s.deadline)
		}
	}
	for name, s := range l.sent {
		if s.a.Status == http.StatusOK && !seen[name] {
			t.Errorf("%s was served, and no engine has seen it", name)
		}
	}
}

// besideFlood sends the requests of two accounts, one of which floods the pool. The other must get what it asks for, which is
// less than half of the pool. Alone it would get the next slot that is freed; beside the flood, whose next request may be on
// its way to the engine already, at most two of the flood are served before it.
func besideFlood(f *fleettest.Fleet, e *simengine.Engine, flood, other *flow) {
	length := time.Duration(testkit.AtScale(2000, 60_000)) * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l := newLoad(ctx, f)
	l.run(length, flood, other)
	wanted := int((length + other.every - 1) / other.every)
	testkit.Within(f.T, time.Second, "the other account's responses", func() bool {
		n := 0
		for _, some := range l.byStatus(other) {
			n += len(some)
		}
		return n == wanted
	})
	cancel() // the flood
	l.wait()
	served, flooded := l.byStatus(other)[http.StatusOK], l.byStatus(flood)
	arrivals := l.arrivalsAt(e)
	var passed []int
	for _, s := range served {
		passed = append(passed, servedBefore(arrivals, flood.name, s))
	}
	slices.Sort(passed)
	if len(served) == 0 || len(flooded[http.StatusTooManyRequests]) == 0 {
		f.T.Fatalf("%d requests of the other account were served; of the flood %d were, and %d refused", len(served), len(flooded[200]), len(flooded[429]))
	}
	p99 := passed[(len(passed)-1)*99/100]
	f.T.Logf("of the other account's %d requests %d were served; of the flood %d were served, %d refused; served before a waiting one were %d (p99), at most %d",
		wanted, len(served), len(flooded[200]), len(flooded[429]), p99, passed[len(passed)-1])
	if len(served) < wanted*testkit.AtScale(50, 90)/100 && !l.isLate() {
		f.T.Errorf("%d of %d requests within its share were served", len(served), wanted)
	}
	if p99 > testkit.AtScale(2*overloadSlots, 2) {
		f.T.Errorf("%d requests of the flood were served while one of the other account waited", p99)
	}
}

// servedBefore counts the requests of the flood that the engine got while a request of the other account waited.
func servedBefore(arrivals []arrival, flood string, s *sending) (n int) {
	granted := arrivals[slices.IndexFunc(arrivals, func(a arrival) bool { return a.name == s.name })].at
	for _, a := range arrivals {
		if strings.HasPrefix(a.name, flood) && a.at.After(granted.Add(-s.queued())) && a.at.Before(granted) {
			n++
		}
	}
	return n
}
