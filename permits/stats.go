package permits

// Stats is the state of a pool at one moment, as metrics, pages and the command line show it. Times of Go's type
// time.Duration would be nanoseconds in JSON, so fields say their unit. A nil pointer is what is not known, or of what
// there is none.
type Stats struct {
	Pool              string            `json:"pool"` // empty until package admission names it
	Limit             int               `json:"limit"`
	Held              int               `json:"held"`
	Free              int               `json:"free"`
	Queued            int               `json:"queued"`
	StandIns          int               `json:"stand_ins"` // of Queued, those that wait because the pool's home did not answer
	Draining          bool              `json:"draining"`
	Granting          bool              `json:"granting"`             // false: the fence has passed, or the pool drains
	ExpectedMillis    *int64            `json:"expected_wait_ms"`     // of a newcomer, see [Load]
	RatePerSecond     float64           `json:"rate_per_second"`      // of permits released when all slots are taken; 0 while not known
	MeanHeldMillis    *float64          `json:"mean_held_ms"`         // from a permit's grant to its release
	CostPerSlotSecond *float64          `json:"cost_per_slot_second"` // what requests use while they hold a slot; nil ByRequests too
	FullSeconds       float64           `json:"full_seconds"`         // without a free slot, since the pool began
	Granted           uint64            `json:"granted"`              // since the pool began, as the next two
	Released          uint64            `json:"released"`
	Refused           map[Reason]uint64 `json:"refused"`
	PendingRetries    int               `json:"pending_retries"`   // refused with a Retry-After that is not yet due
	Endpoints         []EndpointStats   `json:"endpoints"`         // in the order of SetEndpoints, then those removed, by ID
	Lacks             []LackStats       `json:"lacks,omitempty"`   // of the endpoints; for package admission to fill in
	NoSlot            *NoSlotStats      `json:"no_slot,omitempty"` // for package admission to fill in; nil: there was no such request
	Queue             QueueStats        `json:"queue"`
	Balance           BalanceStats      `json:"balance,omitzero"`
	Bands             []BandStats       `json:"bands"`          // all, the highest first
	Accounts          []AccountStats    `json:"accounts"`       // those that hold and wait most, most first
	OtherAccounts     int               `json:"other_accounts"` // that hold or wait, beside these
}

// EndpointStats is the state of one endpoint.
type EndpointStats struct {
	Health
	URL         string `json:"url"`         // the endpoint's ID, for which package admission takes its engine's URL
	Concurrency int    `json:"concurrency"` // the limit in force
	Held        int    `json:"held"`
	Taken       int    `json:"taken"`                   // slots that another pool holds
	Full        bool   `json:"full"`                    // see MarkFull
	Withheld    bool   `json:"withheld"`                // another server may grant its slots
	Draining    bool   `json:"draining,omitempty"`      // it gets no new requests
	Indexed     int64  `json:"indexed_bytes,omitempty"` // of prompts that the index takes to be in its prefix cache

	Weight  int  `json:"-"`
	Usable  bool `json:"-"` // see SetUsable
	Removed bool `json:"-"` // no longer of the pool, but permits are held on it
}

// Health is what is known of an endpoint beside its slots. It is for package admission to fill in.
type Health struct {
	ID           string     `json:"id"`               // of its document; empty once no document names it
	State        string     `json:"state"`            // up, down, silent, ejected, draining or withheld; gone once no document names it
	StateSeconds *float64   `json:"state_seconds"`    // since State changed, and of a silent endpoint since its last sign of life; nil: not since the server knows it
	Reason       string     `json:"reason,omitempty"` // the error of the last health check; of an ejected endpoint, the last failure
	Auto         *AutoStats `json:"auto,omitempty"`   // of a limit that is found; without it, Concurrency is the document's

	Engine *EngineStats `json:"engine,omitempty"` // by its own metrics; nil: they are not read
	Cache  *CacheStats  `json:"cache,omitempty"`  // nil: nothing is known of it
}

// CacheStats is what is known of an engine's prefix cache.
type CacheStats struct {
	SizeBytes  *int64       `json:"size_bytes,omitempty"`  // of prompts that it has room for, which bounds the index; nil: not known
	SizeTokens *int64       `json:"size_tokens,omitempty"` // that it has room for, by the engine's metrics; nil: not known
	Losses     uint64       `json:"losses"`                // times that it was lost: the engine has begun anew, or has emptied it
	Events     *CacheEvents `json:"events,omitempty"`      // nil: they are not read
}

// CacheEvents is what the events of an engine's KV cache say.
type CacheEvents struct {
	Connected      bool   `json:"connected"`
	Error          string `json:"error,omitempty"` // of the last connection
	Events         uint64 `json:"events"`          // read
	Gaps           uint64 `json:"gaps"`            // times that events were lost or not understood
	ResidentTokens *int64 `json:"resident_tokens,omitempty"`
}

// EngineStats is what the engine of an endpoint says about itself in its metrics. A nil pointer is what it does not say, or said too long ago.
type EngineStats struct {
	Running       *int     `json:"running,omitempty"` // requests that it works on, also those of other clients
	Waiting       *int     `json:"waiting,omitempty"` // requests that it has not begun
	Beside        *int     `json:"beside,omitempty"`  // of both, those that no permit was held for
	KVCache       *float64 `json:"kv_cache,omitempty"`
	PrefixHits    *float64 `json:"prefix_hits,omitempty"`           // share of the tokens of prompts that were in its prefix cache, of late
	PrefixQueried *float64 `json:"prefix_tokens_queried,omitempty"` // since it began
	PrefixFound   *float64 `json:"prefix_tokens_found,omitempty"`   // of these
	Adapters      []string `json:"adapters,omitempty"`              // in use
	AgeSeconds    *float64 `json:"age_seconds,omitempty"`           // since it was asked
	Error         string   `json:"error,omitempty"`                 // of the last question; empty if it was answered
}

// LackStats is a model or a path that one engine does not have, so that requests for it do not go there.
type LackStats struct {
	URL          string   `json:"url"`
	Model        string   `json:"model,omitempty"`
	Path         string   `json:"path,omitempty"`
	Reason       string   `json:"reason"`
	AgainSeconds *float64 `json:"again_seconds"` // until the engine is asked again; nil: as long as the reason holds
}

// NoSlotStats is the state of a pool's requests that take no slot, which have places of their own at each server.
type NoSlotStats struct {
	Limit         int               `json:"limit"`       // places
	PerAccount    int               `json:"per_account"` // of them, what one account may hold
	Held          int               `json:"held"`
	Granted       uint64            `json:"granted"` // since the first of these requests, as is Refused
	Refused       map[Reason]uint64 `json:"refused"`
	Accounts      []NoSlotAccount   `json:"accounts,omitempty"` // those that hold most, most first
	OtherAccounts int               `json:"other_accounts"`     // that hold any, beside these
}

// NoSlotAccount is what an account holds of the places for requests that take no slot.
type NoSlotAccount struct {
	Account string `json:"account"`
	Held    int    `json:"held"`
}

// AutoStats is what is known of an endpoint with concurrency: auto.
type AutoStats struct {
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	Samples uint64 `json:"samples"` // answers that have shown anything
}

// QueueStats is how a pool queues: the bounds in force, and how much of them is used.
type QueueStats struct {
	Discipline   string `json:"discipline"`
	Cost         string `json:"cost"`
	Limit        int    `json:"limit"`
	PerAccount   int    `json:"per_account"`
	Bytes        int64  `json:"bytes"`
	BytesLimit   int64  `json:"bytes_limit"`
	MaxWaitMs    int64  `json:"max_wait_ms"`
	OldestMillis *int64 `json:"oldest_wait_ms"` // since the oldest request waiting arrived
}

// BalanceStats is how a pool chooses endpoints.
type BalanceStats struct {
	Policy  string                       `json:"policy"`  // in force
	Choices map[string]map[string]uint64 `json:"choices"` // grants since the pool began, by the policy of their time, then by the reason of the choice
}

// BandStats is the state of one band.
type BandStats struct {
	Band         string  `json:"band"`
	Held         int     `json:"held"`
	Queued       int     `json:"queued"`
	Accounts     int     `json:"accounts"` // with requests waiting
	OldestMillis *int64  `json:"oldest_wait_ms"`
	VirtualTime  float64 `json:"virtual_time"` // V of package fairqueue
}

// AccountStats is what an account holds in a pool, and what of it waits.
type AccountStats struct {
	Account        string      `json:"account"`
	Weight         float64     `json:"weight"`
	Held           int         `json:"held"`
	Queued         int         `json:"queued"`
	Cap            *int        `json:"cap"`      // permits it may hold at once; nil: no cap
	AtLimit        bool        `json:"at_limit"` // it holds as many as its cap, and the pool has slots beyond that
	Bytes          int64       `json:"bytes"`    // of its requests waiting
	PendingRetries int         `json:"pending_retries"`
	MeanOutput     *float64    `json:"mean_output_cost"` // of its last requests; nil ByRequests too
	OldestMillis   *int64      `json:"oldest_wait_ms"`
	Bands          []FlowStats `json:"bands"` // in which it holds or waits, the highest first
}

// FlowStats is what an account has in one band.
type FlowStats struct {
	Band      string  `json:"band"`
	Held      int     `json:"held"`
	Queued    int     `json:"queued"`
	VTimeLead float64 `json:"vtime_lead"` // cost over weight by which it is ahead of its share: others go first until they have caught up
}
