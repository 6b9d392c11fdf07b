package balance_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"colonnade/balance"
)

// BenchmarkChoice is the choice of an endpoint by each policy, and by a look at each endpoint, with all that a request changes: a grant, a
// first byte and a release. Half of the slots are taken, and latencies differ.
func BenchmarkChoice(b *testing.B) {
	for _, n := range []int{4, 16, 1000} {
		for _, policy := range []string{"least_loaded", "round_robin", "weighted_round_robin", "least_latency", "adapter_affinity", "score", "score_load"} {
			for _, by := range []string{"balancer", "scan"} {
				b.Run(fmt.Sprintf("%s/endpoints=%d/%s", policy, n, by), func(b *testing.B) { benchmarkRequests(b, scanned[policy], n, by == "scan") })
			}
		}
	}
}

// requests is a fleet half of whose slots are taken.
type requests struct {
	*balance.Balancer
	states  []balance.State
	running []int
	now     time.Duration
}

func (r *requests) change(at, by int) {
	r.states[at].Load += by
	r.states[at].Free -= by
	r.Update(at, r.states[at])
}

func newRequests(c balance.Config, n int) *requests {
	const slots = 16
	random := rand.New(rand.NewPCG(3, 4))
	r := &requests{Balancer: balance.New(c), states: make([]balance.State, n)}
	r.SetEndpoints(engines(n, slots))
	for at := range n {
		r.states[at] = balance.State{Free: slots, Up: true}
		r.change(at, 0)
		r.FirstByte(0, at, 4096, time.Duration(100+random.IntN(100))*time.Millisecond)
		for range slots / 2 {
			r.change(at, 1)
			r.running = append(r.running, at)
		}
	}
	random.Shuffle(len(r.running), func(i, j int) { r.running[i], r.running[j] = r.running[j], r.running[i] })
	return r
}

func benchmarkRequests(b *testing.B, c balance.Config, n int, scan bool) {
	r := newRequests(c, n)
	model, request, latency := balance.NewScan(r.Balancer), &balance.Request{Input: 4096}, rand.New(rand.NewPCG(5, 6))
	if c.Policy == balance.AdapterAffinity {
		request.Adapter = "new" // to all
	}
	model.Keep(nil, make([]balance.Endpoint, n))
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		r.now += 100 * time.Microsecond
		var at int
		if scan {
			at = model.Choose(r.now, request, nil).At
			model.Granted(at)
		} else {
			at = r.Choose(r.now, request, nil).At
		}
		r.change(at, 1)
		if !scan || c.Policy != balance.WeightedRoundRobin {
			r.Granted(r.now, at, request)
		}
		r.FirstByte(r.now, at, request.Input, time.Duration(100+latency.IntN(100))*time.Millisecond)
		if i++; i == len(r.running) {
			i = 0
		}
		other := r.running[i]
		r.running[i] = at
		r.change(other, -1)
		if request.Adapter != "" {
			r.Released(at, "", request)
			r.ForgetAdapters(at)
		}
	}
}
