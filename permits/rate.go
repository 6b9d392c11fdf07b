package permits

import (
	"time"

	"colonnade/fairqueue"
)

const (
	minCompletions = 16 // from so many on the rate is used
	meanOver       = 64 // completions that the mean looks back on, roughly
	silence        = 3  // releases overdue at which the rate is doubted
	longestWait    = 24 * time.Hour
)

// holds measures how long permits are held.
type holds struct {
	completions int
	mean        float64       // in nanoseconds
	last        time.Duration // instant of the last completion
}

func (h *holds) completed(now, held time.Duration) {
	h.completions++
	h.mean += (float64(held) - h.mean) / float64(min(h.completions, meanOver))
	h.last = now
}

// rate is how many of so many slots come free per second when all are taken; 0 while that is not known. fullSince is
// when they were last all taken, negative if they are not.
func (h *holds) rate(now, fullSince time.Duration, slots int) float64 {
	if h.completions < minCompletions || slots == 0 {
		return 0
	}
	rate := float64(slots) * float64(time.Second) / max(h.mean, 1)
	if quiet := now - max(h.last, fullSince); fullSince >= 0 && quiet > 0 {
		rate = min(rate, silence/quiet.Seconds())
	}
	return rate
}

func (p *Pool) rateLocked(now time.Duration) float64 {
	return p.holds.rate(now, p.fullSince, p.limit)
}

// expectedLocked is how long a newcomer that has to wait would wait, and whether that is known.
func (p *Pool) expectedLocked(now time.Duration, claim fairqueue.Claim) (time.Duration, bool) {
	rate := p.rateLocked(now)
	if rate == 0 {
		return 0, false
	}
	return seconds((p.queue.Ahead(claim) + 1) / rate), true
}

// refuseLocked makes the refusal of a request, and counts it.
func (p *Pool) refuseLocked(now time.Duration, a *ask, reason Reason) *Refusal {
	p.refused[reason]++
	r := &Refusal{Reason: reason, Queued: p.queue.Len()}
	r.Expected, _ = p.expectedLocked(now, a.claim)
	r.RetryAfter = p.retryAfterLocked(now)
	if a.comesBack {
		p.told.add(now + r.RetryAfter)
	}
	return r
}

// Refuse makes the refusal of a request that had a permit and could not use it, since the engine had no slot after all.
func (p *Pool) Refuse(reason Reason) *Refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuseLocked(p.instant(), &ask{claim: fairqueue.Claim{Band: Standard}, comesBack: true}, reason)
}

const (
	leastRetryAfter = time.Second
	mostRetryAfter  = 32 * time.Second
	jitter          = 1.25 // the most by which it is longer than computed
)

// retryAfterLocked is the time that everybody who waits or was told to come back takes to be served.
func (p *Pool) retryAfterLocked(now time.Duration) time.Duration {
	after := leastRetryAfter
	ahead := p.queue.Len() + p.told.count(now)
	if rate := p.rateLocked(now); rate > 0 {
		after = seconds(float64(ahead) / rate)
	}
	// The bounds leave room for the jitter: if it were cut off at them, those who hit a bound would all come back at once.
	after = min(max(after, leastRetryAfter), time.Duration(float64(mostRetryAfter)/jitter))
	return time.Duration(float64(after) * (1 + (jitter-1)*p.rand.Float64()))
}

// seconds converts and bounds: a rate next to nothing must not overflow.
func seconds(s float64) time.Duration {
	if s >= longestWait.Seconds() {
		return longestWait
	}
	return time.Duration(s * float64(time.Second))
}

// comebacks counts those who were told to come back, by the second in which they are due.
type comebacks struct {
	due    [mostRetryAfter/time.Second + 1]int
	second int // the first that is counted; those before are past
	total  int
}

// add notes one who is due at an instant at most mostRetryAfter after that of the last count.
func (c *comebacks) add(at time.Duration) {
	c.due[int(at/time.Second)%len(c.due)]++
	c.total++
}

// count forgets those who were due before now and returns how many are left.
func (c *comebacks) count(now time.Duration) int {
	current := int(now / time.Second)
	for past := min(current-c.second, len(c.due)); past > 0; past-- {
		slot := &c.due[(c.second+past-1)%len(c.due)]
		c.total -= *slot
		*slot = 0
	}
	c.second = max(c.second, current)
	return c.total
}
