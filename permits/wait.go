package permits

import (
	"context"
	"time"
)

// wait waits until w is resolved, its client leaves, or its time has run out. progress may be nil.
func (p *Pool) wait(w *waiter, progress func(Progress)) (*permitState, error) {
	timer := time.NewTimer(w.waitUntil - w.at)
	defer timer.Stop()
	var due <-chan time.Time // nil, and free of cost, for a waiter that reports no progress
	var reporter *progressReporter
	if progress != nil {
		reporter = p.newProgressReporter(w, progress)
		defer reporter.ticker.Stop()
		due = reporter.ticker.C
	}
	for waits := true; waits; {
		waits = false
		select {
		case <-w.ready:
		case <-w.ctx.Done():
			p.leave(w, "")
		case <-timer.C:
			p.leave(w, w.lateReason)
		case <-due:
			reporter.report()
			waits = true
		}
	}
	// w is resolved now, in one of three ways that may have raced: granted a slot, refused, or left. A slot that it was
	// granted is counted against it until it is released here or by the caller.
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

// resolveLocked wakes w, after its permit or refusal was set, or after it left the queue by itself.
func (p *Pool) resolveLocked(w *waiter) {
	if w.standIn {
		w.standIn = false
		p.standIns--
	}
	p.waitsLocked(w, -1)
	w.resolved = true
	close(w.ready)
}
