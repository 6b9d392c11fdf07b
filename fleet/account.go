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
	// Permission to choose the colo of a request by the header x-colonnade-force-colo, and to learn its endpoint by the header
	// x-colonnade-endpoint-reason.
	Admin bool `json:"admin,omitempty"`
	// Permission for fallbacks that take prompts out of the fleet: to models that are listed as {external: NAME}, and to external endpoints of
	// other models.
	AllowExternal bool `json:"allow_external,omitempty"`
}

// Limits of an account.
type Limits struct {
	// Requests that run at once in one pool of one colo. Further ones wait, or are refused with the reason account_limit. 0
	// means none. The default is meant for a few engines: raise it where one account may use more slots of a pool.
	Concurrent int `json:"concurrent" range:"0,1000000"`
	// Requests a minute in the whole fleet. Further ones are refused with the reason request_limit. An account that was idle may send
	// those of one minute at once. Default: any number.
	RequestsPerMinute int `json:"requests_per_minute,omitempty" range:"1,1000000000"`
	// Tokens a minute in the whole fleet, of prompts and answers together. Further requests are refused with the reason token_limit.
	// Default: any number.
	TokensPerMinute int `json:"tokens_per_minute,omitempty" range:"1,1000000000000"`
	// Tokens of each answer to a request. A request that wants more is refused; one that does not say how many it wants gets this limit.
	// Default: any number.
	OutputTokens int `json:"output_tokens,omitempty" range:"1,1000000000"`
	// Most that the requests of a day or a month may cost.
	Budget Budget `json:"budget,omitzero"`
}

// Rates returns the limits that hold for the account in the whole fleet.
func (l *Limits) Rates() RateLimits {
	return RateLimits{RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute, OutputTokens: l.OutputTokens, Budget: l.Budget}
}
