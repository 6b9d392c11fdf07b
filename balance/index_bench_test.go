package balance_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"colonnade/balance"
)

// BenchmarkPrefix chooses among 1000 endpoints that have had conversations of 30 blocks, of which so many are a beginning that all
// share.
func BenchmarkPrefix(b *testing.B) {
	for _, shared := range []int{0, 8} {
		balancer, prompts := prefixPool(1000, shared)
		next := func(i int) *balance.Request { return &prompts[i%len(prompts)] }
		b.Run(fmt.Sprintf("choose/shared=%d", shared), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				balancer.Choose(0, next(i), nil)
			}
		})
		fresh := balance.Request{Blocks: append(prompts[0].Blocks[:shared:shared], 1, 2, 3)}
		b.Run(fmt.Sprintf("choose_fresh/shared=%d", shared), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				balancer.Choose(0, &fresh, nil)
			}
		})
		b.Run(fmt.Sprintf("granted/shared=%d", shared), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				balancer.Granted(0, i*7%1000, next(i))
			}
		})
	}
}

// prefixPool returns a balancer with a full index, and prompts that it knows.
func prefixPool(n, shared int) (*balance.Balancer, []balance.Request) {
	random := rand.New(rand.NewPCG(6, 6))
	balancer := balance.New(indexConfig(200 * n))
	balancer.SetEndpoints(engines(n, 16))
	for at := range n {
		balancer.Update(at, balance.State{Load: at % 3, Free: 16 - at%3, Up: true})
	}
	prompts := make([]balance.Request, 4*n)
	for i := range prompts {
		prompts[i].Blocks = make([]uint64, 30)
		for d := range prompts[i].Blocks {
			if prompts[i].Blocks[d] = random.Uint64(); d < shared {
				prompts[i].Blocks[d] = uint64(d + 1)
			}
		}
		balancer.Granted(0, i%n, &prompts[i])
	}
	return balancer, prompts
}

func BenchmarkLeastLatency(b *testing.B) {
	benchmarkChoice(b, balance.Config{Policy: balance.LeastLatency})
}

func BenchmarkLeastLoaded(b *testing.B) { benchmarkChoice(b, balance.Config{}) }

func BenchmarkScore(b *testing.B) {
	benchmarkChoice(b, balance.Config{Policy: balance.Score, Weights: balance.Weights{Load: 1, Latency: 1}})
}

// benchmarkChoice chooses among 1000 idle endpoints.
func benchmarkChoice(b *testing.B, c balance.Config) {
	balancer := busyPool(c, 1000, 1)
	r := &balance.Request{Input: 4096}
	b.ReportAllocs()
	for b.Loop() {
		balancer.Choose(0, r, nil)
	}
}
