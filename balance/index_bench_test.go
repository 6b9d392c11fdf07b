package balance_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"colonnade/balance"
)

// BenchmarkPrefix chooses among 1000 endpoints that have had conversations of 30 blocks, of which so many are a beginning that all
// share.
func BenchmarkPrefix(b *testing.B) { benchmarkPrompts(b, indexConfig(200*1000)) }

// BenchmarkScorePrefix is the same by score, at different latencies.
func BenchmarkScorePrefix(b *testing.B) {
	c := indexConfig(200 * 1000)
	c.Policy, c.Weights = balance.Score, balance.Weights{Prefix: 3, Load: 1, Latency: 1}
	benchmarkPrompts(b, c)
}

func benchmarkPrompts(b *testing.B, c balance.Config) {
	for _, shared := range []int{0, 8} {
		balancer, prompts := prefixPool(c, 1000, shared)
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
		b.Run(fmt.Sprintf("request/shared=%d", shared), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				balancer.serve(time.Duration(i)*100*time.Microsecond, next(i))
			}
		})
	}
}

// promptPool is a balancer with a full index, and the loads of its endpoints.
type promptPool struct {
	*balance.Balancer
	*rand.Rand
	load    []int
	running []int
}

func (p *promptPool) add(at, n int) {
	p.load[at] += n
	p.Update(at, balance.State{Load: p.load[at], Free: max(0, 16-p.load[at]), Up: true})
}

// serve is a request with all that it changes: a choice, a grant, a first byte, and the release of another.
func (p *promptPool) serve(now time.Duration, r *balance.Request) {
	at := p.Choose(now, r, nil).At
	p.add(at, 1)
	p.Granted(now, at, r)
	p.FirstByte(now, at, r.Input, p.latency())
	i := p.IntN(len(p.running))
	p.add(p.running[i], -1)
	p.running[i] = at
}

func (p *promptPool) latency() time.Duration {
	return 100*time.Millisecond + time.Duration(p.IntN(int(100*time.Millisecond)))
}

// prefixPool returns a pool with a full index, and prompts that it knows.
func prefixPool(c balance.Config, n, shared int) (*promptPool, []balance.Request) {
	random := rand.New(rand.NewPCG(6, 6))
	balancer := &promptPool{Balancer: balance.New(c), Rand: random, load: make([]int, n)}
	balancer.SetEndpoints(engines(n, 16))
	for at := range n {
		balancer.FirstByte(0, at, 0, balancer.latency())
		for range 1 + at%3 {
			balancer.add(at, 1)
			balancer.running = append(balancer.running, at)
		}
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

// BenchmarkScoreHolders chooses among 1000 endpoints for a prompt that so many of them have.
func BenchmarkScoreHolders(b *testing.B) {
	c := indexConfig(200 * 1000)
	c.Policy, c.Weights = balance.Score, balance.Weights{Prefix: 3, Load: 1, Latency: 1}
	for _, holders := range []int{1, 16, 32, 48, 64, 128, 250, 1000} {
		pool, prompts := prefixPool(c, 1000, 0)
		for i := range holders {
			pool.Granted(0, i*1000/holders, &prompts[0])
		}
		b.Run(fmt.Sprintf("holders=%d", holders), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				pool.Choose(0, &prompts[0], nil)
			}
		})
	}
}
