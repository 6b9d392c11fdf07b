package fleet

// Priorities of accounts: the band in which their requests wait.
const (
	PriorityInteractive = "interactive"
	PriorityStandard    = "standard"
	PriorityBatch       = "batch"
)

// Account is the tenant that a request is billed to. An account that comes from a table is shared: do not modify it.
type Account struct {
	Name string `json:"-"`
	// Share of a contended pool, relative to other accounts of the same priority.
	Weight int `json:"weight" range:"1,1000"`
	// Priority of its requests: interactive before standard before batch. Lower ones get every eighth grant once their
	// oldest request has waited for promote_after of the pool.
	Priority string `json:"priority" oneof:"interactive standard batch"`
	// Limits that hold however little other accounts ask for.
	Limits Limits `json:"limits"`
	// Models that the account may use, by name; aliases do not count. [] means none. Default: all models.
	Models []string `json:"models,omitzero" is:"name"` // nil = all, empty = none
	// Permission to choose the colo of a request by the header x-colonnade-force-colo.
	Admin bool `json:"admin,omitempty"`
}

// Limits of an account; 0 means that nothing is allowed.
type Limits struct {
	// Requests that run at once in one pool of one colo. Further ones wait, or are refused with the reason account_limit. 0
	// means none. The default is meant for a few engines: raise it where one account may use more slots of a pool.
	Concurrent int `json:"concurrent" range:"0,1000000"`

	_ struct{} `unsupported:"requests_per_minute" instead:"bound the account by limits.concurrent"`
	_ struct{} `unsupported:"tokens_per_minute" instead:"bound the account by limits.concurrent"`
}
