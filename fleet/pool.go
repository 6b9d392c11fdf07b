package fleet

// Disciplines of a queue, what a request costs in it, and how a pool chooses the endpoint of a grant.
const (
	DisciplineFIFO = "fifo"
	DisciplineFair = "fair"
	CostRequests   = "requests"
	CostTokens     = "tokens"

	PolicyLeastLoaded        = "least_loaded"
	PolicyRoundRobin         = "round_robin"
	PolicyWeightedRoundRobin = "weighted_round_robin"
	PolicyLeastLatency       = "least_latency"
	PolicyConsistentHash     = "consistent_hash"
	PolicyPrefixAffinity     = "prefix_affinity"
	PolicyAdapterAffinity    = "adapter_affinity"
	PolicyScore              = "score"

	PrefixByIndex = "index"
	PrefixByRing  = "ring"
)

// Pool is the permits and the queue over the endpoints that serve the same models. A pool that comes from a table is shared: do not
// modify it.
type Pool struct {
	Name string `json:"-"`
	// Limits of running requests.
	Permits PoolPermits `json:"permits"`
	// Limits of waiting requests, and the order in which they get slots.
	Queue Queue `json:"queue"`
	// Choice of the endpoint for a request.
	Balance Balance `json:"balance"`
}

// PoolPermits limits the running requests of a pool.
type PoolPermits struct {
	// Concurrency of endpoints whose documents do not set it. Default: by engine.
	PerEndpoint int `json:"per_endpoint,omitempty" range:"1,10000"` // 0 = absent
	// Fraction of the slots in one colo that one account may hold, but at least one slot. A pool that has only models
	// of type realtime has 0.5 unless a document sets it.
	MaxShare float64 `json:"max_share" range:"0.001,1"`

	RealtimeShare float64 `json:"-"` // what MaxShare is where all models of the pool are realtime

	_ struct{} `unsupported:"shards"`
}

// Queue limits and orders the waiting requests of a pool.
type Queue struct {
	// Order of service within a priority: fifo is the order of arrival, fair divides slots between accounts by weight.
	Discipline string `json:"discipline" oneof:"fifo fair"`
	// Unit of fairness: requests counts each completion, input or document of a request as one; tokens counts tokens at the
	// prices of the models.
	Cost string `json:"cost" oneof:"requests tokens"`
	// Requests that may wait in one colo. 0 means none.
	Limit int `json:"limit" range:"0,100000"`
	// Requests of one account that may wait in one colo.
	PerAccount int `json:"per_account" range:"0,100000"`
	// Total size of the bodies of all waiting requests.
	Bytes Bytes `json:"bytes" range:"0,64GiB"`
	// Time that one request may wait, in all colos together.
	MaxWait Duration `json:"max_wait" range:"0s,1h"`
	// Longest expected wait for which a request waits in a colo while its plan has further ones.
	SpillWait Duration `json:"spill_wait" range:"0s,1h"`
	// Wait of the oldest request of a lower priority after which lower priorities get every eighth grant. Unless a
	// document sets it, it is at most half of max_wait.
	PromoteAfter Duration `json:"promote_after" range:"0s,1h"`
}

// Balance chooses the endpoint of a grant, among those with a free slot.
type Balance struct {
	// least_loaded takes the endpoint with the smallest fraction of its slots taken, by weight; round_robin takes each
	// in turn, weighted_round_robin as often as its weight says. least_latency takes the one that is likely to answer soonest;
	// consistent_hash the one of the session or the account; prefix_affinity the one that has most of the prompt in its cache;
	// adapter_affinity one that has the adapter loaded; score the one with the greatest weighted sum.
	Policy string `json:"policy" oneof:"least_loaded round_robin weighted_round_robin least_latency consistent_hash prefix_affinity adapter_affinity score"`
	// Most load of an endpoint, relative to the mean of all, up to which consistent_hash and prefix_affinity choose it although others
	// are less loaded.
	LoadFactor float64 `json:"load_factor" range:"1,100"`
	// Time for which a request waits for the endpoint that it prefers while only others have a free slot, which go to other requests
	// meanwhile. 0 means that it takes what is free.
	Wait Duration `json:"wait" range:"0s,1m"`
	// How prefix_affinity finds the cache.
	Prefix BalancePrefix `json:"prefix"`
	// Requests for an adapter up to which adapter_affinity sends further ones to an endpoint that has it loaded already.
	AdapterPending int `json:"adapter_pending" range:"1,10000"`
	// Weights of score, of which at least one is above 0. Layers in which all are 0 together leave those that are built in.
	Score BalanceScore `json:"score"`
}

// UsesIndex reports whether endpoints are chosen by an index of the prompts that were sent to them.
func (b *Balance) UsesIndex() bool {
	return b.Policy == PolicyPrefixAffinity && b.Prefix.By == PrefixByIndex || b.Policy == PolicyScore && b.Score.Prefix > 0
}

// BalancePrefix says how endpoints are found that have the beginning of a prompt in their caches.
type BalancePrefix struct {
	// index remembers which prompts were sent where; ring gives each conversation an endpoint by a hash of its beginning, and needs no
	// memory.
	By string `json:"by" oneof:"index ring"`
	// User messages of a conversation that belong to its beginning for the ring, after what stands before the first of them.
	Messages int `json:"messages" range:"0,100"`
	// Memory of the index. The index first forgets the prompts that were used longest ago.
	Memory Bytes `json:"memory" range:"64KiB,4GiB"`
	// Time after which a prompt is forgotten that was not sent again.
	MaxAge Duration `json:"max_age" range:"1s,24h"`
}

// BalanceScore has the weights of the policy score, of which at least one is above 0.
type BalanceScore struct {
	// Weight of the share of the prompt that the endpoint is likely to have in its cache.
	Prefix float64 `json:"prefix" range:"0,1000"`
	// Weight of the share of its slots that are free.
	Load float64 `json:"load" range:"0,1000"`
	// Weight of how soon its answers begin, relative to the soonest.
	Latency float64 `json:"latency" range:"0,1000"`
}
