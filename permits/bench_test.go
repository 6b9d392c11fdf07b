package permits_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"colonnade/permits"
)

// A request that finds a slot free, and nobody else there.
func BenchmarkAcquireRelease(b *testing.B) {
	for _, endpoints := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("endpoints=%d", endpoints), func(b *testing.B) {
			c := config()
			c.Right = permits.NewRight()
			p := permits.New(c)
			p.SetEndpoints(fleet(endpoints, 16))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				permit, err := p.Acquire(ctx, permits.Request{Account: "a"})
				if err != nil {
					b.Fatal(err)
				}
				permit.Release()
			}
		})
	}
}

// Many at once, with slots for all.
func BenchmarkAcquireReleaseParallel(b *testing.B) {
	c := config()
	c.Right = permits.NewRight()
	p := permits.New(c)
	p.SetEndpoints(fleet(4, 16))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			permit, err := p.Acquire(context.Background(), permits.Request{Account: "a"})
			if err != nil {
				b.Error(err)
				return
			}
			permit.Release()
		}
	})
}

// 64 at once for two slots: every permit is handed over to one who waits.
func BenchmarkHandOver(b *testing.B) {
	p := permits.New(config())
	p.SetEndpoints(fleet(1, 2))
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			permit, err := p.Acquire(context.Background(), patient("a"))
			if err != nil {
				b.Error(err)
				return
			}
			permit.Release()
		}
	})
}

// 10000 accounts wait with one request each; every grant hands over to the next, who waits again.
func BenchmarkHandOver10000Accounts(b *testing.B) {
	c := config()
	c.Limit, c.PerAccount = 1<<20, 1<<20
	p := permits.New(c)
	p.SetEndpoints(fleet(1, 1))
	first, err := p.Acquire(context.Background(), patient("first"))
	if err != nil {
		b.Fatal(err)
	}
	granted, ctx := make(chan permits.Permit), b.Context()
	for i := range 10_000 {
		go func() {
			for ctx.Err() == nil {
				permit, err := p.Acquire(context.Background(), patient(fmt.Sprint(i)))
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

// What a refusal costs when the pool and its queue are full.
func BenchmarkRefuse(b *testing.B) {
	p := permits.New(permits.Config{MaxWait: time.Second})
	p.SetEndpoints(fleet(1, 1))
	held, err := p.Acquire(context.Background(), patient("a"))
	if err != nil {
		b.Fatal(err)
	}
	defer held.Release()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Acquire(context.Background(), patient("b")); err == nil {
			b.Fatal("granted")
		}
	}
}
