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
			s := b.arrive()
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
			t.Errorf("stats %+v, want peak 6, served 6, nobody left", st)
		}
	})
}

func TestBatchWaiterLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails at once if the third waits for ever
		b := &batch{slots: 1}
		first, second, third := b.arrive(), b.arrive(), b.arrive()
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
