package permits

import (
	"time"

	"colonnade/fairqueue"
)

// refuseLocked makes the refusal of a request, and counts it.
func (p *Pool) refuseLocked(now time.Duration, a *ask, reason Reason) *Refusal {
	p.refused[reason]++
	r := &Refusal{Reason: reason, Queued: p.queue.Len()}
	r.Expected, _ = p.expectedLocked(now, a.claim)
	r.RetryAfter = p.retryAfterLocked(now, a.claim)
	if a.comesBack {
		p.told[a.claim.Band].add(now+r.RetryAfter, a.claim)
	}
	return r
}

// Refuse makes the refusal of a request that had a permit and could not use it, since the engine had no slot after all.
func (p *Pool) Refuse(r *Request, reason Reason) *Refusal {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuseLocked(now, &ask{claim: p.claim(r), comesBack: r.MaxExpected < 0}, reason)
}

const (
	leastRetryAfter = time.Second
	mostRetryAfter  = 32 * time.Second
	jitter          = 1.25 // the most by which it is longer than computed
)

// retryAfterLocked is the time that it takes to serve all who are ahead of this account: of those who wait, and of those
// who were told to come back and have not yet.
func (p *Pool) retryAfterLocked(now time.Duration, c fairqueue.Claim) time.Duration {
	after := leastRetryAfter
	if rate := p.rateLocked(now); rate > 0 {
		after = seconds((p.queue.Ahead(c) + p.toldAheadLocked(now, c)) / rate)
	}
	// The bounds leave room for the jitter: if it were cut off at them, those who hit a bound would all come back at once.
	after = min(max(after, leastRetryAfter), time.Duration(float64(mostRetryAfter)/jitter))
	return time.Duration(float64(after) * (1 + (jitter-1)*p.rand.Float64()))
}

// toldAheadLocked is how many who were told to come back are served before one more of this account: all of higher bands,
// and of its own, under Fair, no more than its share lets go first, as in the queue itself. So an account that asks again
// and again puts off nobody but itself.
func (p *Pool) toldAheadLocked(now time.Duration, c fairqueue.Claim) float64 {
	above := 0
	for i := range c.Band {
		above += p.told[i].due(now)
	}
	told := &p.told[c.Band]
	all := float64(told.due(now))
	if p.config.Discipline == FIFO {
		return float64(above) + all
	}
	own := told.accounts[c.Account]
	share := float64(len(told.accounts))
	if own.due > 0 {
		share = float64(own.due)*told.weight/own.weight + share - 1
	}
	return float64(above) + max(min(all, share), float64(own.due)*p.queue.Stretch(c))
}

// toldLocked is how many were told to come back and have not yet, in all or of one account.
func (p *Pool) toldLocked(now time.Duration) (n int) {
	for i := range p.told {
		n += p.told[i].due(now)
	}
	return n
}

func (p *Pool) toldOfLocked(account string) (n int) {
	for i := range p.told {
		n += p.told[i].accounts[account].due
	}
	return n
}
