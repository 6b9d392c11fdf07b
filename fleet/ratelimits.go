package fleet

// RateLimits bound what requests use. A field that is 0 bounds nothing.
type RateLimits struct {
	// Requests a minute. Default: any number.
	RequestsPerMinute int `json:"requests_per_minute,omitempty" range:"1,1000000000"`
	// Tokens a minute, of prompts and answers together. Default: any number.
	TokensPerMinute int `json:"tokens_per_minute,omitempty" range:"1,1000000000000"`
	// Tokens of each answer to a request. A request that wants more is refused; one that does not say how many it wants gets this limit.
	// Default: any number.
	OutputTokens int `json:"output_tokens,omitempty" range:"1,1000000000"`
	// Most that the requests of a day or a month may cost.
	Budget Budget `json:"budget,omitzero"`
}

// Bounds reports whether there is any limit over time.
func (l *RateLimits) Bounds() bool {
	return l.RequestsPerMinute > 0 || l.TokensPerMinute > 0 || l.Budget.Day > 0 || l.Budget.Month > 0
}

// Budget bounds the cost of requests by calendar days and months in UTC. Requests cost what the field cost of their model says.
type Budget struct {
	// Unit of the budget. Only the requests of models whose cost.unit is the same count. Default: those of all models count.
	Unit string `json:"unit,omitempty" is:"name"`
	// Most that requests may cost from 00:00 UTC on. Requests that begin later are refused with the reason budget_spent. Default: any amount.
	Day float64 `json:"day,omitempty" range:"0.000001,1000000000000"`
	// The same from the first of the month on. Default: any amount.
	Month float64 `json:"month,omitempty" range:"0.000001,1000000000000"`
}

// FleetLimits is the document limits: what all clients together may use, of all entries together.
type FleetLimits struct {
	// Requests a minute of all clients together. Default: any number.
	RequestsPerMinute int `json:"requests_per_minute,omitempty" range:"1,1000000000"`
	// Tokens a minute of all clients together, of prompts and answers. Default: any number.
	TokensPerMinute int `json:"tokens_per_minute,omitempty" range:"1,1000000000000"`
	// Most that the requests of all clients may cost in a day or a month.
	Budget Budget `json:"budget,omitzero"`
}

func (l *FleetLimits) rates() RateLimits {
	return RateLimits{RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute, Budget: l.Budget}
}
