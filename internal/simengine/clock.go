package simengine

import (
	"context"
	"time"
)

// clock paces one answer. Tokens are due at fixed times from the start, as a
// batch makes them, and not when the client has read the last one.
type clock struct {
	start     time.Time
	ttft, itl time.Duration
	timer     *time.Timer
}

// slowness is how many times longer each token takes under FaultSlow.
const slowness = 10

func (e *Engine) newClock(fault string) clock {
	c := clock{start: time.Now(), ttft: e.c.TTFT, itl: e.c.ITL}
	switch fault {
	case FaultSlow:
		c.itl *= slowness
	case FaultBigAnswer:
		c.itl = 0
	}
	return c
}

// due says when the n-th token (from 1) is made.
func (c *clock) due(n int) time.Time {
	return c.start.Add(c.ttft + time.Duration(max(n-1, 0))*c.itl)
}

// until returns when the n-th token is made, or when ctx has ended.
func (c *clock) until(ctx context.Context, n int) error {
	wait := time.Until(c.due(n))
	if wait <= 0 {
		return context.Cause(ctx)
	}
	if c.timer == nil {
		c.timer = time.NewTimer(wait)
	} else {
		c.timer.Reset(wait)
	}
	select {
	case <-c.timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *clock) stop() {
	if c.timer != nil {
		c.timer.Stop()
	}
}
