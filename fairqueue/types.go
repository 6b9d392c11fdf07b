package fairqueue

import (
	"errors"
	"time"
)

// Errors of Push.
var (
	ErrFull        = errors.New("fairqueue: no room in the queue")
	ErrAccountFull = errors.New("fairqueue: no room left for this account")
)

// Band is a priority class. A lower band waits while a higher one has anything that can be served; see the package
// comment for the exception.
type Band uint8

// The bands, highest first.
const (
	Interactive Band = iota
	Standard
	Batch

	bandCount = 3
)

// String returns the band's name as documents spell it.
func (b Band) String() string {
	return [...]string{"interactive", "standard", "batch"}[min(b, Batch)]
}

// Discipline is the order of service inside a band.
type Discipline uint8

// The disciplines.
const (
	Fair Discipline = iota // start-time fair queuing over accounts
	FIFO                   // oldest first, of whichever account
)

// String returns the discipline's name as documents spell it.
func (d Discipline) String() string { return [...]string{"fair", "fifo"}[min(d, FIFO)] }

// Config holds the bounds of a queue and its order. A bound of 0 leaves no room at all: nothing is unlimited.
type Config struct {
	Discipline Discipline
	Limit      int   // items waiting
	PerAccount int   // items waiting of one account
	Bytes      int64 // bytes held by the items waiting

	PromoteAfter time.Duration // see the package comment, "Bands"; 0: no promotion
	MaxShare     float64       // of Slots, what one account may run at once, but at least one; 0, 1 and above: no such cap
	Slots        int           // what can run at once; used for caps only

	// Learn makes costs estimates, from the claim's input and from what the account's last outputs have cost. Without it
	// a request costs what its claim says. A change of Learn is a change of unit, and resets virtual time and estimates.
	Learn bool
}

// Claim is what a request asks for, and for which account. Weight and Concurrent of an account are those of its newest
// claim. A weight, cost or number of outputs that is not positive and finite counts as 1.
type Claim struct {
	Account    string
	Weight     float64 // share relative to other accounts
	Band       Band
	Cost       float64 // of the request; with Config.Learn, of its input
	Output     float64 // with Config.Learn, the most that its output may cost; 0: not known
	Outputs    float64 // with Config.Learn, how many outputs it asks for
	Concurrent int     // what the account may run at once, in all bands; 0: no cap of its own
}

// Item is one waiting request. The caller owns it and must not change its exported fields while it is in a queue; an
// item is in one queue at a time.
type Item struct {
	Claim
	Bytes   int64
	Arrived time.Time // its place in its flow, and its age for PromoteAfter
	Value   any       // for the caller

	flow       *flow    // nil: not in a queue
	estimate   Estimate // of its cost
	cost       float64  // sum of the estimate
	prev, next *Item    // neighbours in flow, in order of arrival
	age        int64    // when it arrived, in nanoseconds since Queue.epoch
	seq        int64    // orders items that arrived at the same time
}
