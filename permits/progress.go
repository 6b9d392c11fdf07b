package permits

import (
	"math"
	"time"
)

// Progress is how a request waits. It has the fields of forwarding/hop.Progress, which is its form on the wire.
type Progress struct {
	Position int           // among the requests to be served next: 1 is the next. By fair order, an estimate
	Expected time.Duration // of the wait that remains, in whole milliseconds
	Known    bool          // whether Expected is measured; without it the rate is not yet known
}

// progressInterval is how often the progress of a waiter is reported.
const progressInterval = time.Second

// progressReporter reports the progress of one waiter. It belongs to the goroutine that waits.
type progressReporter struct {
	pool     *Pool
	waiter   *waiter
	callback func(Progress)
	ticker   *time.Ticker
}

// newProgressReporter returns a reporter for w, after its first report.
func (p *Pool) newProgressReporter(w *waiter, callback func(Progress)) *progressReporter {
	r := &progressReporter{pool: p, waiter: w, callback: callback, ticker: time.NewTicker(progressInterval)}
	r.report()
	return r
}

// report calls back with the waiter's progress, if it still waits.
func (r *progressReporter) report() {
	progress, waits := r.pool.progress(r.waiter)
	if !waits {
		return
	}
	returned := false
	defer func() {
		if !returned { // the callback panicked, and Acquire will not return: no caller would release the permit
			r.ticker.Stop()
			r.pool.abandon(r.waiter)
		}
	}()
	r.callback(progress)
	returned = true
}

// progress returns how w waits, and whether it still does.
func (p *Pool) progress(w *waiter) (Progress, bool) {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.resolved {
		return Progress{}, false
	}
	ahead := p.queue.AheadOf(&w.item)
	progress := Progress{Position: 1 + int(math.Round(ahead))}
	if expected, known := p.untilServedLocked(now, &w.excluded, ahead, p.waitingAlikeLocked(&w.excluded)-1); known {
		progress.Expected, progress.Known = expected.Round(time.Millisecond), true
	}
	return progress, true
}

// abandon removes w from the queue, and gives back the permit if it was granted one.
func (p *Pool) abandon(w *waiter) {
	p.leave(w, "")
	w.stop()
	if w.permit != nil {
		w.permit.release(w.permit.serial, outcome{})
	}
}
