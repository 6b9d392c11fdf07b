package admission

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/fleet"
	"colonnade/permits"
)

// An engine that goes from pool to pool and back, under requests to both, never has more in hand than its concurrency.
func TestMovesUnderLoad(t *testing.T) {
	const slots, moves = 3, 2000
	docs := newDocuments(t)
	d := runManager(t, &probes{})
	tables := []*fleet.Table{
		docs.table("key: pools/a\n---\nkey: pools/b\n---\n" + endpoints("a", slots, "one")),
		docs.table(endpoints("b", slots, "one")),
	}
	d.Apply(tables[0])
	ctx, cancel := context.WithCancel(context.Background())
	var inHand, served, over atomic.Int64
	var clients sync.WaitGroup
	for n := range 12 {
		p := mustPool(t, d, []string{"a", "b"}[n%2])
		clients.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(50 * time.Microsecond) {
				g, err := p.Acquire(ctx, permits.Request{Account: "acme", MaxExpected: -1, MaxWait: time.Second})
				if err != nil {
					continue
				}
				if inHand.Add(1) > slots {
					over.Add(1)
				}
				time.Sleep(rand.N(200 * time.Microsecond))
				served.Add(1)
				inHand.Add(-1)
				g.Release()
			}
		})
	}
	for n := range moves {
		d.Apply(tables[n%2])
		time.Sleep(rand.N(300 * time.Microsecond))
	}
	cancel()
	clients.Wait()
	if over.Load() > 0 || served.Load() == 0 {
		t.Errorf("of %d requests %d made the engine have more than %d in hand", served.Load(), over.Load(), slots)
	}
	if err := d.Check(); err != nil {
		t.Error(err)
	}
}

// A request to a pool whose only engine is still full with another pool's requests waits for them to end.
func TestRequestWaitsForWhatAnotherPoolHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		d := runManager(t, &probes{})
		d.Apply(docs.table("key: pools/b\n---\n" + endpoints("a", 1, "one")))
		g := mustTake(t, mustPool(t, d, "a"))
		d.Apply(docs.table(endpoints("b", 1, "one")))
		b := mustPool(t, d, "b")
		if _, err := take(b); err == nil {
			t.Fatal("the slot is granted twice")
		}
		time.AfterFunc(time.Second, g.Release)
		waited, err := b.Acquire(context.Background(), permits.Request{Account: "acme", MaxExpected: -1, MaxWait: 5 * time.Second})
		if err != nil || waited.Queued() < time.Second {
			t.Fatalf("%v after %v, want a permit after a second", err, waited.Queued())
		}
		waited.Release()
	})
}

// A pool whose only engine is replaced by another loses none of those who wait.
func TestWaitersOutliveTheirEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		d := runManager(t, &probes{})
		d.Apply(docs.table(endpoints("a", 1, "one")))
		a := mustPool(t, d, "a")
		g := mustTake(t, a)
		waited := make(chan error)
		go func() {
			g, err := a.Acquire(context.Background(), permits.Request{Account: "acme", MaxExpected: -1, MaxWait: time.Minute})
			if err == nil {
				g.Release()
			}
			waited <- err
		}()
		synctest.Wait()
		docs.all.Delete("endpoints/ams/one", 2)
		d.Apply(docs.table(endpoints("a", 1, "two")))
		if err := <-waited; err != nil {
			t.Errorf("who waited was told: %v", err)
		}
		g.Release()
	})
}

// What another pool still holds of an engine counts in full, also when its limit was lowered below that and is raised again
// before it has ended.
func TestLimitRaisedWhileAnotherPoolHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		d := runManager(t, &probes{})
		d.Apply(docs.table("key: pools/b\n---\n" + endpoints("a", 4, "one")))
		var held []Grant
		for range 3 {
			g := mustTake(t, mustPool(t, d, "a"))
			held = append(held, g)
		}
		d.Apply(docs.table(endpoints("b", 2, "one")))
		b, ctx := mustPool(t, d, "b"), t.Context()
		var granted atomic.Int64
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				if g, err := b.Acquire(ctx, permits.Request{Account: "acme", MaxExpected: -1, MaxWait: time.Minute}); err == nil {
					granted.Add(1)
					time.Sleep(time.Second)
					g.Release()
				}
			})
		}
		synctest.Wait()
		d.Apply(docs.table(endpoints("b", 8, "one")))
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
