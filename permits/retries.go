package permits

import (
	"math"
	"time"

	"colonnade/fairqueue"
)

// pendingRetries counts those of one band who were told to come back, by their account and by the second in which they are
// due. An account of which nobody is due any more costs nothing.
type pendingRetries struct {
	accounts map[string]accountRetries
	total    clientShare
	weight   float64 // of the accounts
	seconds  [maxRetryAfter/time.Second + 1]map[string]clientShare
	second   int // the first that is counted; those before are past
}

type accountRetries struct {
	due    clientShare
	weight float64
}

// clientShare counts clients who may come back elsewhere as well. Unlike floats, sums of them come back to nothing.
type clientShare int

const oneClient = 1 << 10 // of one client

func (p clientShare) clients() float64 { return float64(p) / oneClient }

// ceil is how many clients that are at least, for people.
func (p clientShare) ceil() int { return int((p + oneClient - 1) / oneClient) }

// add notes one who is due at an instant after now, by mostRetryAfter at most, and comes here with this chance.
func (c *pendingRetries) add(now, at time.Duration, claim fairqueue.Claim, chance float64) {
	c.due(now) // or it would stand beside those of long ago
	second := &c.seconds[max(int(at/time.Second), c.second)%len(c.seconds)]
	if *second == nil {
		*second = map[string]clientShare{}
	}
	n := clientShare(max(1, math.Round(chance*oneClient)))
	(*second)[claim.Account] += n
	c.change(claim.Account, n, claim.Weight)
}

// due is how many are due yet. It drops those who were before now.
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
	is := accountRetries{due: was.due + by, weight: weight}
	c.total += by
	c.weight += is.weight - was.weight
	c.accounts[account] = is
	if is.due == 0 {
		c.weight -= is.weight
		delete(c.accounts, account)
	}
	if c.total == 0 {
		c.weight = 0 // sums of fractions do not come back to nothing by themselves
	}
}

// check compares the sums with what they are of.
func (c *pendingRetries) check(fail failFunc) {
	total, weight, bySecond := clientShare(0), 0.0, clientShare(0)
	for account, a := range c.accounts {
		if a.due <= 0 {
			fail("%d of account %q are to come back, and it is still kept", a.due, account)
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
		fail("%d of weight %v are to come back; counted %d of %v, and %d by seconds",
			c.total, c.weight, total, weight, bySecond)
	}
}
