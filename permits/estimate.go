package permits

import "time"

// estimatedRateLocked is the rate, or a guess while that is not known: good enough to say when to come back, not to refuse
// anybody.
func (p *Pool) estimatedRateLocked(now time.Duration) float64 {
	return p.holds.rateIf(p.estimatedHoldLocked(now), now, p.fullSince, p.limit)
}

// uncertaintyLocked is 1 before anything has completed, and 0 once each slot has come free a few times.
func (p *Pool) uncertaintyLocked() float64 {
	return max(0, 1-float64(p.holds.completions)/float64(max(minCompletions, 4*p.limit)))
}

// estimatedHoldLocked is for how long permits are likely to be held, in nanoseconds. Those who complete first are those
// who hold least, so the mean of the first is too short. What still runs counts as well: all time held over completions
// is the maximum-likelihood estimate for exponential holds. But holds are more alike than these. When slots were all
// taken at once, nothing follows until they come free, and then they do so together; so the estimate comes in only as
// they do, in place of what the operator expects.
func (p *Pool) estimatedHoldLocked(now time.Duration) float64 {
	unsure := p.uncertaintyLocked()
	if unsure == 0 {
		return p.holds.mean
	}
	stated := float64(p.configuredHoldLocked())
	n := float64(p.holds.completions)
	if n == 0 {
		return stated
	}
	running := float64(p.heldLocked())*float64(now) - p.grantTimeSum
	seen := min(1, 2*n/float64(max(p.limit, 1)))
	return (1-seen)*stated + seen*(p.holds.mean+unsure*running/n)
}

// configuredHoldLocked is the hold with which a full queue is served just within the longest wait: the queue's bounds are
// the operator's own word of what to expect. Without a queue it is a second.
func (p *Pool) configuredHoldLocked() time.Duration {
	wait := min(p.config.MaxWait, maxRetryAfter)
	if wait <= 0 || p.config.Limit < 1 {
		return time.Second
	}
	return seconds(wait.Seconds() * float64(p.limit) / float64(p.config.Limit))
}
