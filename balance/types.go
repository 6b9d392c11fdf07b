package balance

import "time"

// Policy is how an endpoint is chosen.
type Policy uint8

// The policies.
const (
	// LeastLoaded takes the endpoint that is least loaded with the new request on it: its load over its slots times its weight. Equals
	// take turns.
	LeastLoaded Policy = iota
	// RoundRobin takes the next endpoint in their order.
	RoundRobin
	// WeightedRoundRobin takes each endpoint as often as its weight says, spread evenly.
	WeightedRoundRobin
	// LeastLatency takes the endpoint whose answer is likely to begin soonest.
	LeastLatency
	// ConsistentHash takes the endpoint of the request's key, by a ring with bounded loads.
	ConsistentHash
	// PrefixAffinity takes the endpoint that has most of the prompt's beginning in its cache, within a bounded load.
	PrefixAffinity
	// AdapterAffinity takes an endpoint that has the request's adapter loaded.
	AdapterAffinity
	// Score takes the endpoint with the greatest weighted sum.
	Score
)

// Config is how a balancer chooses. The zero value is LeastLoaded.
type Config struct {
	Policy         Policy
	LoadFactor     float64 // most load relative to the mean, of ConsistentHash and PrefixAffinity
	ByRing         bool    // PrefixAffinity goes by Request.Prefix and the ring, and by the index of Request.Blocks if it is false
	IndexBytes     int64   // memory of the index
	MaxAge         Instant // after which the index forgets what was not sent again
	AdapterPending int     // requests for an adapter, from which on AdapterAffinity looks for another endpoint
	Weights        Weights // of Score
	// Cached returns how much of a prompt an endpoint, given its ID, has in its cache. If it is set, PrefixAffinity goes by it; simulations do.
	// It is called under the mutex of the pool.
	Cached func(id string, r *Request) int
	// Pick returns the index of the endpoint that gets a request, of those that are open to it, given their IDs: one or more. If it is set, it is
	// the policy; simulations of other systems set it. It is called under the mutex of the pool, and what it has picked may be asked for again.
	Pick func(open []string, r *Request) int
}

// Weights are those of the parts of a score.
type Weights struct{ Prefix, Load, Latency float64 }

// Endpoint is an engine and its size. The ID stands for the engine: what was learned of it is kept under its ID.
type Endpoint struct {
	ID     string
	Slots  int // at least 1
	Weight int // at least 1
}

// State is how busy an endpoint is.
type State struct {
	Load int  // requests that the engine is known to have
	Free int  // slots that can be granted now
	Up   bool // a request can wait for it: it is usable, and does not drain
}

// Request is what a policy may know of a request. It does not change while the request waits.
type Request struct {
	// Key is the hash that consistent hashing goes by: of the session's name, or the account's.
	Key uint64
	// Prefix is the hash of the beginning of the conversation, or of the whole body of what is none.
	Prefix uint64
	// Blocks is a chain of hashes of the prompt: each stands for one block of it and for all before that.
	Blocks []uint64
	// Adapter is the LoRA adapter that the request needs; empty: none.
	Adapter string
	// Input is the size of the body in bytes.
	Input int
}

// None is the index of no endpoint.
const None = -1

// key returns the key of a request, 0 for one of which nothing is known.
func (r *Request) key() uint64 {
	if r == nil {
		return 0
	}
	return r.Key
}

// prefix returns the prefix of a request, 0 for one of which nothing is known.
func (r *Request) prefix() uint64 {
	if r == nil {
		return 0
	}
	return r.Prefix
}

// Choice is the endpoint for a request.
type Choice struct {
	At      int // index of the endpoint in the order of SetEndpoints; None: none is open to the request
	Prefers int // index of the endpoint that it would rather have, which has no free slot; None: there is none
	Why     Why // of At
}

// Why is the reason of a choice, as headers and metrics name it.
type Why uint8

// The reasons.
const (
	Load       Why = iota // it is the least loaded
	Turn                  // it is its turn
	Ring                  // it is the first on the ring, of those that are up
	RingNext              // it is the first on the ring that is open and within its bound, after others
	RingFull              // it is the first on the ring that is open, and all of them are over their bounds
	Adapter               // it has the adapter
	AdapterNew            // it has the fewest adapters, and the request's is new to it
	Prefix                // it has most of the prompt in its cache
	PrefixNext            // it has most of the prompt in its cache, but for others that are full or over their bounds
	PrefixNone            // no endpoint that is open and within its bound has an eighth of the prompt, and it is the least loaded
	Latency               // its answers begin soonest, for its load
	Scored                // its score is the greatest
)

var whys = [...]string{"load", "turn", "ring", "ring_next", "ring_full", "adapter", "adapter_new", "prefix", "prefix_next", "prefix_none", "latency", "score"}

// String returns the reason's name.
func (w Why) String() string { return whys[w] }

// Whys returns the names of all reasons.
func Whys() []string { return whys[:] }

// Instant is a time since the pool began.
type Instant = time.Duration
