package permits_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/balance"
	"colonnade/permits"
)

// takeAll takes permits without waiting until there are no more, and returns them and their endpoints.
func takeAll(t *testing.T, p *permits.Pool, r permits.Request) (taken []permits.Permit, ids string) {
	t.Helper()
	for {
		permit, err := acquire(p, context.Background(), r)
		if err != nil {
			var refusal *permits.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != permits.Busy && refusal.Reason != permits.AccountLimit {
				t.Fatalf("got %v, want a refusal: busy or account_limit", err)
			}
			return taken, strings.TrimSpace(ids)
		}
		taken = append(taken, permit)
		ids += " " + permit.Endpoint()
	}
}

func TestPolicies(t *testing.T) {
	e := func(id string, concurrency, weight int) permits.Endpoint {
		return permits.Endpoint{ID: id, Concurrency: concurrency, Weight: weight}
	}
	f := func(policy balance.Policy, want string, es ...permits.Endpoint) {
		t.Helper()
		c := config()
		c.Balance.Policy = policy
		p := newPool(t, c, es...)
		if _, got := takeAll(t, p, permits.Request{}); got != want {
			t.Errorf("policy %d over %v: got %s, want %s", policy, es, got, want)
		}
		if load := p.Load(); load.Free != 0 || load.Held != load.Limit {
			t.Errorf("all taken, but the load is %+v", load)
		}
	}
	f(balance.LeastLoaded, "a b c a b c", e("a", 2, 1), e("b", 2, 1), e("c", 2, 1))
	f(balance.LeastLoaded, "a a a b a", e("a", 4, 1), e("b", 1, 0))
	f(balance.LeastLoaded, "b a b b a a", e("a", 3, 1), e("b", 3, 2))
	f(balance.RoundRobin, "a b c a c a", e("a", 3, 1), e("b", 1, 9), e("c", 2, 1))
	f(balance.RoundRobin, "a", e("a", 1, 1), e("a", 5, 1))
}

// Equal endpoints take turns also after releases, so that no endpoint of an idle pool gets all requests.
func TestEqualsTakeTurns(t *testing.T) {
	for _, policy := range []balance.Policy{balance.LeastLoaded, balance.RoundRobin} {
		c := config()
		c.Balance.Policy = policy
		p := newPool(t, c, fleet(3, 4)...)
		counts := map[string]int{}
		for range 30 {
			permit := take(t, p, permits.Request{})
			counts[permit.Endpoint()]++
			permit.Release()
		}
		if counts["e0"] != 10 || counts["e1"] != 10 || counts["e2"] != 10 {
			t.Errorf("policy %d: %v, want 10 each", policy, counts)
		}
	}
}

func TestAvoid(t *testing.T) {
	p := newPool(t, config(), fleet(3, 1)...)
	if _, got := takeAll(t, p, permits.Request{Avoid: []string{"e0", "e2", "gone"}}); got != "e1" {
		t.Errorf("avoiding e0 and e2 got %q, want e1", got)
	}
	refuse(t, p, permits.Request{Avoid: []string{"e0", "e1", "e2"}, MaxWait: time.Hour, MaxExpected: -1}, permits.NoEndpoint)
	p.SetUsable("e1", false)
	refuse(t, p, permits.Request{Avoid: []string{"e0", "e2"}, MaxWait: time.Hour, MaxExpected: -1}, permits.NoEndpoint)
}

func TestReasons(t *testing.T) {
	full := func(t *testing.T, c permits.Config) *permits.Pool {
		p := newPool(t, c, fleet(1, 1)...)
		permit := take(t, p, patient("a"))
		t.Cleanup(permit.Release)
		return p
	}
	wait := func(t *testing.T, p *permits.Pool, r permits.Request) {
		ctx, cancel := context.WithCancel(t.Context())
		queued := p.Load().Queued
		done := start(ctx, p, r)
		for p.Load().Queued == queued {
			time.Sleep(10 * time.Microsecond)
		}
		t.Cleanup(func() { cancel(); <-done })
	}
	t.Run("no endpoint", func(t *testing.T) {
		refuse(t, newPool(t, config()), patient("a"), permits.NoEndpoint)
		refuse(t, newPool(t, config()), permits.Request{}, permits.NoEndpoint)
		refuse(t, newPool(t, config(), fleet(2, 0)...), patient("a"), permits.NoEndpoint)
	})
	t.Run("busy", func(t *testing.T) {
		refuse(t, full(t, config()), permits.Request{Account: "a"}, permits.Busy)
	})
	t.Run("busy: the pool lets no request wait", func(t *testing.T) {
		c := config()
		c.MaxWait = 0
		refuse(t, full(t, c), patient("a"), permits.Busy)
	})
	t.Run("busy: no rate is known", func(t *testing.T) {
		r := patient("a")
		r.MaxExpected = time.Hour
		refuse(t, full(t, config()), r, permits.Busy)
	})
	t.Run("queue full", func(t *testing.T) {
		c := config()
		c.Limit = 2
		p := full(t, c)
		wait(t, p, patient("a"))
		wait(t, p, patient("b"))
		refuse(t, p, patient("c"), permits.QueueFull)
		if n := p.Load().Queued; n != 2 {
			t.Errorf("%d queued, want 2", n)
		}
	})
	t.Run("queue full: bytes", func(t *testing.T) {
		c := config()
		c.Bytes = 100
		p, r := full(t, c), patient("a")
		r.Bytes = 60
		wait(t, p, r)
		refuse(t, p, r, permits.QueueFull)
	})
	t.Run("account queue full", func(t *testing.T) {
		c := config()
		c.PerAccount = 1
		p := full(t, c)
		wait(t, p, patient("a"))
		refuse(t, p, patient("a"), permits.AccountQueueFull)
		wait(t, p, patient("b"))
	})
	t.Run("deadline", func(t *testing.T) {
		r := patient("a")
		r.Deadline = time.Now().Add(-time.Second)
		refuse(t, full(t, config()), r, permits.Deadline)
		refuse(t, newPool(t, config(), fleet(1, 1)...), r, permits.Deadline) // also where a slot is free
	})
	t.Run("draining", func(t *testing.T) {
		p := full(t, config())
		p.Drain()
		refuse(t, p, patient("a"), permits.Draining)
		refuse(t, p, permits.Request{}, permits.Draining)
	})
}

func TestPermitAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config(), fleet(1, 1)...)
		first := take(t, p, patient("a"))
		if first.Queued() != 0 || first.QueueLenAtArrival() != 0 || first.Endpoint() != "e0" {
			t.Errorf("%v queued behind %d for %q", first.Queued(), first.QueueLenAtArrival(), first.Endpoint())
		}
		one := start(t.Context(), p, patient("a"))
		synctest.Wait()
		time.Sleep(time.Second)
		two := start(t.Context(), p, patient("a"))
		synctest.Wait()
		time.Sleep(time.Second)
		first.Release()
		r := <-one
		if r.permit.Queued() != 2*time.Second || r.permit.QueueLenAtArrival() != 0 {
			t.Errorf("the first waited %v behind %d", r.permit.Queued(), r.permit.QueueLenAtArrival())
		}
		r.permit.Release()
		r = <-two
		if r.permit.Queued() != time.Second || r.permit.QueueLenAtArrival() != 1 {
			t.Errorf("the second waited %v behind %d", r.permit.Queued(), r.permit.QueueLenAtArrival())
		}
		r.permit.Release()
	})
}

func TestReleaseTwicePanics(t *testing.T) {
	panics := func(name string, release func()) {
		t.Helper()
		defer func() {
			if s := fmt.Sprint(recover()); !strings.HasPrefix(s, "permits: ") {
				t.Errorf("%s: recovered %q", name, s)
			}
		}()
		release()
	}
	p := newPool(t, config(), fleet(1, 2)...)
	permit := take(t, p, patient("a"))
	same := permit
	permit.Release()
	panics("twice", permit.Release)
	panics("a copy", same.Release)
	other := take(t, p, patient("b")) // on the same slot
	panics("the slot is another's now", permit.Release)
	if load := p.Load(); load.Held != 1 {
		t.Errorf("%d held, want 1", load.Held)
	}
	other.ReleaseUsed(permits.Used{Output: 3})
	panics("used", func() { other.ReleaseUsed(permits.Used{}) })
	panics("zero", permits.Permit{}.Release)
}

func TestContextEndedBefore(t *testing.T) {
	p := newPool(t, config(), fleet(1, 1)...)
	cause := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	if _, err := acquire(p, ctx, patient("a")); err != cause {
		t.Errorf("got %v, want the cause", err)
	}
	if s := p.Stats(); s.Granted != 0 {
		t.Errorf("%d granted", s.Granted)
	}
}

func TestStatsOfEndpoints(t *testing.T) {
	p := newPool(t, config(), fleet(2, 2)...)
	a, b := take(t, p, patient("a")), take(t, p, patient("a"))
	p.SetUsable("e1", false)
	p.SetEndpoints([]permits.Endpoint{{ID: "e1", Concurrency: 3, Weight: 2}})
	refuse(t, p, patient("a"), permits.NoEndpoint)
	s := p.Stats()
	want := []permits.EndpointStats{
		{URL: "e1", Concurrency: 3, Weight: 2, Held: 1},
		{URL: "e0", Concurrency: 2, Weight: 1, Held: 1, Usable: true, Removed: true},
	}
	if !slices.Equal(s.Endpoints, want) {
		t.Errorf("endpoints\n%+v, want\n%+v", s.Endpoints, want)
	}
	if s.Limit != 0 || s.Held != 2 || s.Free != 0 || s.Granted != 2 || s.Released != 0 || s.Refused[permits.NoEndpoint] != 1 {
		t.Errorf("got %+v", s)
	}
	a.Release()
	b.Release()
	if s := p.Stats(); len(s.Endpoints) != 1 || s.Held != 0 || s.Released != 2 {
		t.Errorf("after the releases %+v", s)
	}
}
