package balance

import (
	"math/rand/v2"
	"strconv"
	"time"

	"colonnade/balance"
)

// These are the sizes of the traffic with adapters.
const (
	adapterEngines  = 20
	adapterCount    = 500
	adapterExponent = 0.9 // of the Zipf distribution of how often each is asked for
	adapterRequests = 12_000
	adapterInput    = 400 // tokens
	adapterOutput   = 100 // mean
	adapterCapacity = 55  // requests a second that the engines serve by least_loaded
)

// Adapters returns requests for one of 500 LoRA adapters each, which arrive as a Poisson process and have no prompt in common.
func Adapters(seed uint64) *Traffic {
	random, popular := rand.New(rand.NewPCG(seed, 4)), newZipf(adapterExponent, adapterCount+1)
	t := &Traffic{Name: "adapters", BlockTokens: chatBlock}
	at := 0.0
	for range adapterRequests {
		at += random.ExpFloat64() / adapterCapacity
		r := Request{At: time.Duration(at * float64(time.Second)), Input: adapterInput, Output: 1 + int(adapterOutput*random.ExpFloat64())}
		r.Chain = extend(nil, adapterInput, random)
		r.join(accountOf(random), random.Uint64())
		r.Balance.Adapter = "adapter-" + strconv.Itoa(popular.draw(random))
		t.Requests = append(t.Requests, r)
	}
	t.write()
	return t
}

// AdapterWorkload returns that traffic and what the engines can serve of it.
func AdapterWorkload(seed uint64) Workload {
	return Workload{"adapters", Adapters(seed), adapterCapacity, adapterEngines}
}

// AdapterContestants are the policies that are compared with adapters.
func AdapterContestants() []Contestant {
	affinity := balance.Config{Policy: balance.AdapterAffinity, AdapterPending: 4}
	return []Contestant{
		{Name: "round_robin", Policy: balance.Config{Policy: balance.RoundRobin}},
		{Name: "least_loaded"},
		{Name: "adapter_affinity", Policy: affinity},
		{Name: "adapter_affinity, wait: 2s", Policy: affinity, Wait: 2 * time.Second},
	}
}
