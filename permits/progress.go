package permits

import (
	"math"
	"time"
)

// Progress is how a request waits.
type Progress struct {
	Position int           // which one it is of those to be served next: 1 is the next. By fair order, an estimate
	Expected time.Duration // how long it will still wait, in whole milliseconds
	Known    bool          // whether Expected is measured; without it the rate is not yet known
}

// progressInterval is how often a waiter hears how it waits, if that changes.
const progressInterval = time.Second

// progressReporter tells one waiter how it waits.
type progressReporter struct {
	pool     *Pool
	waiter   *waiter
	callback func(Progress)
	ticker   *time.Ticker
	last     Progress
}

// newProgressReporter tells w how it waits, for the first time.
func (p *Pool) newProgressReporter(w *waiter, say func(Progress)) *progressReporter {
	n := &progressReporter{pool: p, waiter: w, callback: say, ticker: time.NewTicker(progressInterval)}
	n.report()
	return n
}

// report says how the waiter waits, if it does and that has changed.
func (n *progressReporter) report() {
	at, waits := n.pool.progress(n.waiter)
	if !waits || at == n.last {
		return
	}
	n.last = at
	returned := false
	defer func() {
		if !returned { // but panicked: whoever waited is not there any more
			n.ticker.Stop()
			n.pool.abandon(n.waiter)
		}
	}()
	n.callback(at)
	returned = true
}

// progress is how w waits, and whether it still does.
func (p *Pool) progress(w *waiter) (Progress, bool) {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.resolved {
		return Progress{}, false
	}
	ahead := p.queue.AheadOf(&w.item)
	at := Progress{Position: 1 + int(math.Round(ahead))}
	if rate := p.rateLocked(now); rate > 0 {
		at.Expected, at.Known = seconds((ahead+1)/rate).Round(time.Millisecond), true
	}
	return at, true
}

// abandon takes w out of the queue, and gives back what it may have been granted.
func (p *Pool) abandon(w *waiter) {
	p.leave(w, "")
	if w.lease != nil {
		w.lease.release(w.lease.serial, outcome{})
	}
}
