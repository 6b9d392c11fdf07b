package permits_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"colonnade/balance"
	"colonnade/permits"
)

// A grant, a first byte and a release by each policy, with a quarter of the slots taken. Of prefix_affinity and score, one of 200 conversations of
// 30 blocks has its next turn, and all begin with the same 8 blocks.
func BenchmarkAcquireByPolicy(b *testing.B) {
	for _, c := range []struct {
		name string
		balance.Config
	}{
		{"least_loaded", balance.Config{}},
		{"round_robin", balance.Config{Policy: balance.RoundRobin}},
		{"weighted_round_robin", balance.Config{Policy: balance.WeightedRoundRobin}},
		{"least_latency", balance.Config{Policy: balance.LeastLatency}},
		{"consistent_hash", balance.Config{Policy: balance.ConsistentHash, LoadFactor: 1.25}},
		{"prefix_affinity_ring", balance.Config{Policy: balance.PrefixAffinity, ByRing: true, LoadFactor: 1.25}},
		{"prefix_affinity", balance.Config{Policy: balance.PrefixAffinity, LoadFactor: 1.25, IndexBytes: 64 << 20, MaxAge: time.Hour}},
		{"adapter_affinity", balance.Config{Policy: balance.AdapterAffinity, AdapterPending: 4}},
		{"score", balance.Config{Policy: balance.Score, IndexBytes: 64 << 20, MaxAge: time.Hour, Weights: balance.Weights{Prefix: 3, Load: 1, Latency: 1}}},
	} {
		for _, n := range []int{4, 1000} {
			b.Run(fmt.Sprintf("%s/endpoints=%d", c.name, n), func(b *testing.B) { benchmarkPolicy(b, c.Config, n, permits.Exclusions{}) })
		}
	}
}

// The same, for requests that every second endpoint may serve.
func BenchmarkAcquireExcluded(b *testing.B) {
	var ids []string
	for i := 0; i < 1000; i += 2 {
		ids = append(ids, fmt.Sprint("e", i))
	}
	for _, policy := range []balance.Policy{balance.LeastLoaded, balance.WeightedRoundRobin, balance.LeastLatency, balance.ConsistentHash} {
		b.Run(policy.String(), func(b *testing.B) {
			benchmarkPolicy(b, balance.Config{Policy: policy, LoadFactor: 1.25}, 1000, permits.Exclusions{permits.NewExclusion(ids)})
		})
	}
}

// Requests for 500 adapters, each of which other endpoints of 20 have.
func BenchmarkAcquireOfManyExclusions(b *testing.B) {
	p := permits.New(config())
	p.SetEndpoints(fleet(20, 16))
	requests, ctx := manyExclusions(500, 20), cancellable(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		permit, err := p.Acquire(ctx, &requests[i%len(requests)])
		if err != nil {
			b.Fatal(err)
		}
		permit.Release()
	}
}

// manyExclusions returns requests each of which must not get other endpoints: those of the bits of their number.
func manyExclusions(n, endpoints int) []permits.Request {
	requests := make([]permits.Request, n)
	for i := range requests {
		var ids []string
		for e := range endpoints - 1 {
			if (i+1)>>e&1 == 1 {
				ids = append(ids, fmt.Sprint("e", e))
			}
		}
		requests[i] = permits.Request{Account: "a", Excluded: permits.Exclusions{permits.NewExclusion(ids)}}
	}
	return requests
}

func benchmarkPolicy(b *testing.B, policy balance.Config, n int, excluded permits.Exclusions) {
	const slots = 16
	c := config()
	c.Balance = policy
	p, random := permits.New(c), rand.New(rand.NewPCG(1, 2))
	p.SetEndpoints(fleet(n, slots))
	requests, ctx := make([]permits.Request, 200), cancellable(b)
	for i := range requests {
		r := &balance.Request{Key: random.Uint64(), Prefix: random.Uint64(), Adapter: fmt.Sprint("adapter", i), Input: 4096}
		for d := range uint64(30) {
			if d >= 8 {
				d |= uint64(i+1) << 32
			}
			r.Blocks = append(r.Blocks, d)
		}
		requests[i] = permits.Request{Account: "a", Balance: r, Excluded: excluded}
	}
	begin := func(i int) permits.Permit {
		permit, err := p.Acquire(ctx, &requests[i%len(requests)])
		if err != nil {
			b.Fatal(err)
		}
		p.ReportFirstByte(permit.Endpoint(), 4096, time.Duration(100+random.IntN(100))*time.Millisecond)
		return permit
	}
	running := make([]permits.Permit, n*slots/4)
	for i := range running {
		running[i] = begin(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		next := begin(random.IntN(len(requests)))
		other := random.IntN(len(running))
		running[other].Release()
		running[other] = next
	}
}
