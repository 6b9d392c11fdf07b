package simengine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestBatchIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batch{slots: 2}
		var order []int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 6 {
			s := b.arrive(nil)
			all.Go(func() {
				if err := s.wait(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Second + time.Duration(i)*time.Millisecond)
				s.leave(outcomeServed)
				s.leave(outcomeAborted) // has no effect
			})
			synctest.Wait()
		}
		all.Wait()
		for i, got := range order {
			if got != i {
				t.Fatalf("served in the order %v", order)
			}
		}
		var st Stats
		b.fill(&st)
		if st != (Stats{Peak: 6, Served: 6}) {
			t.Errorf("stats %+v, want peak 6, served 6, no request left", st)
		}
	})
}

func TestBatchWaiterLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails at once if the third would wait forever
		b := &batch{slots: 1}
		first, second, third := b.arrive(nil), b.arrive(nil), b.arrive(nil)
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		if err := second.wait(ctx); !errors.Is(err, gone) {
			t.Errorf("waiting ended with %v, want the cause", err)
		}
		second.leave(outcomeAborted)
		first.leave(outcomeServed)
		if err := third.wait(t.Context()); err != nil {
			t.Errorf("the third did not get the slot: %v", err)
		}
		var st Stats
		b.fill(&st)
		if st.Running != 1 || st.Waiting != 0 || st.Aborted != 1 || st.Peak != 3 {
			t.Errorf("stats %+v", st)
		}
		b.resetPeak()
		if b.fill(&st); st.Peak != 1 {
			t.Errorf("peak %d after it was reset, want 1", st.Peak)
		}
	})
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Config{TTFT: 50 * time.Millisecond, ITL: 10 * time.Millisecond})
		f := func(fault string, n int, want time.Duration) {
			t.Helper()
			c := e.newClock(fault)
			defer c.stop()
			for i := range n {
				if err := c.until(t.Context(), i+1); err != nil {
					t.Fatal(err)
				}
			}
			if got := time.Since(c.start); got != want {
				t.Errorf("%q: token %d after %v, want %v", fault, n, got, want)
			}
		}
		f("", 1, 50*time.Millisecond)
		f("", 64, 680*time.Millisecond)
		f(FaultSlow, 3, 250*time.Millisecond)
		f(FaultBigAnswer, 64, 50*time.Millisecond)
	})
}

// Finish ends the waiting of the requests that have a slot, and of no other.
func TestFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Config{TTFT: 50 * time.Millisecond, ITL: 10 * time.Millisecond})
		time.AfterFunc(100*time.Millisecond, e.Finish)
		for _, want := range []time.Duration{100 * time.Millisecond, 680 * time.Millisecond} {
			c := e.newClock("")
			for i := range 64 {
				if err := c.until(t.Context(), i+1); err != nil {
					t.Fatal(err)
				}
			}
			if got := time.Since(c.start); got != want {
				t.Errorf("64 tokens after %v, want %v", got, want)
			}
			c.stop()
		}
	})
}

// Beyond the knee, everything takes longer, from the next token on.
func TestClockBeyondTheKnee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Config{TTFT: 50 * time.Millisecond, ITL: 10 * time.Millisecond, Slots: 100, Knee: 2})
		e.batch.arrive(nil)
		e.batch.arrive(nil)
		var running []*ticket
		c := e.newClock("")
		defer c.stop()
		f := func(n int, want time.Duration) {
			t.Helper()
			if err := c.until(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(c.start); got != want {
				t.Errorf("token %d after %v, want %v", n, got, want)
			}
		}
		f(1, 50*time.Millisecond)
		f(6, 100*time.Millisecond)
		for range 4 {
			running = append(running, e.batch.arrive(nil))
		}
		f(8, 160*time.Millisecond)
		for _, s := range running {
			s.leave(outcomeServed)
		}
		f(10, 180*time.Millisecond)
		// The slowdown counts also while no clock is read: an unstreamed answer is waited for once.
		time.AfterFunc(15*time.Millisecond, func() {
			for range 2 {
				e.batch.arrive(nil)
			}
		})
		f(20, 200*time.Millisecond+8*20*time.Millisecond)
		if due := c.due(20); !due.Equal(c.due(20)) || time.Until(due) != 0 {
			t.Errorf("asked again, token 20 is due in %v", time.Until(due))
		}
	})
}
