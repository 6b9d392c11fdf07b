package permits_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

// withFullPool runs f on a pool whose only slot is taken and where permits are held for so long; 0: no permit was held yet.
// It runs in a bubble of synthetic time.
func withFullPool(t *testing.T, c permits.Config, hold time.Duration, f func(t *testing.T, p *permits.Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(1, 1)...)
		if hold > 0 {
			warm(t, p, hold, 16)
		}
		held := take(t, p, permits.Request{})
		f(t, p)
		held.Release()
	})
}

// noQueue is a configuration under which no request may wait.
func noQueue() permits.Config {
	c := config()
	c.MaxWait = 0
	return c
}

// wantBetween expects Retry-After to be at least low seconds and at most a quarter more than high.
func wantBetween(t *testing.T, r *permits.Refusal, low, high float64, what string, args ...any) {
	t.Helper()
	if after := r.RetryAfter.Seconds(); after < low-1e-6 || after > 1.25*high+1e-6 {
		t.Errorf("%s: Retry-After is %v s, want %v s to %v s", fmt.Sprintf(what, args...), after, low, 1.25*high)
	}
}

func wantPendingRetries(t *testing.T, p *permits.Pool, want int) {
	t.Helper()
	if n := p.Stats().PendingRetries; n != want {
		t.Errorf("%d retries are pending, want %d", n, want)
	}
	check(t, p)
}

func TestRetryAfterWithoutARate(t *testing.T) {
	withFullPool(t, noQueue(), 0, func(t *testing.T, p *permits.Pool) {
		if r := refuse(t, p, patient("a"), permits.Busy); r.RetryAfter > 3250*time.Millisecond || r.Expected != 0 {
			t.Errorf("%+v, want Retry-After from 1s to 3.25s, and no expected wait", r)
		}
	})
}

// Retry-After of clients that are refused one after the other grows with each.
func TestRetryAfterCountsPendingRetries(t *testing.T) {
	withFullPool(t, noQueue(), 500*time.Millisecond, func(t *testing.T, p *permits.Pool) {
		elsewhere := permits.Request{Account: "a", MaxExpected: time.Millisecond} // tries another pool, and is not counted
		for range 100 {
			wantBetween(t, refuse(t, p, elsewhere, permits.Busy), 1, 1, "one that tries elsewhere")
		}
		for n := range 100 { // two a second
			computed := min(max(float64(n)/2, 1), 25.6)
			wantBetween(t, refuse(t, p, patient("a"), permits.Busy), computed, computed, "number %d", n)
		}
	})
}

// The interval is what one more refused client of the account adds to Retry-After, among the accounts whose clients come back.
func TestRetryInterval(t *testing.T) {
	withFullPool(t, noQueue(), 100*time.Millisecond, func(t *testing.T, p *permits.Pool) { // ten a second
		f := func(account string, want time.Duration) {
			t.Helper()
			if got := refuse(t, p, patient(account), permits.Busy).RetryInterval.Round(time.Millisecond); got != want {
				t.Errorf("account %s: %v, want %v", account, got, want)
			}
		}
		f("a", 100*time.Millisecond)
		f("a", 100*time.Millisecond)
		f("b", 100*time.Millisecond)
		f("a", 200*time.Millisecond) // every other slot is for b
	})
	withFullPool(t, noQueue(), 0, func(t *testing.T, p *permits.Pool) {
		if got := refuse(t, p, patient("a"), permits.Busy).RetryInterval; got < 0 || got > time.Second {
			t.Errorf("before any permit was released: %v", got)
		}
	})
}

// Waiting requests are served before any client that comes back.
func TestRetryAfterCountsTheQueue(t *testing.T) {
	c := config()
	c.PerAccount = 8
	play(t, c, fleet(1, 1), func(s *scene) {
		time.Sleep(time.Second)
		s.release()
		warm(s.T, s.pool, time.Second, 16)
		for range 9 {
			s.ask("waits", patient("a"))
		}
		wantBetween(s.T, refuse(s.T, s.pool, patient("a"), permits.AccountQueueFull), 8, 8, "behind 8 requests of a second each")
		time.Sleep(10 * time.Second)
	})
}

// A pending retry is forgotten when it is due.
func TestPendingRetriesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, noQueue(), fleet(1, 1)...)
		for range 50 {
			warm(t, p, 10*time.Millisecond, 64) // a hundred a second
			held := take(t, p, permits.Request{})
			for range 1000 {
				refuse(t, p, patient("a"), permits.Busy)
			}
			if after := refuse(t, p, patient("a"), permits.Busy).RetryAfter; after < 5*time.Second {
				t.Errorf("Retry-After is %v with a thousand retries pending", after)
			}
			held.Release()
			time.Sleep(34*time.Second + 100*time.Millisecond)
		}
		held := take(t, p, permits.Request{})
		wantBetween(t, refuse(t, p, patient("a"), permits.Busy), 1, 1, "after all were due")
		held.Release()
	})
}

// That holds for a pool without usable endpoints too.
func TestPendingRetriesAreForgottenWithoutSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config(), fleet(1, 1)...)
		p.SetUsable("e0", false)
		for range 100 {
			refuse(t, p, patient("a"), permits.NoEndpoint)
		}
		time.Sleep(33*time.Second + 500*time.Millisecond)
		refuse(t, p, patient("a"), permits.NoEndpoint)
		wantPendingRetries(t, p, 1)
		time.Sleep(5 * time.Second)
		wantPendingRetries(t, p, 0)
	})
}

func TestRetryAfterIsJittered(t *testing.T) {
	p := newPool(t, permits.Config{}, fleet(1, 1)...)
	defer take(t, p, permits.Request{}).Release()
	seen := map[time.Duration]bool{}
	for range 100 {
		seen[refuse(t, p, permits.Request{}, permits.Busy).RetryAfter] = true
	}
	if len(seen) < 90 {
		t.Errorf("%d different answers of 100", len(seen))
	}
}

// An account that ignores Retry-After and asks again and again delays only itself.
func TestRetryAfterIsByAccount(t *testing.T) {
	withFullPool(t, noQueue(), 100*time.Millisecond, func(t *testing.T, p *permits.Pool) { // ten a second
		for range 1000 {
			refuse(t, p, patient("disobeys"), permits.Busy)
		}
		if after := refuse(t, p, patient("disobeys"), permits.Busy).RetryAfter; after < 25*time.Second {
			t.Errorf("after a thousand requests, Retry-After of the account is %v", after)
		}
		for n := range 20 { // of two accounts, each gets every other slot
			computed := max(float64(n)*2/10, 1)
			wantBetween(t, refuse(t, p, patient("obeys"), permits.Busy), computed, computed+0.2, "number %d of the other account", n)
		}
		heavy := patient("heavy")
		heavy.Weight = 98 // of 100
		for range 99 {
			refuse(t, p, heavy, permits.Busy)
		}
		wantBetween(t, refuse(t, p, heavy, permits.Busy), 10, 10.8, "number 100 of an account with nearly all the weight")
	})
}

// Of an account that may hold one of eight slots, Retry-After is by how long that one is held.
func TestRetryAfterAtTheCap(t *testing.T) {
	c := config()
	c.PerAccount = 4
	play(t, c, fleet(1, 8), func(s *scene) {
		s.release()
		warm(s.T, s.pool, time.Second, 500)
		capped := patient("capped")
		capped.Concurrent = 1
		for range 5 {
			s.ask("capped", capped)
		}
		for n := range 4 { // one permit a second, for four that wait and those that were refused before
			want := float64(4 + n)
			wantBetween(s.T, refuse(s.T, s.pool, capped, permits.AccountLimit), want-1, want+1, "number %d", n)
		}
		time.Sleep(10 * time.Second)
	})
}

// Pending retries of lower bands are served after a request of a higher band, and those of higher bands before one of a
// lower band.
func TestRetryAfterIsByBand(t *testing.T) {
	in := func(account string, b permits.Band) permits.Request {
		r := patient(account)
		r.Band = b
		return r
	}
	withFullPool(t, noQueue(), time.Second, func(t *testing.T, p *permits.Pool) {
		for i := range 20 {
			refuse(t, p, in(fmt.Sprint("night", i), permits.Batch), permits.Busy)
		}
		wantBetween(t, refuse(t, p, in("day", permits.Interactive), permits.Busy), 1, 1, "an interactive request")
		if r := refuse(t, p, in("another night", permits.Batch), permits.Busy); r.RetryAfter < 20*time.Second {
			t.Errorf("Retry-After of a batch request is %v", r.RetryAfter)
		}
	})
	withFullPool(t, noQueue(), time.Second, func(t *testing.T, p *permits.Pool) {
		for range 10 {
			refuse(t, p, in("day", permits.Interactive), permits.Busy)
			refuse(t, p, patient("morning"), permits.Busy)
		}
		if r := refuse(t, p, in("night", permits.Batch), permits.Busy); r.RetryAfter < 20*time.Second {
			t.Errorf("behind twenty of higher bands, Retry-After of a batch request is %v", r.RetryAfter)
		}
	})
}

// A client that is refused by three pools comes back to one of them, and each pool counts a third of it.
func TestRetryAfterOfSeveralPools(t *testing.T) {
	withFullPool(t, noQueue(), time.Second, func(t *testing.T, p *permits.Pool) {
		r := patient("a")
		r.ReturnProbability = 1. / 3
		for n := range 60 {
			computed := max(float64(n)/3, 1)
			wantBetween(t, refuse(t, p, r, permits.Busy), computed-0.1, computed+0.1, "number %d", n)
		}
		wantPendingRetries(t, p, 20)
		time.Sleep(33 * time.Second)
		wantPendingRetries(t, p, 0)
	})
}

// A caller that waits only for a short time asks again without that bound before its client is answered, and is not counted;
// but it is where there was no room.
func TestRetryAfterOfACallerThatAsksElsewhere(t *testing.T) {
	c := config()
	c.PerAccount = 0
	withFullPool(t, c, time.Second, func(t *testing.T, p *permits.Pool) {
		r := patient("a")
		r.MaxExpected = 100 * time.Millisecond
		refuse(t, p, r, permits.Busy)
		wantPendingRetries(t, p, 0)
		r.MaxExpected = time.Minute
		refuse(t, p, r, permits.AccountQueueFull)
		wantPendingRetries(t, p, 1)
	})
}

// The permits that are released first were held for the shortest time; the estimate counts how long the others are held
// already.
func TestRetryAfterAllowsForPermitsStillHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, noQueue(), fleet(1, 16)...)
		held, _ := takeAll(t, p, permits.Request{})
		for i := range 8 { // 16 a second are released, as if each were held for a second on the mean
			time.Sleep(time.Second / 16)
			held[i].Release()
			held[i] = take(t, p, permits.Request{})
		}
		r := patient("a")
		r.JitterFraction = 1e-9
		for range 128 {
			refuse(t, p, r, permits.Busy)
		}
		if after := refuse(t, p, r, permits.Busy).RetryAfter; after < 6*time.Second || after > 10*time.Second {
			t.Errorf("behind 128 retries, Retry-After is %v, want about 8s", after)
		}
		for _, permit := range held {
			permit.Release()
		}
	})
}
