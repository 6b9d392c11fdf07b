package permits

import (
	"sync/atomic"
	"time"

	"colonnade/fairqueue"
)

// Permit is the right to use one slot of one endpoint until Release. It is a value: copies are the same permit.
type Permit struct {
	lease    *lease
	serial   uint64
	endpoint string
	queued   time.Duration
	queueLen int
	held     int
}

// lease is the pool's side of a permit. Leases are used again; the serial tells whose it is. From the grant to the
// release nobody changes it, so its holder may read it without the mutex.
type lease struct {
	pool            *Pool
	at              int    // in the pool's leases
	serial          uint64 // 0: of no permit
	endpoint        *endpoint
	id              string // of endpoint
	running         fairqueue.Running
	granted         time.Duration
	queued          time.Duration
	queueLen        int
	held            int           // on the endpoint at the grant, with this one and what others have taken
	input           float64       // what its input was estimated to cost
	reported        atomic.Uint64 // what its holder said last to Charge: the bits of a float64
	blockedOnClient time.Duration // as its holder said; nobody else looks at it before the release
}

func (l *lease) permit() Permit {
	return Permit{lease: l, serial: l.serial, endpoint: l.id, queued: l.queued, queueLen: l.queueLen, held: l.held}
}

// Endpoint returns the ID of the endpoint whose slot it is.
func (t Permit) Endpoint() string { return t.endpoint }

// Queued returns how long the request waited for it.
func (t Permit) Queued() time.Duration { return t.queued }

// QueueLenAtArrival returns how many requests were waiting when the request arrived, without it.
func (t Permit) QueueLenAtArrival() int { return t.queueLen }

// Held returns how many slots of the endpoint were taken right after the grant: with this one, and with what others than
// this pool had taken.
func (t Permit) Held() int { return t.held }

// Release gives the slot back. It must be called exactly once, when the engine has the request no longer in hand: a
// second call panics. What the request used is not known: the account is charged what was estimated.
func (t Permit) Release() { t.release(outcome{taken: true, used: UnknownUse()}) }

// ReleaseUsed is Release, and charges the account what the request really used; the next estimates learn from it.
func (t Permit) ReleaseUsed(u Used) { t.release(outcome{taken: true, used: u}) }

// ReleaseUnserved is Release for a request that got nothing of an answer: only the time counts that it held the slot.
func (t Permit) ReleaseUnserved() { t.release(outcome{taken: true, unserved: true}) }

// Cancel gives back a permit of which no use was made; like Release, once. It costs the account nothing.
func (t Permit) Cancel() { t.release(outcome{}) }

func (t Permit) release(e outcome) {
	if t.lease == nil {
		panic("permits: release of a permit that was never granted")
	}
	t.lease.release(t.serial, e)
}

// release takes a permit back. One that was not taken, because its request had gone, says nothing about how long
// permits are held.
func (l *lease) release(serial uint64, end outcome) {
	p := l.pool
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.serial != serial {
		panic("permits: permit released twice")
	}
	p.settleLocked(now, l, end)
	e := l.endpoint
	p.free -= e.free()
	e.held--
	e.maxHeld = max(e.Concurrency, e.held)
	p.free += e.free()
	l.serial, l.endpoint, l.running = 0, nil, fairqueue.Running{}
	p.returnLeaseLocked(l)
	p.released++
	p.grantTimeSum -= float64(l.granted)
	if p.heldLocked() == 0 {
		p.grantTimeSum = 0
	}
	p.forgetLocked(e)
	p.dispatchLocked(now)
}

// grantLocked grants a slot of e, which has one free, to a request that the queue has started.
func (p *Pool) grantLocked(now time.Duration, e *endpoint, running fairqueue.Running) *lease {
	p.nextChoice = e.index + 1
	e.held++
	p.free--
	l := p.nextLeaseLocked()
	p.serial++
	p.grantTimeSum += float64(now)
	l.serial, l.endpoint, l.id, l.running, l.granted = p.serial, e, e.ID, running, now
	l.queued, l.queueLen, l.held = 0, 0, e.Taken+e.held
	l.input, l.blockedOnClient = running.Estimate().Input, 0
	if l.reported.Load() != 0 {
		l.reported.Store(0)
	}
	return l
}

// nextLeaseLocked returns the lease of the next permit.
func (p *Pool) nextLeaseLocked() *lease {
	held := p.heldLocked()
	if held == len(p.leases) {
		p.leases = append(p.leases, &lease{pool: p, at: held})
	}
	return p.leases[held]
}

// returnLeaseLocked puts the lease of a permit that ends behind those that are held.
func (p *Pool) returnLeaseLocked(l *lease) {
	last := p.leases[p.heldLocked()-1]
	p.leases[l.at], p.leases[last.at] = last, l
	l.at, last.at = last.at, l.at
}

// dispatchLocked hands free slots to those who wait, until there are no more slots or nobody who could use one. It ends
// everything that may have made a slot free or a request able to use one.
func (p *Pool) dispatchLocked(now time.Duration) {
	p.dispatchedAt = now
	if !p.mayGrantLocked(now) {
		p.trackFullLocked(now)
		return
	}
	p.blocked = false
	p.chargeSomeLocked(now)
	for p.free > 0 && p.queue.Len() > 0 {
		it, running := p.queue.Next(p.began.Add(now), p.accept)
		if it == nil {
			break
		}
		w := it.Value.(*waiter)
		w.lease = p.grantLocked(now, w.chosen, running)
		w.lease.queued, w.lease.queueLen = max(0, now-w.at), w.queueLen
		w.resolveLocked()
	}
	p.trackFullLocked(now)
}

// acceptLocked says whether a waiter can use a slot that is free, and notes which: it is granted that one or nothing. A
// client that is gone, and a request whose time has run out, is about to leave by itself and never granted anything.
func (p *Pool) acceptLocked(it *fairqueue.Item) bool {
	w := it.Value.(*waiter)
	if w.waitUntil <= p.dispatchedAt || w.ctx.Err() != nil {
		return false
	}
	w.chosen = p.chooseLocked(w.avoid)
	return w.chosen != nil
}
