package permits_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

// arrivals sends so many requests of an account a second for a minute, each of which holds its slot for 100 ms. The result
// waits for them and returns how many were served and how long they waited.
func arrivals(p *permits.Pool, account string, perSecond float64) func() (served int, waits []time.Duration) {
	results := make(chan time.Duration, 1<<20)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r := rand.New(rand.NewPCG(8, uint64(len(account))))
		for began := time.Now(); time.Since(began) < time.Minute; {
			time.Sleep(time.Duration(r.ExpFloat64() / perSecond * float64(time.Second)))
			go func() {
				permit, err := acquire(p, context.Background(), patient(account))
				if err != nil {
					return
				}
				results <- permit.Queued()
				time.Sleep(100 * time.Millisecond)
				permit.Release()
			}()
		}
		time.Sleep(time.Minute)
	}()
	return func() (served int, waits []time.Duration) {
		<-ended
		synctest.Wait()
		close(results)
		for wait := range results {
			waits = append(waits, wait)
		}
		slices.Sort(waits)
		return len(waits), waits
	}
}

// An account within its share gets all that it asks for beside another that sends a hundred times as much, and waits hardly
// longer than for the next slot that is released.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config(), fleet(2, 2)...) // 40 a second
		flooder, other := arrivals(p, "flooder", 500), arrivals(p, "other", 5)
		served, waits := other()
		flooded, _ := flooder()
		if served < 5*60*9/10 {
			t.Errorf("%d served of about 300", served)
		}
		if p99 := waits[len(waits)*99/100]; p99 > 200*time.Millisecond {
			t.Errorf("the 99th percentile of its waits is %v; slots come free every 100ms", p99)
		}
		if total := served + flooded; total < 40*60*9/10 {
			t.Errorf("%d served in all, the pool can do 2400", total)
		}
	})
}

// At four times its capacity the pool stays busy, and refuses requests rather than serve them late.
func TestOverload(t *testing.T) {
	c := config()
	c.MaxWait = time.Second
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(2, 2)...)
		served, waits := arrivals(p, "a", 160)()
		if served < 40*60*9/10 {
			t.Errorf("%d served, the pool can do 2400", served)
		}
		if longest := waits[len(waits)-1]; longest >= time.Second {
			t.Errorf("one was served after %v", longest)
		}
		s := p.Stats()
		if s.Refused[permits.QueueTimeout]+s.Refused[permits.AccountQueueFull] < 6000 {
			t.Errorf("refused %v", s.Refused)
		}
	})
}
