package permits

import (
	"context"
	"time"
)

// OnResolved calls whenResolved once, when the wait of a detached request is over: it was granted a permit or refused, its client has left, or its time has run
// out. Acquire then returns the result. The call may come before OnResolved returns. It is made under the pool's mutex, so it must neither wait nor use the pool.
func (p *Pool) OnResolved(r *Request, whenResolved func()) { p.notify(r.waiter, whenResolved) }

// acquireResolved is Acquire for a detached request whose wait is over.
func (p *Pool) acquireResolved(r *Request) (Permit, error) {
	w := r.waiter
	r.waiter = nil
	s, err := w.result()
	if err != nil {
		return Permit{}, err
	}
	return s.permit(r), nil
}

// notify calls whenResolved once w is resolved. From now on, the end of its context or of its time resolves w, too.
func (p *Pool) notify(w *waiter, whenResolved func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.resolved {
		whenResolved()
		return
	}
	w.whenResolved = whenResolved
	w.timer = time.AfterFunc(w.waitUntil-p.instant(), func() { p.leave(w, w.lateReason) })
	w.left.Attach(w.ctx, func() { p.leave(w, "") })
}

// wait waits until w is resolved. progress may be nil.
func (p *Pool) wait(w *waiter, progress func(Progress)) (*permitState, error) {
	resolved := make(chan struct{})
	p.notify(w, func() { close(resolved) })
	var due <-chan time.Time // nil, and free of cost, for a waiter that reports no progress
	var reporter *progressReporter
	if progress != nil {
		reporter = p.newProgressReporter(w, progress)
		defer reporter.ticker.Stop()
		due = reporter.ticker.C
	}
	for {
		select {
		case <-resolved:
			return w.result()
		case <-due:
			reporter.report()
		}
	}
}

// result returns what has come of w, which was resolved in one of three ways that may have raced: granted a slot, refused, or left. A slot that
// it was granted is counted against it until it is released here or by the caller.
func (w *waiter) result() (*permitState, error) {
	w.stop()
	if w.ctx.Err() != nil {
		// The client is gone, so a slot that was handed over at the same moment would never be released by the caller:
		// it goes to the next waiter, and counts neither for the account nor for the time that permits are held.
		if w.permit != nil {
			w.permit.release(w.permit.serial, outcome{})
		}
		return nil, context.Cause(w.ctx)
	}
	if w.refusal != nil {
		return nil, w.refusal
	}
	return w.permit, nil
}

// stop ends what notify has begun.
func (w *waiter) stop() {
	if w.timer != nil {
		w.timer.Stop()
		w.left.Stop()
	}
}

// leave removes w from the queue, and refuses it if there is a reason.
func (p *Pool) leave(w *waiter, reason Reason) {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.resolved {
		return // another goroutine resolved w first; its result stands
	}
	p.queue.Remove(&w.item)
	if reason != "" {
		w.refusal = p.refuseWaitLocked(now, &w.arrival, reason)
	}
	p.resolveLocked(w)
}

// rejectWaitersLocked refuses all waiters for which test is true, in the order of their arrival.
func (p *Pool) rejectWaitersLocked(now time.Duration, reason Reason, test func(*waiter) bool) {
	var found []*waiter // collected first: the queue must not change while it yields items
	for it := range p.queue.Items() {
		if w := it.Value.(*waiter); test(w) {
			found = append(found, w)
		}
	}
	sortByArrival(found)
	for _, w := range found {
		p.queue.Remove(&w.item)
		w.refusal = p.refuseLocked(now, &w.arrival, reason)
		p.resolveLocked(w)
	}
}

// resolveLocked ends the wait of w, after its permit or refusal was set, or after it left the queue by itself.
func (p *Pool) resolveLocked(w *waiter) {
	if w.standIn {
		w.standIn = false
		p.standIns--
	}
	p.waitsLocked(w, -1)
	w.resolved = true
	if w.whenResolved != nil {
		w.whenResolved()
	}
}
