package admission_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/admission"
	"colonnade/fleet"
)

// An engine that moves between two pools again and again, under requests to both, never has more in flight than its
// concurrency.
func TestEndpointMovesUnderLoad(t *testing.T) {
	const slots, moves = 3, 2000
	s := newScenario(t)
	tables := []*fleet.Table{
		s.table("key: pools/a\n---\nkey: pools/b\n---\n" + endpoints("a", slots, "one")),
		s.table(endpoints("b", slots, "one")),
	}
	s.Apply(tables[0])
	ctx, cancel := context.WithCancel(context.Background())
	var inFlight, served, over atomic.Int64
	var clients sync.WaitGroup
	for n := range 12 {
		p := s.pool([]string{"a", "b"}[n%2])
		clients.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(50 * time.Microsecond) {
				g, err := acquire(p, ctx, waiting(time.Second))
				if err != nil {
					continue
				}
				if inFlight.Add(1) > slots {
					over.Add(1)
				}
				time.Sleep(rand.N(200 * time.Microsecond))
				served.Add(1)
				inFlight.Add(-1)
				g.Release()
			}
		})
	}
	for n := range moves {
		s.Apply(tables[n%2])
		time.Sleep(rand.N(300 * time.Microsecond))
	}
	cancel()
	clients.Wait()
	if over.Load() > 0 || served.Load() == 0 {
		t.Errorf("of %d requests %d made the engine have more than %d in flight", served.Load(), over.Load(), slots)
	}
}

// A request to a pool whose only engine is still full with another pool's requests waits for them to end.
func TestRequestWaitsForWhatAnotherPoolHolds(t *testing.T) {
	play(t, func(s *scenario) {
		s.put("key: pools/b\n---\n" + endpoints("a", 1, "one"))
		g := s.take("a")
		s.put(endpoints("b", 1, "one"))
		b := s.pool("b")
		if _, err := tryTake(b); err == nil {
			t.Fatal("the slot is granted twice")
		}
		time.AfterFunc(time.Second, g.Release)
		waited, err := acquire(b, context.Background(), waiting(5*time.Second))
		if err != nil || waited.Queued() < time.Second {
			t.Fatalf("%v after %v, want a permit after a second", err, waited.Queued())
		}
		waited.Release()
	})
}

// A pool whose only engine is replaced by another keeps its waiters.
func TestWaitersOutliveTheirEndpoint(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one"))
		a, g := s.pool("a"), s.take("a")
		waited := make(chan error)
		go func() {
			g, err := acquire(a, context.Background(), waiting(time.Minute))
			if err == nil {
				g.Release()
			}
			waited <- err
		}()
		synctest.Wait()
		s.documents.Delete("endpoints/ams/one", 2)
		s.put(endpoints("a", 1, "two"))
		if err := <-waited; err != nil {
			t.Errorf("the waiter got %v", err)
		}
		g.Release()
	})
}

// Slots that another pool still holds on an engine count in full, also when the limit was lowered below them and is raised
// again before they are released.
func TestLimitRaisedWhileAnotherPoolHolds(t *testing.T) {
	play(t, func(s *scenario) {
		s.put("key: pools/b\n---\n" + endpoints("a", 4, "one"))
		held := []admission.Grant{s.take("a"), s.take("a"), s.take("a")}
		s.put(endpoints("b", 2, "one"))
		b := s.pool("b")
		var granted atomic.Int64
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				if g, err := acquire(b, context.Background(), waiting(time.Minute)); err == nil {
					granted.Add(1)
					time.Sleep(time.Second)
					g.Release()
				}
			})
		}
		synctest.Wait()
		s.put(endpoints("b", 8, "one"))
		synctest.Wait()
		if n := granted.Load(); n != 5 {
			t.Errorf("with 3 of 8 slots held in the other pool, %d were granted here, want 5", n)
		}
		for _, g := range held {
			g.Release()
		}
		clients.Wait()
	})
}
