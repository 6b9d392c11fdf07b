package permits_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/internal/testkit"
	"colonnade/permits"
)

// fencedPool returns a pool and its fence.
func fencedPool(t *testing.T, es ...permits.Endpoint) (*permits.Pool, *permits.Fence) {
	c := config()
	c.Fence = permits.NewFence()
	return newPool(t, c, es...), c.Fence
}

// After the fence, neither newcomers nor waiters are granted a slot, whatever is freed; all are served when the fence is
// moved, in order of arrival.
func TestNothingIsGrantedAfterTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, fence := fencedPool(t, fleet(1, 2)...)
		first, second := take(t, p, patient("a")), take(t, p, patient("a"))
		waiting := start(t.Context(), p, patient("b"))
		synctest.Wait()
		fence.Set(time.Now().Add(time.Second))
		time.Sleep(time.Second)

		first.Release()
		second.Release()
		p.MarkFull("e0", time.Now().Add(time.Second))
		time.Sleep(2 * time.Second) // its end hands slots over, too
		p.SetEndpoints(fleet(3, 2))
		p.Configure(func() permits.Config { c := config(); c.Fence = fence; return c }())
		newcomer := start(t.Context(), p, patient("c"))
		synctest.Wait()
		if l := p.Load(); l.Held != 0 || l.Queued != 2 || l.Free != 0 || l.Limit != 6 {
			t.Errorf("after the fence: %+v", l)
		}
		refuse(t, p, permits.Request{Account: "d", MaxExpected: -1}, permits.Busy)
		check(t, p)

		fence.Set(time.Now().Add(time.Second))
		p.Dispatch()
		for _, done := range []<-chan result{waiting, newcomer} {
			r := <-done
			if r.err != nil {
				t.Fatal(r.err)
			}
			if r.permit.Queued() < 2*time.Second && done == waiting {
				t.Errorf("waited %v", r.permit.Queued())
			}
			r.permit.Release()
		}
		take(t, p, patient("d")).Release()
	})
}

// A caller gives the time for its own permit. Slots that are handed over to waiters are granted by the pool's own clock, so by no time
// from before the fence.
func TestTimeOfACallerServesNoWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, fence := fencedPool(t, fleet(1, 2)...)
		time.Sleep(time.Second)
		fence.Set(time.Now().Add(time.Second))
		ended := time.Now()
		first, second := take(t, p, patient("a")), take(t, p, patient("b"))
		raised := patient("a")
		raised.Concurrent = 1
		waiting := []<-chan result{start(t.Context(), p, patient("c")), start(t.Context(), p, raised)}
		synctest.Wait()
		time.Sleep(2 * time.Second) // the process was stopped
		first.EndedAt(ended)
		first.Release()
		raised.Concurrent, raised.Now, raised.MaxWait = 2, ended, 0
		if granted, err := acquire(p, t.Context(), raised); err == nil { // by its own time, which its caller has to check once more
			granted.Cancel()
		}
		second.EndedAt(ended)
		second.Release()
		synctest.Wait()
		if l := p.Load(); l.Held != 0 || l.Queued != 2 {
			t.Errorf("after the fence: %+v", l)
		}
		fence.Set(time.Now().Add(time.Second))
		p.Dispatch()
		for _, done := range waiting {
			r := <-done
			if r.err != nil {
				t.Fatal(r.err)
			}
			r.permit.Release()
		}
	})
}

// Times that callers give count as those that a pool reads.
func TestTimesOfACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config(), fleet(1, 1)...)
		for range 32 {
			r := patient("a")
			r.Now = time.Now()
			permit := take(t, p, r)
			time.Sleep(100 * time.Millisecond)
			permit.EndedAt(time.Now())
			permit.Release()
		}
		stats := p.DetailedStats(0)
		if held := stats.MeanHeldMillis; held == nil || *held != 100 {
			t.Errorf("mean of the time held: %v", held)
		}
		r := patient("a")
		r.Now, r.MaxWait = time.Now(), 3*time.Second
		permit, began := take(t, p, r), time.Now()
		if refuse(t, p, r, permits.QueueTimeout); time.Since(began) != 3*time.Second {
			t.Errorf("waited for %v", time.Since(began))
		}
		permit.Release()
	})
}

// A fence passes at its moment, also for a pool that was made at another time.
func TestFenceOlderThanThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.Fence = permits.NewFence()
		time.Sleep(5 * time.Second)
		p := newPool(t, c, fleet(1, 1)...)
		c.Fence.Set(time.Now().Add(time.Second))
		take(t, p, patient("a")).Release()
		time.Sleep(time.Second)
		refuse(t, p, permits.Request{Account: "a", MaxExpected: -1}, permits.Busy)
	})
}

// The queue is bounded after the fence too, in requests and in time.
func TestQueueIsBoundedAfterTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.Limit, c.Fence = 1, permits.NewFence()
		p := newPool(t, c, fleet(1, 8)...)
		c.Fence.Set(time.Time{})
		waiting := start(t.Context(), p, patient("a"))
		synctest.Wait()
		refuse(t, p, patient("a"), permits.QueueFull)
		began := time.Now()
		wantRefusal(t, (<-waiting).err, permits.QueueTimeout)
		if took := time.Since(began); took != c.MaxWait {
			t.Errorf("waited for %v", took)
		}
	})
}

// A newcomer that arrives when the fence has just been moved does not overtake those that waited for that.
func TestNewcomerAfterTheFenceWasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, fence := fencedPool(t, fleet(1, 1)...)
		fence.Set(time.Time{})
		waiting := start(t.Context(), p, patient("a"))
		synctest.Wait()
		fence.Set(time.Now().Add(time.Hour))
		newcomer := start(t.Context(), p, patient("b")) // before Dispatch
		synctest.Wait()
		select {
		case r := <-waiting:
			r.permit.Release()
		case r := <-newcomer:
			t.Error("the newcomer was first")
			r.permit.Release()
		}
		(<-newcomer).permit.Release()
	})
}

// A permit that was not used says nothing of how long permits are held.
func TestCancelledPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := fencedPool(t, fleet(1, 1)...)
		for range 100 {
			permit := take(t, p, patient("a"))
			time.Sleep(time.Second)
			permit.Cancel()
		}
		if s := p.Stats(); s.RatePerSecond != 0 || s.Held != 0 || s.Released != 100 {
			t.Errorf("%+v", s)
		}
	})
}

// Under many requests, no slot is granted after the fence, and every request is served once it is moved.
func TestFenceUnderLoad(t *testing.T) {
	p, fence := fencedPool(t, fleet(2, 3)...)
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 8 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				permit, err := acquire(p, context.Background(), patient("a"))
				if err != nil {
					t.Error(err)
					return
				}
				permit.Release()
			}
		})
	}
	for range testkit.AtScale(200, 20_000) {
		fence.Set(time.Time{})
		before := p.Stats()
		time.Sleep(100 * time.Microsecond)
		if after := p.Stats(); after.Granted != before.Granted {
			t.Fatalf("%d were granted after the fence", after.Granted-before.Granted)
		}
		fence.Set(time.Now().Add(time.Hour))
		p.Dispatch()
		for granted := p.Stats().Granted; p.Stats().Granted == granted; {
			time.Sleep(10 * time.Microsecond)
		}
	}
	close(stop)
	all.Wait()
}
