package link

import "time"

// waiter is what a goroutine waits with. A wait may end too early, so it is made in a loop. A waiter is used again and again, and so is its timer:
// unless that would fire too late, it is left as it is. So a deadline that does not pass costs a comparison.
type waiter struct {
	woken chan struct{} // capacity 1
	timer *time.Timer   // nil = none yet
	fires time.Time     // when the timer fires, or has fired
}

func newWaiter() any { return &waiter{woken: make(chan struct{}, 1)} }

// wake ends the wait that is under way, or the next. There may be no waiter.
func (w *waiter) wake() {
	if w == nil {
		return
	}
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// wait waits until wake is called, or a time; zero means no time.
func (w *waiter) wait(now, until time.Time) {
	if !until.IsZero() && (!w.fires.After(now) || w.fires.After(until)) {
		w.fires = until
		if w.timer == nil {
			w.timer = time.AfterFunc(until.Sub(now), w.wake)
		} else {
			w.timer.Reset(until.Sub(now))
		}
	}
	<-w.woken
}
