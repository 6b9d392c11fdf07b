package permits

import (
	"math"
	"time"

	"colonnade/fairqueue"
)

// comebacks counts those of one band who were told to come back, by their account and by the second in which they are due. An account
// of which nobody is due any more costs nothing.
type comebacks struct {
	accounts map[string]comeback
	total    int
	weight   float64 // of the accounts
	seconds  [mostRetryAfter/time.Second + 1]map[string]int
	second   int // the first that is counted; those before are past
}

type comeback struct {
	due    int
	weight float64
}

// add notes one who is due at an instant at most mostRetryAfter after that of the last due.
func (c *comebacks) add(at time.Duration, claim fairqueue.Claim) {
	second := &c.seconds[int(at/time.Second)%len(c.seconds)]
	if *second == nil {
		*second = map[string]int{}
	}
	(*second)[claim.Account]++
	c.change(claim.Account, 1, claim.Weight)
}

// due is how many are due yet. It drops those who were before now.
func (c *comebacks) due(now time.Duration) int {
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

func (c *comebacks) change(account string, by int, weight float64) {
	if c.accounts == nil {
		c.accounts = map[string]comeback{}
	}
	if !(weight > 0) {
		weight = 1
	}
	was := c.accounts[account]
	is := comeback{due: was.due + by, weight: weight}
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
func (c *comebacks) check(fail failFunc) {
	total, weight, bySecond := 0, 0.0, 0
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
		fail("%d of weight %v are to come back; counted %d of %v, and %d by seconds", c.total, c.weight, total, weight, bySecond)
	}
}
