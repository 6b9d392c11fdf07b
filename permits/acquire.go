package permits

import (
	"context"
	"errors"
	"time"

	"colonnade/balance"
	"colonnade/fairqueue"
	"colonnade/internal/lazyctx"
)

// forever is longer than any wait, and short enough to be added to an instant.
const forever = time.Duration(1 << 62)

// arrival is a request at its arrival.
type arrival struct {
	claim             fairqueue.Claim
	at                time.Duration // when it arrived at the pool
	deadline          time.Duration
	waitUntil         time.Duration // the longest that it may wait
	lateReason        Reason        // why it is refused then
	queueLen          int           // requests waiting when it arrived
	bounded           bool          // by MaxExpected
	waited            bool          // see Refusal
	excluded          Exclusions    // see Request
	returnProbability float64       // see Request
	jitterFraction    float64       // see Request
}

// waiter is a request that waits.
type waiter struct {
	arrival
	item  fairqueue.Item
	ctx   context.Context // asked whether the client is still there before a slot is handed over
	avoid []string

	balance       *balance.Request
	declinesUntil time.Duration // it declines endpoints that it does not prefer; 0: it was not offered one yet

	whenResolved func()       // nil before notify
	timer        *time.Timer  // ends the wait; nil before notify, and if w was resolved before that
	left         lazyctx.Hook // resolves w when its client leaves; attached together with the timer

	standIn  bool           // it waits only because the pool's home did not answer
	resolved bool           // permit and refusal do not change any more
	chosen   balance.Choice // by acceptLocked, for the grant that follows
	permit   *permitState   // set if it was granted a permit
	refusal  *Refusal       // set if it was refused; neither is if its client left
}

// ErrWaits is returned by Acquire for a request that is [Request.Detached] and waits.
var ErrWaits = errors.New("the request waits")

// Acquire returns a permit, at once or after waiting for it; or a *Refusal; or context.Cause(ctx), if ctx ended first. The caller releases the permit.
//
// For a detached request that has to wait, Acquire returns [ErrWaits] at once. The caller then calls [Pool.OnResolved], and after its callback Acquire again, with
// the same Request.
func (p *Pool) Acquire(ctx context.Context, r *Request) (Permit, error) {
	if r.waiter != nil {
		return p.acquireResolved(r)
	}
	if ctx.Err() != nil {
		return Permit{}, context.Cause(ctx)
	}
	s, w, err := p.admit(ctx, r)
	if w != nil {
		if r.Detached {
			r.waiter = w
			return Permit{}, ErrWaits
		}
		s, err = p.wait(w, r.Progress)
	}
	if err != nil {
		return Permit{}, err
	}
	return s.permit(r), nil
}

// admit decides what can be decided on arrival: it returns a permit, or a waiter, or a refusal.
func (p *Pool) admit(ctx context.Context, r *Request) (*permitState, *waiter, error) {
	now, deadline := time.Duration(0), forever
	if !r.Now.IsZero() {
		now = r.Now.Sub(p.began)
	}
	now = p.instantOr(now)
	if !r.Deadline.IsZero() {
		deadline = r.Deadline.Sub(p.began)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	queueLen := p.queue.Len()
	if p.free > 0 && !p.draining && !p.movedLocked(r) && now < deadline && p.mayGrantLocked(now) {
		var c balance.Choice
		c, now = p.offerLocked(now, r)
		if p.mayDeclineLocked(now, deadline, r, c) {
			a := p.newArrival(r)
			a.at, a.deadline, a.queueLen = now, deadline, queueLen
			a.setWait(r.MaxWait, p.config.MaxWait)
			if w := p.newWaiter(ctx, &a, r); p.queue.HasRoom(&w.item) && p.enqueueLocked(w, false) == "" {
				p.declineLocked(now, w, c)
				p.waitLocked(w)
				return nil, w, nil
			} // else there is no room to wait in
		}
		if s := p.takeLocked(now, r, c); s != nil {
			s.queueLen = queueLen
			return s, nil, nil
		}
	}
	a := p.newArrival(r)
	a.at, a.deadline, a.queueLen = now, deadline, queueLen
	a.setWait(r.MaxWait, p.config.MaxWait)
	if reason := p.rejectReasonLocked(&a, r); reason != "" {
		return nil, nil, p.refuseLocked(now, &a, reason)
	}
	if reason := p.waitReasonLocked(&a, r); reason != "" {
		return nil, nil, p.refuseWaitLocked(now, &a, reason)
	}
	w := p.newWaiter(ctx, &a, r)
	if p.free > 0 && !r.Rejoin && !p.queue.HasRoom(&w.item) {
		p.dispatchToAllLocked(now)
	}
	if reason := p.enqueueLocked(w, r.Rejoin); reason != "" {
		return nil, nil, p.refuseWaitLocked(now, &a, reason)
	}
	p.waitLocked(w)
	return nil, w, nil
}

func (p *Pool) newWaiter(ctx context.Context, a *arrival, r *Request) *waiter {
	w := &waiter{arrival: *a, ctx: ctx, avoid: r.Avoid, balance: r.Balance}
	w.item = fairqueue.Item{Claim: a.claim, Bytes: r.Bytes, Arrived: r.Arrived, Value: w}
	if r.Arrived.IsZero() {
		w.item.Arrived = p.began.Add(a.at)
	}
	return w
}

// waitLocked counts a request that is in the queue from now on.
func (p *Pool) waitLocked(w *waiter) {
	w.waited = true
	p.waitsLocked(w, 1)
	if p.away {
		w.standIn = true
		p.standIns++
	}
}

// newArrival returns the arrival of a request, without its times.
func (p *Pool) newArrival(r *Request) arrival {
	a := arrival{claim: p.claim(r), excluded: r.Excluded, bounded: r.MaxExpected >= 0, waited: r.Rejoin, returnProbability: 1, jitterFraction: min(max(r.JitterFraction, 0), 1)}
	if r.ReturnProbability > 0 {
		a.returnProbability = min(r.ReturnProbability, 1)
	}
	return a
}

func (p *Pool) claim(r *Request) (c fairqueue.Claim) {
	p.setClaim(&c, r)
	return c
}

func (p *Pool) setClaim(c *fairqueue.Claim, r *Request) {
	c.Account, c.Weight, c.Band, c.Cost, c.Concurrent = r.Account, r.Weight, min(r.Band, Batch), r.Outputs, r.Concurrent
	if p.config.Cost == ByTokens {
		c.Cost, c.Output, c.Outputs = r.Cost, r.Output, r.Outputs
	}
}

// setWait sets how long the request may wait: its own bound, the pool's, or its deadline, whichever is first.
func (a *arrival) setWait(own, pool time.Duration) {
	a.waitUntil, a.lateReason = a.at+max(0, min(own, pool, forever-a.at)), QueueTimeout
	if a.deadline < a.waitUntil {
		a.waitUntil, a.lateReason = a.deadline, Deadline
	}
}

// offerLocked returns which of the free slots a request may have that arrives now, if any, and the instant to grant it at.
func (p *Pool) offerLocked(now time.Duration, r *Request) (balance.Choice, time.Duration) {
	p.declined = 0
	if p.queue.Len() > 0 {
		// No waiter can use what is free, unless this request brings a higher cap for its account: then those of its
		// account that came before it go first.
		now = p.presentLocked(now)
		p.queue.UpdateAccount(p.claim(r))
		p.dispatchLocked(now)
	}
	return p.chooseLocked(now, r.Balance, r.Avoid, &r.Excluded), now
}

// takeLocked grants the slot of a choice without a wait. It returns nil if there is none, or the account is at a cap.
func (p *Pool) takeLocked(now time.Duration, r *Request, choice balance.Choice) *permitState {
	if choice.At == balance.None {
		return nil
	}
	s, c := p.nextStateLocked(), fairqueue.Claim{}
	p.setClaim(&c, r)
	if !p.queue.Start(&s.running, &c) {
		return nil
	}
	p.grantLocked(now, choice, r.Balance, s)
	p.trackFullLocked(now)
	return s
}

// rejectReasonLocked returns why a request cannot be served, however long it waits; empty if it can.
func (p *Pool) rejectReasonLocked(a *arrival, r *Request) Reason {
	switch {
	case p.movedLocked(r):
		return Moved
	case p.closed:
		return Draining
	case a.deadline <= a.at:
		return Deadline
	case !p.hasEndpointLocked(r.Avoid, &r.Excluded):
		return NoEndpoint
	}
	return ""
}

// waitReasonLocked returns why a request may not wait as long as it is expected to; empty if it may.
func (p *Pool) waitReasonLocked(a *arrival, r *Request) Reason {
	switch {
	case a.waitUntil <= a.at:
		return Busy
	case r.Rejoin:
		return "" // it is at the head of its account, where what is expected of a newcomer does not hold
	}
	expected, known := p.expectedLocked(a.at, a.claim, &a.excluded)
	switch {
	case r.MaxExpected >= 0 && (!known || expected > r.MaxExpected):
		return Busy
	case known && expected > a.waitUntil-a.at:
		return a.lateReason // it would not be served in time: refused now, its client can go elsewhere
	}
	return ""
}

// enqueueLocked adds w to the queue, and refuses the waiters that had to leave for it; or it returns why there is no room.
func (p *Pool) enqueueLocked(w *waiter, rejoin bool) Reason {
	if rejoin {
		p.queue.Rejoin(&w.item)
		return ""
	}
	victims, err := p.queue.Push(&w.item)
	for _, v := range victims {
		victim := v.Value.(*waiter)
		victim.refusal = p.refuseWaitLocked(w.at, &victim.arrival, QueueFull)
		p.resolveLocked(victim)
	}
	switch {
	case errors.Is(err, fairqueue.ErrAccountFull):
		return AccountQueueFull
	case err != nil:
		return QueueFull
	}
	return ""
}
