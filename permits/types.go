package permits

import (
	"time"

	"colonnade/balance"
	"colonnade/fairqueue"
	"colonnade/reasons"
)

// Band is a request's priority class; see fairqueue.
type Band = fairqueue.Band

// The bands, highest first.
const (
	Interactive = fairqueue.Interactive
	Standard    = fairqueue.Standard
	Batch       = fairqueue.Batch
)

// Discipline is the order of service inside a band; see fairqueue.
type Discipline = fairqueue.Discipline

// The disciplines.
const (
	Fair = fairqueue.Fair
	FIFO = fairqueue.FIFO
)

// Cost is what a request costs its account in the fair order.
type Cost uint8

// The costs.
const (
	ByRequests Cost = iota // one each
	ByTokens               // what it uses: estimated at the grant, charged while it runs, corrected at the end
)

// String returns the cost's name as documents spell it.
func (c Cost) String() string { return [...]string{"requests", "tokens"}[min(c, ByTokens)] }

// Config is how a pool queues and balances. A bound of 0 lets nothing wait: nothing is unlimited.
type Config struct {
	Discipline Discipline
	Cost       Cost
	Limit      int           // requests waiting
	PerAccount int           // requests waiting of one account
	Bytes      int64         // bytes held by the requests waiting
	MaxShare   float64       // of the slots, what one account may hold, but at least one; 0, 1 and above: all of them
	MaxWait    time.Duration // the longest that any request waits

	PromoteAfter time.Duration // after which a band can be promoted, see fairqueue; 0: never

	Balance    balance.Config // how an endpoint is chosen among those with a free slot
	PreferWait time.Duration  // for which a request declines other endpoints than the one that it prefers; 0: it takes what is free

	Fence *Fence // once it has passed, no permit is granted and requests wait; nil: never
}

// Endpoint is an engine and its slots. The ID stands for the engine: permits held under an ID stay counted against it,
// whatever else changes.
type Endpoint struct {
	ID          string
	Concurrency int // slots; 0 and less: none
	Taken       int // of them, held by other pools and other servers: not granted here; may be more than Concurrency
	Weight      int // for package balance; 0 and less: 1

	// Withheld says that no slot is granted for now, because another server may grant them. Requests wait for the endpoint as for
	// one whose slots are taken, and the pool's Limit leaves it out.
	Withheld bool
	// Draining says that no slot is granted until the documents say otherwise. No request waits for the endpoint, and its slots count
	// nowhere; permits held on it stay valid.
	Draining bool
}

// Life is what is known of whether an engine lives.
type Life uint8

// The states of knowledge about an engine.
const (
	Unheard  Life = iota // nothing new
	Alive                // it has sent something since the last report
	Doubtful             // it sends nothing, and does not answer its health check: permits there may never be released
)

// Request asks for one permit.
type Request struct {
	Account    string
	Weight     float64 // the account's share relative to others; 0: 1
	Band       Band
	Cost       float64 // of its input, as far as that is known; 0: 1. It and Output count only ByTokens
	Output     float64 // the most that its output may cost; 0: not known
	Outputs    float64 // how many outputs it asks for, which cost as much as so many requests; 0: 1
	Bytes      int64   // of memory that it holds while it waits
	Concurrent int     // permits the account may hold at once in this pool; 0: no cap of its own

	MaxWait time.Duration // 0: do not wait (reason busy). The pool's own MaxWait bounds it too
	// MaxExpected bounds the expected wait: the request waits only if that is known and at most this, and else is refused
	// with the reason busy. Negative: no bound. A refused request with a bound is counted as a pending retry only if the
	// queue was full, since otherwise its caller tries elsewhere and may ask here again.
	MaxExpected       time.Duration
	ReturnProbability float64   // that the client comes back to this pool if it is refused, as it is by others too; 0: 1
	JitterFraction    float64   // the part of the jitter of Retry-After that it gets, above 0 to 1; 0: drawn at random
	Deadline          time.Time // the permit must be granted before it; zero: none
	Arrived           time.Time // when the request first arrived anywhere; zero: now
	Now               time.Time // when the caller has read the clock, a moment ago; zero: Acquire reads it

	// Rejoin says that the request held a permit before and tries again, or had a place in the queue of the server that was the
	// pool's home before. Its Arrived puts it ahead of everything of its account that came later, and it is refused neither for
	// want of room nor for the expected wait, but still waits no longer than MaxWait.
	Rejoin bool
	// StandIn says that the server that is the pool's home did not answer: the request waits in a pool whose home is another server
	// (see [Pool.SetHome]), instead of being refused.
	StandIn bool
	// Detached says that the request waits without a goroutine: Acquire returns ErrWaits instead of waiting.
	Detached bool
	Avoid    []string // IDs of endpoints that it must not get; the caller must not change it until the wait is over

	// Excluded are endpoints that it must not get either, and neither would its client's next request: the expected wait and Retry-After
	// count only the slots of the others.
	Excluded Exclusions

	// Balance is what the choice of the endpoint goes by; nil: nothing is known. The caller must not change it.
	Balance *balance.Request

	// Progress, if set, is called with the request's progress: when it begins to wait, then once a second. Acquire calls it,
	// and cannot return a permit meanwhile. A detached request has none.
	Progress func(Progress)

	// WaitedBefore is how long the request has waited for permits that it could not use. [Permit.Queued] counts it.
	WaitedBefore time.Duration

	waiter *waiter // set from ErrWaits until the next Acquire
}

// Reason is the machine-readable reason of a refusal.
type Reason string

// The reasons.
const (
	QueueFull        Reason = reasons.QueueFull        // no room in the queue, or its place was needed for an account that holds less
	AccountQueueFull Reason = reasons.AccountQueueFull // the account has as many requests waiting as it may
	AccountLimit     Reason = reasons.AccountLimit     // the account is at its cap, Concurrent or MaxShare: this comes before the others that end a wait
	QueueTimeout     Reason = reasons.QueueTimeout     // it waited, or is expected to wait, longer than MaxWait
	Deadline         Reason = reasons.Deadline         // its deadline passed, or is expected to pass before it is served
	Busy             Reason = reasons.Busy             // no free slot, and the request asked not to wait, or not that long
	NoEndpoint       Reason = reasons.NoEndpoint       // no usable endpoint that it does not avoid
	Draining         Reason = reasons.Draining         // CloseQueue or Drain was called
	Moved            Reason = reasons.Moved            // another server is the pool's home, see SetHome
)

// Refusal is the error of an Acquire that the pool refused.
type Refusal struct {
	Reason     Reason
	RetryAfter time.Duration // when to come back: 1 s to 32 s, jittered
	Expected   time.Duration // the expected wait; 0 if not known
	// RetryInterval is by how much RetryAfter grows with each further request of the account that is refused and comes back; 0 = not known. A caller that
	// refuses requests by itself spreads them by it.
	RetryInterval time.Duration
	MayWait       bool // only the time that it may wait was too short: the queue has room
	Waited        bool // it had a place in the queue, now or before (Request.Rejoin)
}

// Error implements error.
func (r *Refusal) Error() string { return "no permit: " + string(r.Reason) }

// Load is how busy a pool is. forwarding/hop.Load is its form on the wire.
type Load struct {
	Free     int           // slots that a request could get now; none while the fence has passed
	Held     int           // permits held, also on endpoints that are no longer usable
	Limit    int           // slots of all usable endpoints that are neither withheld nor draining
	Queued   int           // requests waiting
	Expected time.Duration // wait of a newcomer of band Standard whose account holds nothing yet
	Known    bool          // whether Expected is measured; else the rate is not yet known
}
