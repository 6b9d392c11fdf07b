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

// burst is many clients that come to a pool at about the same time. A client that is refused comes back once, after
// Retry-After.
type burst struct {
	config   permits.Config
	slots    int
	accounts int
	hold     time.Duration // of a permit, on the mean
	uneven   bool          // exponentially distributed; else all alike
	backlog  time.Duration // that the slots need for all clients
	known    bool          // the pool has served many requests before; else none
}

// play returns how many clients were refused, and how many of these were admitted when they came back.
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
				permit, err := acquire(p, context.Background(), r)
				var refusal *permits.Refusal
				if errors.As(err, &refusal) {
					first.Add(1)
					time.Sleep(refusal.RetryAfter)
					if permit, err = acquire(p, context.Background(), r); err == nil {
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

// want expects that of ten refused clients so many are admitted when they come back.
func (b *burst) want(t *testing.T, ofTen int64) (refused int64) {
	t.Helper()
	refused, admitted := b.play(t)
	t.Logf("%+v: %d refused, %d of them admitted when they came back", *b, refused, admitted)
	if 10*admitted < ofTen*refused {
		t.Errorf("%+v: %d refused, %d of them admitted when they came back, want %d of ten", *b, refused, admitted, ofTen)
	}
	return refused
}

// Of a burst beyond what the pool and its queue can take, clients that come back after Retry-After find room.
func TestObedientClientsAreAdmitted(t *testing.T) {
	c := config()
	c.MaxWait = 5 * time.Second
	b := burst{config: c, slots: 16, accounts: 5, known: true, hold: 500 * time.Millisecond, backlog: 18750 * time.Millisecond}
	if refused := b.want(t, 9); refused < 200 {
		t.Errorf("%d refused, want at least 200 of 600", refused)
	}
}

// That holds for a pool without a history too, whether permits are held for as long as its queue's bounds say, half as long,
// or twice as long.
func TestObedientClientsAreAdmittedByANewPool(t *testing.T) {
	narrow := permits.Config{Limit: 24, PerAccount: 12, Bytes: 1, MaxWait: 3 * time.Second}
	wide := permits.Config{Limit: 256, PerAccount: 64, Bytes: 1, MaxWait: 10 * time.Second}
	f := func(c permits.Config, slots int, times float64, uneven bool, backlog time.Duration) {
		t.Helper()
		configured := float64(slots) * float64(c.MaxWait) / float64(c.Limit)
		for _, accounts := range []int{1, 5} {
			b := burst{config: c, slots: slots, accounts: accounts, uneven: uneven, backlog: backlog,
				hold: time.Duration(times * configured)}
			b.want(t, 8)
		}
	}
	for _, uneven := range []bool{false, true} {
		for _, times := range []float64{0.5, 1, 2} {
			f(narrow, 16, times, uneven, 6*time.Second)
			f(narrow, 16, times, uneven, 30*time.Second)
			f(wide, 16, times, uneven, 30*time.Second)
		}
	}
	f(wide, 128, 1, true, 30*time.Second) // of so many slots the first are released long before the others
}

// A backlog that takes nearly as long as the longest Retry-After.
func TestObedientClientsAreAdmittedAtTheBound(t *testing.T) {
	c := permits.Config{Limit: 64, PerAccount: 64, Bytes: 1, MaxWait: 5 * time.Second}
	b := burst{config: c, slots: 16, accounts: 5, known: true, hold: 500 * time.Millisecond}
	for _, b.backlog = range []time.Duration{26 * time.Second, 30 * time.Second, 32 * time.Second} {
		b.want(t, 8)
	}
}
