package permits

import (
	"time"

	"colonnade/fairqueue"
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

// Policy chooses among the endpoints that have a free slot.
type Policy uint8

// The policies.
const (
	// LeastLoaded takes the endpoint that is least loaded with the new request on it: permits held over concurrency
	// times weight. Equals are taken in turn.
	LeastLoaded Policy = iota
	// RoundRobin takes the next endpoint in the order of SetEndpoints that has a free slot.
	RoundRobin
)

// Cost says what a request costs its account in the fair order.
type Cost uint8

// The costs.
const (
	ByRequests Cost = iota // one each
	ByTokens               // what it uses: estimated at the grant, charged as it goes, corrected at the end
)

// String returns the cost's name as documents spell it.
func (c Cost) String() string { return [...]string{"requests", "tokens"}[min(c, ByTokens)] }

// Config is how a pool queues and balances. A bound of 0 lets nothing wait: nothing is unlimited.
type Config struct {
	Discipline Discipline
	Cost       Cost
	Policy     Policy
	Limit      int           // requests waiting
	PerAccount int           // requests waiting of one account
	Bytes      int64         // bytes held by the requests waiting
	MaxShare   float64       // of the slots, what one account may hold, but always one; 0 and 1 and above: all of them
	MaxWait    time.Duration // the longest that any request waits

	PromoteAfter time.Duration // when a waiter of a low band may go before a higher one; 0: never

	Fence *Fence // without it nothing is granted, and whoever could be served waits; nil: it always may
}

// Endpoint is an engine as far as permits go. The ID stands for the engine: whatever else changes, what is held under
// an ID stays counted against it.
type Endpoint struct {
	ID          string
	Concurrency int // slots; 0 and less: none
	Taken       int // of them, by somebody who does not ask this pool: not granted
	Weight      int // for LeastLoaded; 0 and less: 1
}

// Request asks for one permit.
type Request struct {
	Account    string
	Weight     float64 // the account's share relative to others; 0: 1
	Band       Band
	Cost       float64 // of its input, as far as that is known; 0: 1. It and Output count only ByTokens
	Output     float64 // the most that its output may cost; 0: not known
	Bytes      int64   // what it holds in memory while it waits
	Concurrent int     // permits the account may hold at once in this pool; 0: no cap of its own

	MaxWait time.Duration // 0: do not wait (reason busy). The pool's own MaxWait bounds it too
	// MaxExpected makes it wait only if the expected wait is known and at most this, else it is refused, reason busy;
	// negative: it waits whatever it is. A caller who sets a bound tries elsewhere when refused, so Retry-After does not
	// reckon with the client's coming back; but it does if there was no room, since then nobody asks here again.
	MaxExpected       time.Duration
	ReturnProbability float64   // that a client who is told to come back comes to this pool: it is refused by others too; 0: 1
	JitterSeed        float64   // of the jitter of Retry-After, what falls to it: 0 to 1, but 0: drawn at random
	Deadline          time.Time // the permit must be granted before it; zero: none
	Arrived           time.Time // when the request first arrived; zero: now

	// Rejoin says that the request held a permit before and tries again. It waits where Arrived puts it among its
	// account's requests, ahead of all that came after it, and is not refused for want of room or for what is expected.
	Rejoin bool
	Avoid  []string // IDs of endpoints that must not be given; not changed by the caller while Acquire runs

	// Progress, if there is one, is told how the request waits: at once when it begins to wait, then whenever that has
	// changed, but at most each second. Acquire calls it, and cannot take a permit meanwhile.
	Progress func(Progress)
}

// Reason says, machine-readably, why there was no permit.
type Reason string

// The reasons.
const (
	QueueFull        Reason = "queue_full"         // no room in the queue, or room was needed for an account that holds less
	AccountQueueFull Reason = "account_queue_full" // the account has as many waiting as it may
	AccountLimit     Reason = "account_limit"      // the account holds as many permits as its cap (Concurrent, MaxShare) lets it
	QueueTimeout     Reason = "queue_timeout"      // it waited, or would have to wait, longer than MaxWait
	Deadline         Reason = "deadline"           // its deadline passed, or would before its turn
	Busy             Reason = "busy"               // no slot now, and the request asked not to wait, or not that long
	NoEndpoint       Reason = "no_endpoint"        // no endpoint that is usable and not to be avoided
	Draining         Reason = "draining"           // nobody waits here any more, or nothing is granted any more
)

// Refusal is the error of an Acquire that the pool turned down.
type Refusal struct {
	Reason     Reason
	RetryAfter time.Duration // when to come back: 1 s to 32 s, jittered
	Expected   time.Duration // the wait that was expected; 0 when unknown
	Queued     int           // requests waiting at the time
	MayWait    bool          // the queue has room: only the time that the request may wait was too short
}

// Error implements error.
func (r *Refusal) Error() string { return "no permit: " + string(r.Reason) }

// Load is how busy a pool is. It has the fields of [colonnade/forwarding/hop.Load], which is its form on the wire.
type Load struct {
	Free     int           // slots that a request could get now; none while the fence has passed
	Held     int           // permits held, also on endpoints that are no longer usable
	Limit    int           // slots of all usable endpoints
	Queued   int           // requests waiting
	Expected time.Duration // wait of a newcomer that holds nothing yet, in band Standard
	Known    bool          // whether Expected is measured; without it the rate was not yet known
}
