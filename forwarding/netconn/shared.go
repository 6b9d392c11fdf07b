package netconn

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

// sharedStep calls the step, unless the connection has been taken back.
func (p *poller) sharedStep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.shared {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			p.shared, p.panic = false, fmt.Sprintf("%v\n\n%s", v, debug.Stack())
			p.wake()
		}
	}()
	before := p.heard
	if !p.callStep() {
		p.shared, p.ended = false, true
		p.wake()
	}
	if p.heard != before && p.stream == nil {
		p.acks.received(p.fd, p.heard.Sub(before))
	}
}

// wake makes the goroutine that awaits the pump look again.
func (p *poller) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

// awaitShared returns nil when step has returned false or the loop of the pump, unless that is nil, has ended, and an error for a limit that has passed, or after Cancel.
func (c *Conn) awaitShared(loop *pumpLoop) error {
	p := &c.poller
	var timer *time.Timer
	var due <-chan time.Time
	for {
		p.mu.Lock()
		shared, limit := p.shared, c.readLimit(p.heard)
		p.mu.Unlock()
		now := time.Now()
		switch {
		case !shared:
			return nil
		case c.cancelled.Load():
			return ErrCancelled
		case loop != nil && loop.ended():
			return nil
		case limit.IsZero():
		case !now.Before(limit):
			return os.ErrDeadlineExceeded
		case timer == nil:
			timer = time.NewTimer(limit.Sub(now))
			defer timer.Stop()
			due = timer.C
		default:
			timer.Reset(limit.Sub(now))
		}
		select {
		case <-p.woken:
		case <-due:
		}
	}
}
