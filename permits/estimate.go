package permits

import "time"

// estimatedRateLocked is the drain rate of so many slots, or an estimate while that is not known. The estimate is good enough for
// Retry-After, but not to refuse a request for it.
func (p *Pool) estimatedRateLocked(now time.Duration, slots int) float64 {
	return p.holds.rateIf(p.estimatedHoldLocked(now), now, p.fullSince, slots)
}

// uncertaintyLocked is 1 before any permit was released, and falls to 0 by the time each slot was released four times.
func (p *Pool) uncertaintyLocked() float64 {
	return max(0, 1-float64(p.holds.completions)/float64(max(minCompletions, 4*p.limit)))
}

// estimatedHoldLocked is how long permits are likely to be held, in nanoseconds. The first permits released are those held
// for the shortest time, so their mean is too short. The permits still held count as well: all time held over completions is the
// maximum-likelihood estimate for exponential holds. But real holds vary less than that. When all slots were taken at
// once, nothing is known until they are released, and then they are released together; so the estimate replaces the
// configured hold only as slots are released.
func (p *Pool) estimatedHoldLocked(now time.Duration) float64 {
	uncertainty := p.uncertaintyLocked()
	if uncertainty == 0 {
		return p.holds.mean
	}
	configured := float64(p.configuredHoldLocked())
	n := float64(p.holds.completions)
	if n == 0 {
		return configured
	}
	running := float64(time.Duration(p.heldLocked())*now - p.grantTimeSum) // exact, even if both overflow
	seen := min(1, 2*n/float64(max(p.limit, 1)))
	return (1-seen)*configured + seen*(p.holds.mean+uncertainty*running/n)
}

// configuredHoldLocked is the hold with which a full queue is served just within the longest wait: by its bounds, the
// operator has said what to expect. Without a queue it is a second.
func (p *Pool) configuredHoldLocked() time.Duration {
	wait := min(p.config.MaxWait, maxRetryAfter)
	if wait <= 0 || p.config.Limit < 1 {
		return time.Second
	}
	return seconds(wait.Seconds() * float64(p.limit) / float64(p.config.Limit))
}
