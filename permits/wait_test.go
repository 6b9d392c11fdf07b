package permits_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

// scene is a pool whose slots are taken, in a bubble of synthetic time.
type scene struct {
	*testing.T
	pool *permits.Pool
	held []permits.Permit
	log  chan string // names of the requests that were granted a permit, in order
}

// play runs f on a scene, and expects that no request is left waiting.
func play(t *testing.T, c permits.Config, es []permits.Endpoint, f func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, pool: newPool(t, c, es...), log: make(chan string, 10_000)}
		s.held, _ = takeAll(t, s.pool, permits.Request{Account: "holder", Band: permits.Standard})
		f(s)
		synctest.Wait()
		if load := s.pool.Load(); load.Queued != 0 {
			t.Errorf("%d are left waiting", load.Queued)
		}
	})
}

// ask starts a request, logs its name when it is granted a permit, and holds that for a second.
func (s *scene) ask(name string, r permits.Request) <-chan error {
	done := make(chan error, 1)
	go func() {
		permit, err := acquire(s.pool, s.Context(), r)
		if err == nil {
			s.log <- name
			time.Sleep(time.Second)
			permit.Release()
		}
		done <- err
	}()
	synctest.Wait()
	return done
}

// release releases the permits of the beginning.
func (s *scene) release() {
	for _, permit := range s.held {
		permit.Release()
	}
	s.held = nil
}

// granted returns the names that were logged since the last call.
func (s *scene) granted() (names []string) {
	synctest.Wait()
	for {
		select {
		case name := <-s.log:
			names = append(names, name)
		default:
			return names
		}
	}
}

func (s *scene) wantGranted(want ...string) {
	s.Helper()
	if got := s.granted(); !slices.Equal(got, want) {
		s.Errorf("granted %q, want %q", got, want)
	}
	check(s.T, s.pool)
}

func TestOrderOfGrants(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		for i := range 3 {
			s.ask(fmt.Sprint("flooder", i), patient("flooder"))
		}
		s.ask("other", patient("other"))
		batch := patient("batch")
		batch.Band = permits.Batch
		s.ask("batch", batch)
		now := patient("now")
		now.Band = permits.Interactive
		s.ask("now", now)
		s.release()
		time.Sleep(10 * time.Second)
		s.wantGranted("now", "flooder0", "other", "flooder1", "flooder2", "batch")
	})
}

func TestFIFO(t *testing.T) {
	c := config()
	c.Discipline = permits.FIFO
	play(t, c, fleet(1, 1), func(s *scene) {
		for i, account := range []string{"a", "a", "b", "a"} {
			s.ask(fmt.Sprint(account, i), patient(account))
		}
		s.release()
		time.Sleep(10 * time.Second)
		s.wantGranted("a0", "a1", "b2", "a3")
	})
}

// A newcomer does not get a slot that was just freed while another request waits for it.
func TestNewcomerDoesNotOvertake(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		s.ask("waiter", patient("a"))
		s.release()
		refuse(t, s.pool, permits.Request{Account: "b"}, permits.Busy) // though the waiter has not run yet
		s.wantGranted("waiter")
		time.Sleep(time.Second)
	})
}

func TestQueueTimeout(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		began := time.Now()
		pools, own := s.ask("pool's", patient("a")), patient("a")
		own.MaxWait = 3 * time.Second
		wantRefusal(t, <-s.ask("own", own), permits.QueueTimeout)
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("waited %v, want its own 3s", waited)
		}
		wantRefusal(t, <-pools, permits.QueueTimeout)
		if waited := time.Since(began); waited != 10*time.Second {
			t.Errorf("waited %v, want the pool's 10s", waited)
		}
		s.release()
		s.wantGranted()
	})
}

func TestDeadlineWhileWaiting(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		began, r := time.Now(), patient("a")
		r.Deadline = began.Add(2 * time.Second)
		wantRefusal(t, <-s.ask("late", r), permits.Deadline)
		if waited := time.Since(began); waited != 2*time.Second {
			t.Errorf("waited %v, want 2s", waited)
		}
		s.release()
	})
}

// At its deadline a request is late, whichever timer fires first.
func TestNothingIsGrantedAtItsDeadline(t *testing.T) {
	for range 50 {
		play(t, config(), fleet(1, 1), func(s *scene) {
			r := patient("a")
			r.Deadline = time.Now().Add(2 * time.Second)
			time.AfterFunc(2*time.Second, s.release)
			wantRefusal(t, <-s.ask("late", r), permits.Deadline)
			s.wantGranted()
		})
	}
}

func TestClientLeaves(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(s.Context())
		done := start(ctx, s.pool, patient("a"))
		s.ask("next", patient("a"))
		cancel(gone)
		if r := <-done; r.err != gone {
			t.Errorf("got %v, want the cause", r.err)
		}
		if n := s.pool.Load().Queued; n != 1 {
			t.Errorf("%d wait, want 1", n)
		}
		s.release()
		s.wantGranted("next")
		time.Sleep(time.Second)
	})
}

// A request whose client has left is not granted a slot, also before it has left the queue.
func TestGoneIsNotGranted(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		ctx, cancel := context.WithCancel(s.Context())
		done := start(ctx, s.pool, patient("a"))
		synctest.Wait()
		before := s.pool.Stats().Granted
		cancel()
		s.release()
		if r := <-done; r.err != context.Canceled {
			t.Errorf("got %v", r.err)
		}
		if n := s.pool.Stats().Granted; n != before {
			t.Errorf("%d granted to a client that had left", n-before)
		}
	})
}

// lateCancel is a context that ends just after the slot was handed over: Acquire calls Err once in the beginning, and the
// pool once at the grant.
type lateCancel struct {
	context.Context
	calls atomic.Int32
}

func (c *lateCancel) Err() error {
	if c.calls.Add(1) > 2 {
		return context.Canceled
	}
	return nil
}

// A request that was granted a slot after its client has left passes it on to the next, is not charged, and says nothing of
// how long permits are held.
func TestGoneJustAfterTheGrant(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		time.Sleep(time.Second)
		s.release()
		warm(t, s.pool, time.Second, 63)
		s.ask("first", patient("b"))
		done := start(&lateCancel{Context: s.Context()}, s.pool, patient("a"))
		s.ask("next", patient("b"))
		s.ask("a", patient("a"))
		time.Sleep(time.Second)
		if r := <-done; r.err == nil {
			t.Error("granted to a client that had left")
		}
		if rate := s.pool.Stats().RatePerSecond; math.Abs(rate-1) > 1e-6 {
			t.Errorf("rate %v, want 1 a second", rate)
		}
		time.Sleep(3 * time.Second)
		s.wantGranted("first", "a", "next") // as if the first request of a had not existed
	})
}

// Of a thousand requests that wait for four slots, the half whose clients leave is gone at once and never dispatched.
func TestHalfOfAThousandWaitersLeave(t *testing.T) {
	c := config()
	c.Limit, c.PerAccount, c.MaxWait = 1000, 1000, time.Hour
	play(t, c, fleet(2, 2), func(s *scene) {
		leaving, leave := context.WithCancel(s.Context())
		var left []<-chan result
		var stayed []<-chan error
		for i := range 1000 {
			if i%2 == 0 {
				left = append(left, start(leaving, s.pool, patient(fmt.Sprint(i%7))))
			} else {
				stayed = append(stayed, s.ask("stayed", patient(fmt.Sprint(i%7))))
			}
		}
		synctest.Wait()
		if n := s.pool.Load().Queued; n != 1000 {
			t.Fatalf("%d wait, want 1000", n)
		}
		began := time.Now()
		leave()
		for _, done := range left {
			if r := <-done; r.err != context.Canceled {
				t.Fatalf("one that left: %v", r.err)
			}
		}
		if n := s.pool.Load().Queued; n != 500 || time.Since(began) != 0 {
			t.Errorf("%d wait, want 500; after %v", n, time.Since(began))
		}
		s.release()
		for _, done := range stayed {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := len(s.granted()); n != 500 {
			t.Errorf("%d granted, want 500", n)
		}
		if n := s.pool.Stats().Granted; n != 504 {
			t.Errorf("%d granted in all, want 504", n)
		}
	})
}

func TestDrain(t *testing.T) {
	play(t, config(), fleet(1, 2), func(s *scene) {
		a, b := s.ask("a", patient("a")), s.ask("b", patient("b"))
		s.pool.Drain()
		wantRefusal(t, <-a, permits.Draining)
		wantRefusal(t, <-b, permits.Draining)
		if load := s.pool.Load(); load.Held != 2 || load.Queued != 0 {
			t.Errorf("after Drain %+v, want both permits still held", load)
		}
		s.release()
		s.pool.SetEndpoints(fleet(3, 3))
		refuse(t, s.pool, permits.Request{}, permits.Draining)
		if s := s.pool.Stats(); !s.Draining {
			t.Error("the snapshot does not say so")
		}
		s.wantGranted()
	})
}

// While the queue of a pool is closed, free slots are still granted to newcomers.
func TestCloseQueue(t *testing.T) {
	play(t, config(), fleet(1, 2), func(s *scene) {
		a := s.ask("a", patient("a"))
		s.pool.CloseQueue()
		wantRefusal(t, <-a, permits.Draining)
		refuse(t, s.pool, patient("b"), permits.Draining)
		again := patient("b")
		again.Rejoin = true
		refuse(t, s.pool, again, permits.Draining)
		s.release()
		first, second := take(t, s.pool, patient("c")), take(t, s.pool, again)
		refuse(t, s.pool, patient("d"), permits.Draining)
		if s := s.pool.Stats(); s.Draining {
			t.Error("the snapshot has it drain already")
		}
		s.pool.Drain()
		first.Release()
		second.Release()
		refuse(t, s.pool, patient("e"), permits.Draining)
		s.wantGranted()
	})
}

// A full queue makes room for another account by refusing the newest request of a flooder, at once.
func TestFullQueueEvictsTheFlooder(t *testing.T) {
	c := config()
	c.Limit = 3
	play(t, c, fleet(1, 1), func(s *scene) {
		s.ask("first", patient("flooder"))
		s.ask("second", patient("flooder"))
		third := s.ask("third", patient("flooder"))
		s.ask("other", patient("other"))
		wantRefusal(t, <-third, permits.QueueFull)
		if n := s.pool.Load().Queued; n != 3 {
			t.Errorf("%d queued, want the others", n)
		}
		s.release()
		time.Sleep(5 * time.Second)
		s.wantGranted("first", "other", "second")
	})
}

func TestRejoinIsAhead(t *testing.T) {
	c := config()
	c.Limit = 2
	play(t, c, fleet(2, 1), func(s *scene) {
		arrived := time.Now()
		time.Sleep(time.Second)
		s.ask("second", patient("a"))
		s.ask("third", patient("a"))
		again := patient("a")
		again.Arrived, again.Rejoin, again.Avoid = arrived, true, []string{"e1"}
		s.ask("first", again) // though the queue is full
		s.pool.Load()
		s.held[1].Release() // of e1, which the first avoids
		s.wantGranted("second")
		s.held[0].Release()
		s.wantGranted("first")
		time.Sleep(5 * time.Second)
		s.wantGranted("third")
	})
}

func TestConcurrentCap(t *testing.T) {
	play(t, config(), fleet(1, 3), func(s *scene) {
		capped := patient("capped")
		capped.Concurrent = 1
		for i := range 3 {
			s.ask(fmt.Sprint("capped", i), capped)
		}
		s.release()
		s.wantGranted("capped0")
		take(t, s.pool, permits.Request{Account: "other"}).Release() // the slots beside are for others
		time.Sleep(time.Second)
		s.wantGranted("capped1")
		s.ask("capped3", capped)
		time.Sleep(5 * time.Second)
		s.wantGranted("capped2", "capped3")
	})
}

// When a request brings a higher cap, the requests of its account that waited go first.
func TestCapRaised(t *testing.T) {
	play(t, config(), fleet(1, 3), func(s *scene) {
		capped := patient("a")
		capped.Concurrent = 1
		s.ask("first", capped)
		s.ask("second", capped)
		s.release()
		s.wantGranted("first")
		capped.Concurrent = 2
		s.ask("third", capped)
		s.wantGranted("second")
		time.Sleep(5 * time.Second)
		s.wantGranted("third")
	})
}

func TestMaxShare(t *testing.T) {
	c := config()
	c.MaxShare = 0.5
	play(t, c, fleet(2, 2), func(s *scene) {
		if len(s.held) != 2 {
			t.Fatalf("one account holds %d of 4 slots, want 2", len(s.held))
		}
		s.ask("waits", patient("holder"))
		s.wantGranted()
		s.pool.SetEndpoints(fleet(3, 2)) // of 6 slots it may hold 3
		s.wantGranted("waits")
		time.Sleep(time.Second)
		s.release()
	})
}

// The use that is reported counts: the account waits until the others have had as much.
func TestReleaseUsed(t *testing.T) {
	c := config()
	c.Cost = permits.ByTokens
	play(t, c, fleet(1, 1), func(s *scene) {
		s.ask("b0", patient("b")) // the pool is never idle
		for i := range 3 {
			s.ask(fmt.Sprint("holder", i), patient("holder"))
			s.ask(fmt.Sprint("b", i+1), patient("b"))
		}
		s.held[0].ReleaseUsed(permits.Used{Input: 1, Output: 3})
		s.held = nil
		time.Sleep(20 * time.Second)
		s.wantGranted("b0", "b1", "b2", "b3", "holder0", "holder1", "holder2")
	})
}
