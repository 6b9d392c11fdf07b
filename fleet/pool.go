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

// Pool is what stands over the endpoints that serve the same models. A pool that comes from a table is shared: do not
// modify it.
type Pool struct {
	Name    string      `json:"-"`
	Permits PoolPermits `json:"permits"`
	Queue   Queue       `json:"queue"`
	Balance Balance     `json:"balance"`
}

// PoolPermits says how many may run.
type PoolPermits struct {
	PerEndpoint int     `json:"per_endpoint,omitempty" range:"1,10000"` // 0 = the default of the endpoint's engine
	MaxShare    float64 `json:"max_share" range:"0.001,1"`              // of the slots for one account, up to 1

	_ struct{} `unsupported:"shards"`
}

// Queue says who may wait, and how long.
type Queue struct {
	Discipline   string   `json:"discipline" oneof:"fifo fair"`
	Cost         string   `json:"cost" oneof:"requests tokens"`
	Limit        int      `json:"limit" range:"0,100000"`       // requests that wait; 0 = none may
	PerAccount   int      `json:"per_account" range:"0,100000"` // of these, of one account
	Bytes        Bytes    `json:"bytes" range:"0,64GiB"`        // bodies of all that wait
	MaxWait      Duration `json:"max_wait" range:"0s,1h"`
	SpillWait    Duration `json:"spill_wait" range:"0s,1h"`    // expected wait up to which a request waits while its plan has further colos
	PromoteAfter Duration `json:"promote_after" range:"0s,1h"` // wait after which lower bands get every eighth grant; default: 5s, or half of MaxWait if that is less
}

// Balance says how a pool chooses the endpoint of a grant.
type Balance struct {
	Policy string `json:"policy" oneof:"least_loaded round_robin"`
}
