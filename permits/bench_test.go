package permits_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"colonnade/permits"
)

// A request that finds a free slot in an idle pool. Its caller has read the clock, as a colo server has.
func BenchmarkAcquireRelease(b *testing.B) {
	for _, endpoints := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("endpoints=%d", endpoints), func(b *testing.B) {
			p, ctx := idlePool(endpoints), cancellable(b)
			now := time.Now()
			r := permits.Request{Account: "a", Now: now}
			b.ReportAllocs()
			for b.Loop() {
				permit, err := p.Acquire(ctx, &r)
				if err != nil {
					b.Fatal(err)
				}
				permit.EndedAt(now)
				permit.Release()
			}
		})
	}
}

// The same with a pool that reads the clock itself.
func BenchmarkAcquireReleaseByOwnClock(b *testing.B) {
	p, ctx := idlePool(1), cancellable(b)
	r := permits.Request{Account: "a"}
	b.ReportAllocs()
	for b.Loop() {
		permit, err := p.Acquire(ctx, &r)
		if err != nil {
			b.Fatal(err)
		}
		permit.Release()
	}
}

// idlePool returns a pool whose permits are bounded by a fence, as in a colo server.
func idlePool(endpoints int) *permits.Pool {
	c := config()
	c.Fence = permits.NewFence()
	p := permits.New(c)
	p.SetEndpoints(fleet(endpoints, 16))
	return p
}

// cancellable returns the context of a request whose client may leave.
func cancellable(b *testing.B) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	return ctx
}

// The same with a semaphore that has neither endpoints nor accounts, to compare with.
func BenchmarkAcquireReleaseSemaphore(b *testing.B) {
	s, ctx := semaphore.NewWeighted(16), cancellable(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Acquire(ctx, 1); err != nil {
			b.Fatal(err)
		}
		s.Release(1)
	}
}

// Many requests at once, with slots for all.
func BenchmarkAcquireReleaseParallel(b *testing.B) {
	p := idlePool(4)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			permit, err := acquire(p, context.Background(), permits.Request{Account: "a"})
			if err != nil {
				b.Error(err)
				return
			}
			permit.Release()
		}
	})
}

// 64 requests at once for two slots: every permit is handed over to a waiter.
func BenchmarkHandOver(b *testing.B) {
	p := permits.New(config())
	p.SetEndpoints(fleet(1, 2))
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			permit, err := acquire(p, context.Background(), patient("a"))
			if err != nil {
				b.Error(err)
				return
			}
			permit.Release()
		}
	})
}

// 10000 accounts wait with one request each; every release hands over to the next, and its account waits again.
func BenchmarkHandOver10000Accounts(b *testing.B) {
	c := config()
	c.Limit, c.PerAccount = 1<<20, 1<<20
	p := permits.New(c)
	p.SetEndpoints(fleet(1, 1))
	first, err := acquire(p, context.Background(), patient("first"))
	if err != nil {
		b.Fatal(err)
	}
	granted, ctx := make(chan permits.Permit), b.Context()
	for i := range 10_000 {
		go func() {
			for ctx.Err() == nil {
				permit, err := acquire(p, context.Background(), patient(fmt.Sprint(i)))
				if err != nil {
					return
				}
				select {
				case granted <- permit:
				case <-ctx.Done():
					permit.Release()
				}
			}
		}()
	}
	for p.Load().Queued < 10_000 {
		time.Sleep(time.Millisecond)
	}
	b.ReportAllocs()
	for b.Loop() {
		first.Release()
		first = <-granted
	}
	first.Release()
	p.Drain()
}

// A refusal when the pool and its queue are full.
func BenchmarkRefuse(b *testing.B) {
	p := permits.New(permits.Config{MaxWait: time.Second})
	p.SetEndpoints(fleet(1, 1))
	held, err := acquire(p, context.Background(), patient("a"))
	if err != nil {
		b.Fatal(err)
	}
	defer held.Release()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := acquire(p, context.Background(), patient("b")); err == nil {
			b.Fatal("granted")
		}
	}
}

// A limit that is found moves by a slot at a time, while 5000 requests wait and the state of 10000 accounts is kept.
func BenchmarkResize10000Accounts(b *testing.B) {
	for _, share := range []float64{1, 0.5} {
		b.Run(fmt.Sprintf("max_share=%v", share), func(b *testing.B) {
			p, end := crowdedPool(b, share)
			defer end()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				p.Resize("e0", 15+i%2)
			}
		})
	}
}

// crowdedPool returns a pool with 10000 accounts: 16 hold a permit each, 5000 wait, and the others were served just before.
func crowdedPool(b *testing.B, share float64) (p *permits.Pool, end func()) {
	c := config()
	c.Limit, c.PerAccount, c.MaxShare = 1<<20, 1<<20, share
	p = permits.New(c)
	p.SetEndpoints(fleet(1, 10_000))
	var held []permits.Permit
	for i := range 10_000 {
		permit, err := acquire(p, context.Background(), patient(fmt.Sprint(i)))
		if err != nil {
			b.Fatal(err)
		}
		held = append(held, permit)
	}
	p.SetEndpoints(fleet(1, 16))
	for i := range 5000 {
		go func() { _, _ = acquire(p, context.Background(), patient(fmt.Sprint(i))) }()
	}
	for p.Load().Queued < 5000 {
		time.Sleep(time.Millisecond)
	}
	for _, permit := range held[:10_000-16] {
		permit.Release()
	}
	return p, func() {
		p.Drain()
		for _, permit := range held[10_000-16:] {
			permit.Release()
		}
	}
}

// A page of statistics, and how long it holds the mutex at a time.
func BenchmarkDetailedStats(b *testing.B) {
	for _, accounts := range []int{100, 10_000} {
		for _, named := range []int{10, 1000} {
			b.Run(fmt.Sprintf("accounts=%d/named=%d", accounts, named), func(b *testing.B) {
				p := permits.New(config())
				p.SetEndpoints(fleet(1, 2*accounts))
				for i := range 2 * accounts {
					if _, err := acquire(p, context.Background(), patient(fmt.Sprint(i%accounts))); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					p.DetailedStats(named)
				}
				pieces := 1 + accounts/256
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pieces), "ns/piece")
			})
		}
	}
}
