package balance

var policyNames = [...]string{LeastLoaded: "least_loaded", RoundRobin: "round_robin", WeightedRoundRobin: "weighted_round_robin",
	LeastLatency: "least_latency", ConsistentHash: "consistent_hash", PrefixAffinity: "prefix_affinity", AdapterAffinity: "adapter_affinity", Score: "score"}

// String returns the policy's name, as documents of pools spell it.
func (p Policy) String() string { return policyNames[p] }

// Policies returns the names of all policies.
func Policies() []string { return policyNames[:] }
