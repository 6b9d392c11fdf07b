package permits

import (
	"sync/atomic"
	"time"

	"colonnade/balance"
	"colonnade/fairqueue"
)

// Permit is the right to use one slot of one endpoint until Release. It is a value: copies are the same permit. It has no more than four
// words, so that it is passed in registers.
type Permit struct {
	state     *permitState
	serial    uint64
	placement *placement
	queued    time.Duration
}

// placement is an endpoint, and why requests get it. It is made once for all such permits, and immutable.
type placement struct {
	endpoint string
	policy   balance.Policy
	why      balance.Why
}

// permitState is the pool's side of a permit. States are reused, and the serial tells their permits apart: it shows that a
// permit is released twice, or after its state was reused. Between grant and release, only the permit's holder changes the
// fields that it reads, so it needs no mutex for them.
type permitState struct {
	pool            *Pool
	at              int    // index in the pool's states
	serial          uint64 // 0: no permit has it
	endpoint        *endpoint
	placement       *placement
	running         fairqueue.Running
	granted         time.Duration
	queued          time.Duration
	queueLen        int
	held            int    // slots of the endpoint taken right after the grant, see Permit.Held
	epoch           uint64 // see Permit.Epoch
	balance         *balance.Request
	input           float64       // estimated cost of its input
	reported        atomic.Uint64 // cost by the last Charge: the bits of a float64; the pool reads it while it is stored
	blockedOnClient time.Duration // stored by the holder; read only at the release
	abandoned       bool          // likewise
	ended           time.Duration // likewise; the instant by EndedAt, 0: none
}

// permit returns the permit that a request has got.
func (s *permitState) permit(r *Request) Permit {
	return Permit{state: s, serial: s.serial, placement: s.placement, queued: s.queued + r.WaitedBefore}
}

// Endpoint returns the ID of the endpoint whose slot it is.
func (t Permit) Endpoint() string { return t.placement.endpoint }

// Queued returns how long the request waited, in all.
func (t Permit) Queued() time.Duration { return t.queued }

// QueueLenAtArrival returns how many requests were waiting when the request arrived, without it. It must not be called after Release.
func (t Permit) QueueLenAtArrival() int { return t.state.queueLen }

// Held returns how many slots of the endpoint were taken right after the grant, including this one and those that other
// pools had taken. It must not be called after Release.
func (t Permit) Held() int { return t.state.held }

// Epoch returns the epoch of the pool's fence in which the permit was granted, see [Fence.Renew]. It must not be called after Release.
func (t Permit) Epoch() uint64 { return t.state.epoch }

// Policy returns the policy that has chosen the endpoint.
func (t Permit) Policy() balance.Policy { return t.placement.policy }

// Why returns why the request got this endpoint.
func (t Permit) Why() balance.Why { return t.placement.why }

// Release gives the slot back. It must be called exactly once, when the engine no longer works on the request; a second
// call panics. The account is charged the estimate, since the use is not known.
func (t Permit) Release() { t.state.release(t.serial, outcome{taken: true, used: UnknownUse()}) }

// ReleaseUsed is Release, and charges the account what the request has used; later estimates learn from it.
func (t Permit) ReleaseUsed(u Used) { t.state.release(t.serial, outcome{taken: true, used: u}) }

// ReleaseUnserved is Release for a request that got nothing of an answer: the account is charged only for the time that it
// held the slot.
func (t Permit) ReleaseUnserved() { t.state.release(t.serial, outcome{taken: true, unserved: true}) }

// Cancel gives back a permit that was not used, in place of Release. It costs the account nothing.
func (t Permit) Cancel() { t.state.release(t.serial, outcome{}) }

// release takes a permit back, and hands its slot over to the next waiter before it releases the mutex.
func (s *permitState) release(serial uint64, o outcome) {
	if s == nil {
		panic("permits: release of a permit that was never granted")
	}
	p := s.pool
	now := p.instantOr(s.ended)
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.serial != serial { // of another permit by now, or of none: to go on would free another request's slot
		panic("permits: permit released twice")
	}
	p.settleLocked(now, s, o)
	e := s.endpoint
	e.held--
	e.maxHeld = max(e.Concurrency, e.held)
	p.updateLocked(e) // which may free no slot: the endpoint can be over its limit, unusable, full or removed by now
	p.balancer.Released(e.index, e.ID, s.balance)
	s.serial, s.endpoint, s.balance = 0, nil, nil
	s.running = fairqueue.Running{}
	p.returnStateLocked(s)
	p.released++
	p.grantTimeSum -= s.granted
	p.forgetLocked(e)
	p.dispatchLocked(p.presentLocked(now))
}

// grantLocked grants a slot of e, which has one free, to a request that the queue has started, with s, which is the next state. It is
// the only place where a slot is taken.
func (p *Pool) grantLocked(now time.Duration, c balance.Choice, r *balance.Request, s *permitState) {
	e := p.order[c.At]
	e.held++
	p.updateLocked(e)
	p.balancer.Granted(now, c.At, r)
	p.choices.count(p.config.Balance.Policy, c.Why)
	p.serial++
	p.grantTimeSum += now
	s.serial, s.endpoint, s.placement, s.granted = p.serial, e, e.placement(p.config.Balance.Policy, c.Why), now
	s.queued, s.queueLen, s.held = 0, 0, e.Taken+e.held
	s.epoch, s.balance = p.epoch, r
	s.input, s.blockedOnClient, s.abandoned, s.ended = s.running.Estimate().Input, 0, false, 0
	if s.reported.Load() != 0 { // a load is cheaper than a store, and nearly always enough
		s.reported.Store(0)
	}
}

// nextStateLocked returns the state of the next permit.
func (p *Pool) nextStateLocked() *permitState {
	held := p.heldLocked()
	if held == len(p.states) {
		p.states = append(p.states, &permitState{pool: p, at: held})
	}
	return p.states[held]
}

// returnStateLocked moves the state of a permit that ends behind those that are held.
func (p *Pool) returnStateLocked(s *permitState) {
	if last := p.states[p.heldLocked()-1]; last != s {
		p.states[s.at], p.states[last.at] = last, s
		s.at, last.at = last.at, s.at
	}
}

// dispatchLocked hands free slots to waiters, until there are no more slots, or no waiter that could use one. Every change
// that may have freed a slot, or made a request able to use one, ends with it: a waiter is granted its permit here, under
// the mutex, and only then woken, so it never competes for the slot again.
func (p *Pool) dispatchLocked(now time.Duration) {
	p.dispatchedAt, p.declined = now, 0
	if !p.mayGrantLocked(now) {
		p.trackFullLocked(now)
		return
	}
	p.blocked = false
	if p.config.Cost == ByTokens {
		p.chargeSomeLocked(now) // first: what runs now decides who is next
	}
	for p.free > 0 && p.queue.Len() > 0 {
		it, running := p.queue.Next(p.began.Add(now), p.accept)
		if it == nil {
			break // no waiter can use what is free: all are at a cap, avoid it, or are leaving
		}
		w := it.Value.(*waiter)
		w.permit = p.nextStateLocked()
		w.permit.running = running
		p.grantLocked(now, w.chosen, w.balance, w.permit)
		w.permit.queued, w.permit.queueLen = max(0, now-w.at), w.queueLen
		p.resolveLocked(w)
	}
	p.trackFullLocked(now)
}

// leaving reports whether the waiter is about to leave the queue, since its time has run out or its client has left.
func (w *waiter) leaving(now time.Duration) bool { return w.waitUntil <= now || w.ctx.Err() != nil }

// acceptLocked reports whether a waiter can use a free slot, and notes the endpoint, which it is granted if it is next.
func (p *Pool) acceptLocked(it *fairqueue.Item) bool {
	w := it.Value.(*waiter)
	if w.leaving(p.dispatchedAt) {
		return false // the slot would only come back
	}
	w.chosen = p.chooseLocked(p.dispatchedAt, w.balance, w.avoid, &w.excluded)
	return w.chosen.At != balance.None && !p.declineLocked(p.dispatchedAt, w, w.chosen)
}
