package permits_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

// burst is clients that come to a pool within half a second. Who is refused comes back once, when it is told to.
type burst struct {
	config   permits.Config
	slots    int
	accounts int
	hold     time.Duration // of a permit, on the mean
	uneven   bool          // exponential, else all alike
	backlog  time.Duration // what the slots need for all of them
	known    bool          // the pool has served many before, else nobody
}

// play returns how many were refused, and how many of these were admitted at their next try.
func (b *burst) play(t *testing.T) (refused, admitted int64) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, b.config, fleet(1, b.slots)...)
		if b.known {
			warm(t, p, b.hold, 4*b.slots)
		}
		random := rand.New(rand.NewPCG(1, 2))
		var first, again atomic.Int64
		var all sync.WaitGroup
		n := int(b.backlog.Seconds() * float64(b.slots) / b.hold.Seconds())
		for i := range n {
			hold := b.hold
			if b.uneven {
				hold = time.Duration(random.ExpFloat64() * float64(hold))
			}
			all.Go(func() {
				time.Sleep(time.Duration(i) * 500 * time.Millisecond / time.Duration(n))
				r := patient(fmt.Sprint(i % b.accounts))
				permit, err := p.Acquire(context.Background(), r)
				var told *permits.Refusal
				if errors.As(err, &told) {
					first.Add(1)
					time.Sleep(told.RetryAfter)
					if permit, err = p.Acquire(context.Background(), r); err == nil {
						again.Add(1)
					}
				}
				if err == nil {
					time.Sleep(hold)
					permit.Release()
				}
			})
		}
		all.Wait()
		refused, admitted = first.Load(), again.Load()
	})
	return refused, admitted
}

// want expects that four of five are admitted at their next try.
func (b *burst) want(t *testing.T) {
	t.Helper()
	refused, admitted := b.play(t)
	t.Logf("%+v: %d refused, %d of them admitted when they came back", *b, refused, admitted)
	if 5*admitted < 4*refused {
		t.Errorf("%+v: %d refused, %d of them admitted when they came back, want four of five", *b, refused, admitted)
	}
}

// Who obeys is admitted also by a pool of which nothing is known yet, whether permits are held for as long as its queue
// says or not.
func TestObedientClientsAreAdmittedByANewPool(t *testing.T) {
	narrow := permits.Config{Limit: 24, PerAccount: 12, Bytes: 1, MaxWait: 3 * time.Second}
	wide := permits.Config{Limit: 256, PerAccount: 64, Bytes: 1, MaxWait: 10 * time.Second}
	f := func(c permits.Config, slots int, times float64, uneven bool, backlog time.Duration) {
		t.Helper()
		stated := float64(slots) * float64(c.MaxWait) / float64(c.Limit)
		for _, accounts := range []int{1, 5} {
			b := burst{config: c, slots: slots, accounts: accounts, uneven: uneven, backlog: backlog,
				hold: time.Duration(times * stated)}
			b.want(t)
		}
	}
	for _, uneven := range []bool{false, true} {
		for _, times := range []float64{0.5, 1, 2} {
			f(narrow, 16, times, uneven, 6*time.Second)
			f(narrow, 16, times, uneven, 30*time.Second)
			f(wide, 16, times, uneven, 30*time.Second)
		}
	}
	f(wide, 128, 1, true, 30*time.Second) // of so many slots the first come free long before others do
}

// Who completes first has held least: the time that others have held by then tells how long it is.
func TestTheFirstToCompleteAreTheShortest(t *testing.T) {
	c := config()
	c.MaxWait = 0
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(1, 16)...)
		held, _ := takeAll(t, p, permits.Request{})
		for i := range 8 { // 16 a second come free, as if each were held for a second on the mean
			time.Sleep(time.Second / 16)
			held[i].Release()
			held[i] = take(t, p, permits.Request{})
		}
		r := patient("a")
		r.JitterSeed = 1e-9
		for range 128 {
			refuse(t, p, r, permits.Busy)
		}
		if after := refuse(t, p, r, permits.Busy).RetryAfter; after < 6*time.Second || after > 10*time.Second {
			t.Errorf("behind 128 told to come back in %v, want about 8s", after)
		}
		for _, permit := range held {
			permit.Release()
		}
	})
}

// A backlog that takes nearly as long as anybody is told to stay away.
func TestObedientClientsAreAdmittedAtTheBound(t *testing.T) {
	c := permits.Config{Limit: 64, PerAccount: 64, Bytes: 1, MaxWait: 5 * time.Second}
	b := burst{config: c, slots: 16, accounts: 5, known: true, hold: 500 * time.Millisecond}
	for _, b.backlog = range []time.Duration{26 * time.Second, 30 * time.Second, 32 * time.Second} {
		b.want(t)
	}
}

// Who has been due is forgotten also by a pool that cannot serve anybody, and only then.
func TestRetryAfterForgetsWithoutSlots(t *testing.T) {
	c := config()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(1, 1)...)
		p.SetUsable("e0", false)
		for range 100 {
			refuse(t, p, patient("a"), permits.NoEndpoint)
		}
		time.Sleep(33*time.Second + 500*time.Millisecond)
		refuse(t, p, patient("a"), permits.NoEndpoint)
		if told := p.DetailedStats(0).PendingRetries; told != 1 {
			t.Errorf("%d are to come back, want 1: the others were due long ago", told)
		}
		check(t, p)
		time.Sleep(5 * time.Second)
		if told := p.DetailedStats(0).PendingRetries; told != 0 {
			t.Errorf("%d are to come back, want none", told)
		}
	})
}

// Who is refused by three pools comes back to one of them, and each reckons with a third of it.
func TestRetryAfterOfSeveralPools(t *testing.T) {
	c := config()
	c.MaxWait = 0
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(1, 1)...)
		warm(t, p, time.Second, 16)
		defer take(t, p, permits.Request{}).Release()
		r := patient("a")
		r.ReturnProbability = 1. / 3
		for told := range 60 {
			after, computed := refuse(t, p, r, permits.Busy).RetryAfter.Seconds(), max(float64(told)/3, 1)
			if after < computed-0.1 || after > 1.25*(computed+0.1) {
				t.Errorf("number %d is told to come back in %v s, want %v s to %v s", told, after, computed, 1.25*computed)
			}
		}
		if told := p.DetailedStats(0).PendingRetries; told != 20 {
			t.Errorf("%d are to come back, want 20", told)
		}
		check(t, p)
		time.Sleep(33 * time.Second)
		if told := p.DetailedStats(0).PendingRetries; told != 0 {
			t.Errorf("%d are to come back, want none", told)
		}
	})
}

// A caller that waits only for a short time asks again without that bound before its client is told anything; but not
// where there was no room.
func TestRetryAfterOfACallerWhoTriesElsewhere(t *testing.T) {
	c := config()
	c.PerAccount = 0
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(1, 1)...)
		warm(t, p, time.Second, 16)
		defer take(t, p, permits.Request{}).Release()
		r := patient("a")
		r.MaxExpected = 100 * time.Millisecond
		refuse(t, p, r, permits.Busy)
		if told := p.DetailedStats(0).PendingRetries; told != 0 {
			t.Errorf("%d are to come back, want none", told)
		}
		r.MaxExpected = time.Minute
		refuse(t, p, r, permits.AccountQueueFull)
		if told := p.DetailedStats(0).PendingRetries; told != 1 {
			t.Errorf("%d are to come back, want 1", told)
		}
	})
}
