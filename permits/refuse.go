package permits

import (
	"time"

	"colonnade/fairqueue"
)

// refuseLocked makes the refusal of a request, and counts it.
func (p *Pool) refuseLocked(now time.Duration, a *arrival, reason Reason) *Refusal {
	return p.refuseForLocked(now, a, reason, reason)
}

// refuseWaitLocked makes the refusal of a request that may not wait, or not any longer; bound names the bound that it met.
// While its account is at its cap, the cap is the reason instead: no slot that another account frees is for this request,
// and with a higher cap it might not have had to wait at all.
func (p *Pool) refuseWaitLocked(now time.Duration, a *arrival, bound Reason) *Refusal {
	if p.queue.AtLimit(a.claim) {
		return p.refuseForLocked(now, a, bound, AccountLimit)
	}
	return p.refuseForLocked(now, a, bound, bound)
}

func (p *Pool) refuseForLocked(now time.Duration, a *arrival, bound, reason Reason) *Refusal {
	p.refused[reason]++
	r := &Refusal{Reason: reason, MayWait: bound == Busy || bound == QueueTimeout, Waited: a.waited}
	r.Expected, _ = p.expectedLocked(now, a.claim, &a.excluded)
	r.RetryAfter = p.retryAfterLocked(now, a)
	r.RetryInterval = p.retryIntervalLocked(now, a.claim)
	if reason == Moved || a.bounded && bound != QueueFull && bound != AccountQueueFull {
		return r // it tries elsewhere, and may ask here again without that bound before its client is answered
	}
	p.pendingRetries[a.claim.Band].add(now, now+r.RetryAfter, a.claim, a.returnProbability)
	if alike := p.restrictLocked(now, &a.excluded); alike != nil {
		alike.retries.add(now, now+r.RetryAfter, a.claim, a.returnProbability)
	}
	return r
}

// Refuse makes the refusal of a request that had a permit and could not use it, since the engine had no slot for it.
func (p *Pool) Refuse(r *Request, reason Reason) *Refusal {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.newArrival(r)
	return p.refuseLocked(now, &a, reason)
}

const (
	minRetryAfter   = time.Second
	maxRetryAfter   = 32 * time.Second
	jitter          = 0.25 // the most by which Retry-After is longer than computed, as a share of it
	uncertainJitter = 2    // is added to jitter before any permit was released; less as the estimate gets better
)

// retryAfterLocked is the time that it takes to serve what is ahead of one more request of this account: requests waiting,
// and pending retries.
func (p *Pool) retryAfterLocked(now time.Duration, a *arrival) time.Duration {
	after := minRetryAfter
	if until, known := p.untilRetryLocked(now, a); known {
		after = until
	}
	// While the rate is an estimate, retries are spread widely, so that most find room also if the estimate is far too
	// short, or so long that it meets the bound.
	spread := jitter + uncertainJitter*p.uncertaintyLocked()
	// The bounds leave room for the spread: clipped at them, all retries beyond a bound would come at once.
	after = min(max(after, minRetryAfter), time.Duration(float64(maxRetryAfter)/(1+spread)))
	fraction := a.jitterFraction
	if fraction == 0 {
		fraction = p.rand.Float64()
	}
	return time.Duration(float64(after) * (1 + spread*fraction))
}

// retriesAheadLocked is how many pending retries are served before one more request of this account: all of higher bands,
// and of its own band, under Fair, at most what its share puts first, as in the queue itself. So an account that asks
// again and again delays only itself.
func (p *Pool) retriesAheadLocked(now time.Duration, c fairqueue.Claim) float64 {
	above := clientShare(0)
	for i := range c.Band {
		above += p.pendingRetries[i].due(now)
	}
	band := &p.pendingRetries[c.Band]
	all := band.due(now).clients()
	if p.config.Discipline == FIFO {
		return above.clients() + all
	}
	own := band.accounts[c.Account]
	share := float64(len(band.accounts))
	if own.due > 0 {
		share = own.due.clients()*band.weight/own.weight + share - 1
	}
	return above.clients() + max(min(all, share), own.due.clients()*p.queue.Stretch(c))
}

// retryIntervalLocked is the time that it takes to serve one more pending retry of this account and, under Fair, those of other accounts that are
// served meanwhile; 0 while no rate is known.
func (p *Pool) retryIntervalLocked(now time.Duration, c fairqueue.Claim) time.Duration {
	rate := p.estimatedRateLocked(now, p.drainSlotsLocked())
	if rate <= 0 {
		return 0
	}
	places, band := p.queue.Stretch(c), &p.pendingRetries[c.Band]
	if own := band.accounts[c.Account]; own.due > 0 && p.config.Discipline != FIFO {
		places = max(places, band.weight/own.weight)
	}
	return seconds(places / rate)
}

// retriesLocked is the number of pending retries, rounded up.
func (p *Pool) retriesLocked(now time.Duration) int {
	n := clientShare(0)
	for i := range p.pendingRetries {
		n += p.pendingRetries[i].due(now)
	}
	return n.ceil()
}

// retriesOfLocked is the number of pending retries of one account, rounded up.
func (p *Pool) retriesOfLocked(account string) int {
	n := clientShare(0)
	for i := range p.pendingRetries {
		n += p.pendingRetries[i].accounts[account].due
	}
	return n.ceil()
}
