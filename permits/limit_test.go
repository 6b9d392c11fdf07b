package permits_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

// limited is a request of an account that may hold two permits.
func limited() permits.Request {
	r := patient("limited")
	r.Concurrent = 2
	return r
}

// atLimit runs f on a pool of eight slots, of which the account "limited" holds the two that it may; the others are free.
func atLimit(t *testing.T, c permits.Config, f func(t *testing.T, p *permits.Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(2, 4)...)
		first, second := take(t, p, limited()), take(t, p, limited())
		f(t, p)
		first.Release()
		second.Release()
		synctest.Wait()
	})
}

// Whatever bound on waiting a request meets while its account is at its cap, the cap is the reason.
func TestAccountLimitIsTheReason(t *testing.T) {
	immediate := func(name string, mayWait bool, r permits.Request, change func(*permits.Config)) {
		t.Run(name, func(t *testing.T) {
			c := config()
			if change != nil {
				change(&c)
			}
			atLimit(t, c, func(t *testing.T, p *permits.Pool) {
				began := time.Now()
				refusal := refuse(t, p, r, permits.AccountLimit)
				if refusal.MayWait != mayWait || time.Since(began) != 0 {
					t.Errorf("may wait: %v, after %v; want %v, at once", refusal.MayWait, time.Since(began), mayWait)
				}
				if got := p.Stats().Refused; got[permits.AccountLimit] != 1 || len(got) != 1 {
					t.Errorf("counted as %v", got)
				}
				take(t, p, patient("other")).Release() // the slots beside are for others
			})
		})
	}
	never, spills := limited(), limited()
	never.MaxWait = 0
	spills.MaxExpected = time.Second
	immediate("it does not wait", true, never, nil)
	immediate("it waits only for a short time", true, spills, nil)
	immediate("the pool lets nothing wait", true, limited(), func(c *permits.Config) { c.MaxWait = 0 })
	immediate("the queue is full", false, limited(), func(c *permits.Config) { c.Limit = 0 })
	immediate("the account's part of the queue is full", false, limited(), func(c *permits.Config) { c.PerAccount = 0 })

	waits := func(name string, mayWait bool, r permits.Request, want time.Duration) {
		t.Run(name, func(t *testing.T) {
			atLimit(t, config(), func(t *testing.T, p *permits.Pool) {
				began := time.Now()
				refusal := refuse(t, p, r, permits.AccountLimit)
				if waited := time.Since(began); waited != want || refusal.MayWait != mayWait {
					t.Errorf("waited %v, may wait: %v; want %v, %v", waited, refusal.MayWait, want, mayWait)
				}
			})
		})
	}
	soon := limited()
	waits("it has waited long enough", true, limited(), 10*time.Second)
	soon.MaxWait = time.Second
	waits("it has waited as long as it may", true, soon, time.Second)
	t.Run("its deadline has passed while it waited", func(t *testing.T) {
		atLimit(t, config(), func(t *testing.T, p *permits.Pool) {
			r := limited()
			r.Deadline = time.Now().Add(2 * time.Second)
			refuse(t, p, r, permits.AccountLimit)
		})
	})
	t.Run("it made room for another account", func(t *testing.T) {
		c := config()
		c.Limit = 2
		atLimit(t, c, func(t *testing.T, p *permits.Pool) {
			held, _ := takeAll(t, p, permits.Request{Account: "other"})
			waiting := start(t.Context(), p, limited())
			synctest.Wait()
			newest := start(t.Context(), p, limited())
			synctest.Wait()
			other := start(t.Context(), p, patient("other"))
			wantRefusal(t, (<-newest).err, permits.AccountLimit)
			for _, permit := range held {
				permit.Release()
			}
			(<-other).permit.Release()
			wantRefusal(t, (<-waiting).err, permits.AccountLimit)
		})
	})
}

// A reason that has nothing to do with waiting stays.
func TestAccountLimitHidesNothingElse(t *testing.T) {
	atLimit(t, config(), func(t *testing.T, p *permits.Pool) {
		late := limited()
		late.Deadline = time.Now()
		refuse(t, p, late, permits.Deadline)
		nowhere := limited()
		nowhere.Avoid = []string{"e0", "e1"}
		refuse(t, p, nowhere, permits.NoEndpoint)
		r := limited()
		if refusal := p.Refuse(&r, permits.Busy); refusal.Reason != permits.Busy || !refusal.MayWait {
			t.Errorf("an engine without a slot: %+v", refusal)
		}
		waiting := start(t.Context(), p, limited())
		synctest.Wait()
		p.CloseQueue()
		wantRefusal(t, (<-waiting).err, permits.Draining)
		refuse(t, p, limited(), permits.Draining)
	})
}

// A cap of as many permits as there are slots, or more, holds nothing back: the slots do. Below its cap, an account is
// refused like any other.
func TestAccountLimitOnlyWhereTheCapHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.MaxWait = time.Second
		p := newPool(t, c, fleet(1, 2)...)
		first := take(t, p, limited())
		second := take(t, p, limited())
		refuse(t, p, limited(), permits.QueueTimeout)
		first.Release()
		third := take(t, p, patient("other"))
		refuse(t, p, limited(), permits.QueueTimeout)
		third.Release()
		second.Release()
	})
}

// The pool's max_share is a cap of each account, and changes with the number of slots.
func TestAccountLimitOfMaxShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.MaxShare, c.MaxWait = 0.5, time.Second
		p := newPool(t, c, fleet(2, 4)...)
		held, _ := takeAll(t, p, permits.Request{Account: "a"})
		if len(held) != 4 {
			t.Fatalf("one account holds %d of 8 slots, want 4", len(held))
		}
		refuse(t, p, patient("a"), permits.AccountLimit)
		p.SetUsable("e1", false) // 4 slots, of which it may hold 2
		refuse(t, p, patient("a"), permits.AccountLimit)
		c.MaxShare = 1
		p.Configure(c)
		rest, _ := takeAll(t, p, permits.Request{Account: "a"})
		held = append(held, rest...)
		refuse(t, p, patient("a"), permits.QueueTimeout)
		for _, permit := range held {
			permit.Release()
		}
	})
}

// Retry-After and the expected wait of an account at its cap come from how long its own requests hold their slots, and
// not from those of accounts that release ten times as often.
func TestRetryAfterAtTheCapIsByOwnReleases(t *testing.T) {
	c := config()
	c.MaxWait = 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(2, 8)...)
		slow := patient("slow")
		slow.Concurrent = 1
		for range 16 {
			permit := take(t, p, slow)
			warm(t, p, time.Second, 10)
			permit.Release()
		}
		permit := take(t, p, slow)
		never := slow
		never.MaxWait = 0
		never.JitterFraction = 1e-9
		refusal := refuse(t, p, never, permits.AccountLimit)
		if refusal.Expected < 8*time.Second || refusal.Expected > 12*time.Second ||
			refusal.RetryAfter < 8*time.Second || refusal.RetryAfter > 12*time.Second {
			t.Errorf("expected %v, told to come back in %v, want about 10s for both", refusal.Expected, refusal.RetryAfter)
		}
		soon := slow
		soon.MaxWait = 5 * time.Second
		began := time.Now()
		refuse(t, p, soon, permits.AccountLimit)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("refused after %v, want at once: no permit of its account is released within 5s", waited)
		}
		other := patient("other")
		if permit, err := acquire(p, t.Context(), other); err != nil {
			t.Errorf("another account: %v", err)
		} else {
			permit.Release()
		}
		permit.Release()
		var none *permits.Refusal
		if permit, err := acquire(p, t.Context(), soon); errors.As(err, &none) {
			t.Errorf("below its cap: refused for %s", none.Reason)
		} else {
			permit.Release()
		}
	})
}
