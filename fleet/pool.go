package fleet

// Disciplines of a queue, what a request costs in it, and how a pool chooses the endpoint of a grant.
const (
	DisciplineFIFO    = "fifo"
	DisciplineFair    = "fair"
	CostRequests      = "requests"
	CostTokens        = "tokens"
	PolicyLeastLoaded = "least_loaded"
	PolicyRoundRobin  = "round_robin"
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

// Balance chooses the endpoint of a grant.
type Balance struct {
	// least_loaded takes the endpoint with the smallest fraction of its slots taken, by weight; round_robin takes each
	// in turn.
	Policy string `json:"policy" oneof:"least_loaded round_robin"`
}
