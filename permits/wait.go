package permits

import (
	"context"
	"time"
)

// wait waits until w is decided, its client leaves, or its time has run out. tell may be nil.
func (p *Pool) wait(w *waiter, tell func(Progress)) (*lease, error) {
	timer := time.NewTimer(w.waitUntil - w.at)
	defer timer.Stop()
	var due <-chan time.Time // nil for a waiter that did not ask, which costs it nothing
	var news *progressReporter
	if tell != nil {
		news = p.newProgressReporter(w, tell)
		defer news.ticker.Stop()
		due = news.ticker.C
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
			news.report()
			waits = true
		}
	}
	if w.ctx.Err() != nil {
		// The client is gone. If a slot was handed over at the same moment, nobody is there to use it: it goes to the
		// next.
		if w.lease != nil {
			w.lease.release(w.lease.serial, outcome{})
		}
		return nil, context.Cause(w.ctx)
	}
	if w.refusal != nil {
		return nil, w.refusal
	}
	return w.lease, nil
}

// leave takes w out of the queue, refused if there is a reason. If w was decided before, that stands.
func (p *Pool) leave(w *waiter, reason Reason) {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.resolved {
		return
	}
	p.queue.Remove(&w.item)
	if reason != "" {
		w.refusal = p.refuseWaitLocked(now, &w.arrival, reason)
	}
	w.resolveLocked()
}

// rejectWaitersLocked refuses all waiters that a test finds.
func (p *Pool) rejectWaitersLocked(now time.Duration, reason Reason, test func(*waiter) bool) {
	var found []*waiter
	for it := range p.queue.Items() {
		if w := it.Value.(*waiter); test(w) {
			found = append(found, w)
		}
	}
	for _, w := range found {
		p.queue.Remove(&w.item)
		w.refusal = p.refuseLocked(now, &w.arrival, reason)
		w.resolveLocked()
	}
}

// resolveLocked wakes w, after its lease or refusal was set, or it left by itself.
func (w *waiter) resolveLocked() {
	w.resolved = true
	close(w.ready)
}
