package permits_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

// only is a patient request that no endpoint but e0 may serve, of a fleet of so many.
func only(account string, endpoints int) permits.Request {
	r := patient(account)
	r.Excluded[0] = othersThan(endpoints)
	return r
}

func othersThan(endpoints int) *permits.Exclusion {
	var ids []string
	for i := range endpoints - 1 {
		ids = append(ids, fmt.Sprintf("e%d", i+1))
	}
	return permits.NewExclusion(ids)
}

func wantExpected(t *testing.T, r *permits.Refusal, want time.Duration, when string) {
	t.Helper()
	if (r.Expected - want).Abs() > 5*time.Millisecond {
		t.Errorf("%s: the expected wait is %v, want %v", when, r.Expected, want)
	}
}

// A request that one of four endpoints may serve waits for that one: what all may serve drains through all slots, and what only that one may
// serve through its own.
func TestExpectedWaitCountsOnlyEndpointsThatMayServe(t *testing.T) {
	c := config()
	c.MaxWait, c.Discipline = time.Hour, permits.FIFO
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(4, 1)...)
		warm(t, p, time.Second, 64) // a second each: one a second by e0, four by all
		held, _ := takeAll(t, p, permits.Request{})
		now := func(r permits.Request) *permits.Refusal {
			r.MaxWait = 0
			return refuse(t, p, r, permits.Busy)
		}
		wantExpected(t, now(patient("a")), time.Second/4, "every endpoint may serve it")
		wantExpected(t, now(only("a", 4)), time.Second, "only e0 may serve it")
		for range 8 {
			go acquire(p, t.Context(), patient("a"))
		}
		synctest.Wait()
		wantExpected(t, now(patient("a")), 9*time.Second/4, "behind 8 that every endpoint may serve")
		wantExpected(t, now(only("a", 4)), 3*time.Second, "behind 8 that every endpoint may serve, only e0 may serve it")
		for range 8 {
			go acquire(p, t.Context(), only("a", 4))
		}
		synctest.Wait()
		wantExpected(t, now(only("a", 4)), 9*time.Second, "behind 8 that only e0 may serve")
		wantExpected(t, now(patient("a")), 17*time.Second/4, "every endpoint may serve it, behind 16")
		late := only("a", 4)
		late.MaxExpected = 8 * time.Second
		wantExpected(t, refuse(t, p, late, permits.Busy), 9*time.Second, "refused for the expected wait")
		var progress permits.Progress
		slow := only("a", 4)
		slow.Progress = func(now permits.Progress) { progress = now }
		go acquire(p, t.Context(), slow)
		synctest.Wait()
		if !progress.Known || (progress.Expected-9*time.Second).Abs() > 5*time.Millisecond {
			t.Errorf("the progress of one that waits: %+v, want 9s", progress)
		}
		check(t, p)
		p.Drain()
		for _, permit := range held {
			permit.Release()
		}
	})
}

// Clients whose requests only one of four endpoints may serve come back as that one serves them, and do not delay the others' clients by more
// than their number.
func TestRetryAfterCountsOnlyEndpointsThatMayServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, noQueue(), fleet(4, 1)...)
		warm(t, p, time.Second, 64)
		held, _ := takeAll(t, p, permits.Request{})
		for n := range 12 {
			computed := max(float64(n), 1)
			wantBetween(t, refuse(t, p, only("a", 4), permits.Busy), computed, computed, "number %d that only e0 may serve", n)
		}
		wantBetween(t, refuse(t, p, patient("a"), permits.Busy), 3, 3, "behind 12 retries, every endpoint may serve it")
		check(t, p)
		time.Sleep(33 * time.Second)
		wantBetween(t, refuse(t, p, only("a", 4), permits.Busy), 1, 1, "after all were due")
		for _, permit := range held {
			permit.Release()
		}
	})
}

// An excluded endpoint gets no such request, also one that waits; without any other endpoint the request is refused.
func TestExcludedEndpointsGetNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config(), fleet(2, 1)...)
		first := take(t, p, only("a", 2))
		if first.Endpoint() != "e0" {
			t.Errorf("granted %s, want e0", first.Endpoint())
		}
		granted := make(chan permits.Permit, 1)
		go func() {
			permit, err := acquire(p, t.Context(), only("a", 2))
			if err != nil {
				t.Error(err)
			}
			granted <- permit
		}()
		synctest.Wait()
		if load := p.Load(); load.Queued != 1 || load.Free != 1 {
			t.Errorf("%+v: want one that waits beside a slot that it must not get", load)
		}
		check(t, p)
		first.Release()
		(<-granted).Release()
		r := only("a", 2)
		r.Excluded[1] = permits.NewExclusion([]string{"e0"})
		refuse(t, p, r, permits.NoEndpoint)
	})
}

func TestExclusion(t *testing.T) {
	x := permits.NewExclusion([]string{"b", "a", "b"})
	if !x.Has("a") || !x.Has("b") || x.Has("c") || !slices.Equal(x.IDs(), []string{"a", "b"}) {
		t.Errorf("%v", x.IDs())
	}
	if none := permits.NewExclusion(nil); none != nil || none.Has("a") || none.IDs() != nil {
		t.Error("the empty set is not empty")
	}
}

// A pool keeps what it knows of the exclusions of hundreds of adapters, also when the sets are made anew, and bounds it.
func TestExclusionsAreKept(t *testing.T) {
	const adapters = 500
	p := newPool(t, config(), fleet(20, 1)...)
	requests, again := manyExclusions(adapters, 20), manyExclusions(adapters, 20)
	each := func(requests []permits.Request) {
		for i := range requests {
			permit := take(t, p, requests[i])
			if requests[i].Excluded.Has(permit.Endpoint()) {
				t.Fatalf("request %d got %s, which is excluded", i, permit.Endpoint())
			}
			permit.Release()
		}
	}
	each(requests)
	if n := testing.AllocsPerRun(5, func() { each(again) }); n > 3*adapters/2 { // a request of the test is one
		t.Errorf("%v allocations for %d requests", n, adapters)
	}
	if n := p.BarredLists(); n != adapters {
		t.Errorf("%d lists are kept for %d adapters", n, adapters)
	}
	each(manyExclusions(20_000, 20))
	if n := p.BarredLists(); n > 10_000 {
		t.Errorf("%d lists are kept", n)
	}
}
