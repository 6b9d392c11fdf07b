package balance

import (
	"time"

	"colonnade/balance"
)

// Contestant is a policy with its settings, as documents have them.
type Contestant struct {
	Name   string
	Policy balance.Config
	Wait   time.Duration // balance.wait
	Oracle bool
	Blind  bool // see Config
	LLMD   string
	Scrape time.Duration
}

// Contestants are the policies that are compared. The last is the oracle, and the one before it that of requests that wait.
func Contestants() []Contestant {
	index := balance.Config{Policy: balance.PrefixAffinity, LoadFactor: 1.25, IndexBytes: 64 << 20, MaxAge: time.Hour}
	ring, session, score := index, index, index
	ring.ByRing = true
	session.Policy = balance.ConsistentHash
	score.Policy, score.Weights = balance.Score, balance.Weights{Prefix: 3, Load: 1, Latency: 1}
	const wait = 2 * time.Second
	return []Contestant{
		{Name: "round_robin", Policy: balance.Config{Policy: balance.RoundRobin}},
		{Name: "weighted_round_robin", Policy: balance.Config{Policy: balance.WeightedRoundRobin}},
		{Name: "least_loaded"},
		{Name: "least_latency", Policy: balance.Config{Policy: balance.LeastLatency}},
		{Name: "consistent_hash", Policy: session},
		{Name: "prefix_affinity, ring", Policy: ring},
		{Name: "prefix_affinity, index", Policy: index},
		{Name: "prefix_affinity, index without metrics", Policy: index, Blind: true},
		{Name: "prefix_affinity, index, wait: 2s", Policy: index, Wait: wait},
		{Name: "score", Policy: score},
		{Name: "oracle, wait: 2s", Policy: index, Wait: wait, Oracle: true},
		{Name: "oracle", Policy: index, Oracle: true},
	}
}

// LLMDContestants are llm-d's scorers, given the program bench/llmd: with the interval of scrapes that they have by default, and with metrics
// that are never old.
func LLMDContestants(program string) []Contestant {
	return []Contestant{
		{Name: "llm-d, metrics every 50 ms", LLMD: program, Scrape: 50 * time.Millisecond},
		{Name: "llm-d, fresh metrics", LLMD: program},
	}
}

// Loads are the loads that are compared, relative to what eight engines can serve by least_loaded.
func Loads() []float64 { return []float64{0.5, 0.75, 1, 1.25, 1.5} }

// Eight engines serve so many requests a second by least_loaded, with their usual timing.
const (
	mooncakeCapacity = 5.7
	chatsCapacity    = 18.7
	burstsCapacity   = 44
)

// Workload is a traffic and what the engines can serve of it.
type Workload struct {
	Name     string
	Traffic  *Traffic
	Capacity float64 // requests a second
	Engines  int
}

// Workloads returns the traffics of a seed.
func Workloads(seed uint64) ([]Workload, error) {
	mooncake, err := Mooncake(seed)
	if err != nil {
		return nil, err
	}
	return []Workload{{"chats", Chats(seed, 12, 4000), chatsCapacity, 8}, {"burstgpt", Bursts(seed, 12, 2500), burstsCapacity, 8}, {"mooncake", mooncake, mooncakeCapacity, 8}}, nil
}

// At returns the run of a contestant at a load.
func (w *Workload) At(load float64, c *Contestant) Config {
	return Config{
		Policy: c.Policy, PreferWait: c.Wait, Oracle: c.Oracle, Blind: c.Blind, LLMD: c.LLMD, Scrape: c.Scrape, Traffic: w.Traffic, Endpoints: w.Engines, Timing: DefaultTiming(),
		Speed: load * w.Capacity / w.Traffic.Rate(),
	}
}
