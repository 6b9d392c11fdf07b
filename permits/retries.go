package permits

import (
	"math"
	"strings"
	"time"

	"colonnade/fairqueue"
)

// pendingRetries counts the clients of one band that were refused and are not due back yet, by account and by the
// second in which they are due. An account without any costs nothing.
type pendingRetries struct {
	accounts map[string]accountRetries
	total    clientShare
	weight   float64 // of the accounts
	seconds  [maxRetryAfter/time.Second + 1]map[string]clientShare
	second   int // the first that is counted; earlier ones are past
}

type accountRetries struct {
	name   string // its own memory
	due    clientShare
	weight float64
}

// clientShare is a fixed-point number of clients: a client may come back to one of several pools, and each counts it by
// the probability of that. Sums of floats would not come back to 0.
type clientShare int

const oneClient clientShare = 1 << 10

func (n clientShare) clients() float64 { return float64(n) / float64(oneClient) }

// ceil is the number of clients, rounded up.
func (n clientShare) ceil() int { return int((n + oneClient - 1) / oneClient) }

// add counts a client that is due at an instant up to maxRetryAfter after now, and comes back here with this probability.
func (c *pendingRetries) add(now, at time.Duration, claim fairqueue.Claim, probability float64) {
	c.due(now) // the slot of the ring may still have clients of maxRetryAfter ago
	second := &c.seconds[max(int(at/time.Second), c.second)%len(c.seconds)]
	if *second == nil {
		*second = map[string]clientShare{}
	}
	n := clientShare(max(1, math.Round(probability*float64(oneClient))))
	account := c.accounts[claim.Account].name
	if account == "" {
		account = strings.Clone(claim.Account) // which may be a part of a longer text
	}
	(*second)[account] += n
	c.change(account, n, claim.Weight)
}

// due is how many clients are due from now on. It drops those that were due before.
func (c *pendingRetries) due(now time.Duration) clientShare {
	current := int(now / time.Second)
	for past := min(current-c.second, len(c.seconds)); past > 0; past-- {
		second := &c.seconds[(c.second+past-1)%len(c.seconds)]
		for account, n := range *second {
			c.change(account, -n, c.accounts[account].weight)
		}
		*second = nil
	}
	c.second = max(c.second, current)
	return c.total
}

func (c *pendingRetries) change(account string, by clientShare, weight float64) {
	if c.accounts == nil {
		c.accounts = map[string]accountRetries{}
	}
	if !(weight > 0) {
		weight = 1
	}
	was := c.accounts[account]
	is := accountRetries{name: account, due: was.due + by, weight: weight}
	c.total += by
	c.weight += is.weight - was.weight
	c.accounts[account] = is
	if is.due == 0 {
		c.weight -= is.weight
		delete(c.accounts, account)
	}
	if c.total == 0 {
		c.weight = 0 // or rounding errors would accumulate
	}
}

// check compares the sums with what can be counted.
func (c *pendingRetries) check(fail failFunc) {
	total, weight, bySecond := clientShare(0), 0.0, clientShare(0)
	for account, a := range c.accounts {
		if a.due <= 0 {
			fail("account %q is kept with %d pending retries", account, a.due)
		}
		total += a.due
		weight += a.weight
	}
	for _, second := range c.seconds {
		for _, n := range second {
			bySecond += n
		}
	}
	if total != c.total || bySecond != c.total || math.Abs(weight-c.weight) > 1e-6*max(1, weight) {
		fail("%d pending retries of weight %v; counted %d of %v, and %d by seconds",
			c.total, c.weight, total, weight, bySecond)
	}
}
