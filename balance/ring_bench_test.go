package balance_test

import (
	"fmt"
	"testing"

	"colonnade/balance"
)

// busyPool returns a balancer of n endpoints; every so many of them has free slots.
func busyPool(c balance.Config, n, every int) *balance.Balancer {
	b := balance.New(c)
	b.SetEndpoints(engines(n, 16))
	for at := range n {
		s := balance.State{Load: 16, Up: true}
		if at%every == 0 {
			s = balance.State{Load: 15, Free: 1, Up: true}
		}
		b.Update(at, s)
	}
	return b
}

// A grant and a release: the choice with both updates.
func BenchmarkRing(b *testing.B) {
	for _, c := range []struct {
		name     string
		n, every int
	}{{"idle", 16, 1}, {"idle", 1000, 1}, {"half_full", 1000, 2}, {"one_free", 1000, 1000}} {
		b.Run(fmt.Sprintf("%s/endpoints=%d", c.name, c.n), func(b *testing.B) {
			balancer, r := busyPool(ringConfig(1.25), c.n, c.every), keyed(0)
			b.ReportAllocs()
			for b.Loop() {
				r.Key++
				grant(balancer, r)
			}
		})
	}
}

func grant(b *balance.Balancer, r *balance.Request) {
	at := b.Choose(0, r, nil).At
	b.Update(at, balance.State{Load: 16, Up: true})
	b.Granted(0, at, r)
	b.Update(at, balance.State{Load: 15, Free: 1, Up: true})
	b.Released(at, "", r)
}

// The worst case: the walk meets each endpoint once, since the request is barred from all.
func BenchmarkRingBarred(b *testing.B) {
	balancer, r := busyPool(ringConfig(1.25), 1000, 1), keyed(0)
	barred := make([]bool, 1000)
	for i := range barred {
		barred[i] = true
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Key++
		balancer.Choose(0, r, barred)
	}
}

// Requests of a model that half of the endpoints lack, while the others are over their bounds.
func BenchmarkRingOverBounds(b *testing.B) {
	f := func(name string, free int) {
		b.Run(name, func(b *testing.B) {
			balancer, r, barred := busyPool(ringConfig(1.25), 1000, 1), keyed(0), make([]bool, 1000)
			for at := range barred {
				if barred[at] = at%2 == 0; barred[at] {
					balancer.Update(at, balance.State{Free: 16, Up: true})
				} else {
					balancer.Update(at, balance.State{Load: 16 - free, Free: free, Up: true})
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				r.Key++
				balancer.Choose(0, r, barred)
			}
		})
	}
	f("open", 1)
	f("full", 0)
}

// A change of the endpoints, by which the ring is built anew.
func BenchmarkRingBuild(b *testing.B) {
	balancer, list := balance.New(ringConfig(1.25)), engines(1000, 16)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		balancer.SetEndpoints(list[i%2:])
	}
}

func BenchmarkWeightedRoundRobin(b *testing.B) {
	balancer := busyPool(balance.Config{Policy: balance.WeightedRoundRobin}, 1000, 1)
	b.ReportAllocs()
	for b.Loop() {
		grant(balancer, &balance.Request{})
	}
}
