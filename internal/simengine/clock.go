package simengine

import (
	"context"
	"time"
)

// clock paces one answer. Tokens are due at fixed times from the start, as a batch makes them, however slowly the
// client reads.
type clock struct {
	start     time.Time
	ttft, itl time.Duration
	timer     *time.Timer
	finish    <-chan struct{} // closed by [Engine.Finish]

	slowdown func() float64 // factor on the time of a token now; nil: always 1
	made     int            // with a slowdown: tokens whose time is fixed
	last     time.Time      // when the last of these is due
}

// pace is how fast an engine makes tokens.
type pace struct{ ttft, itl time.Duration }

// SetPace changes Config.TTFT and Config.ITL for requests that get their slot from now on. Zero means the default, a
// negative duration none.
func (e *Engine) SetPace(ttft, itl time.Duration) {
	c := Config{TTFT: ttft, ITL: itl}.withDefaults()
	e.pace.Store(&pace{ttft: c.TTFT, itl: c.ITL})
}

// Finish has all requests that hold a slot now answered without further delay: their other tokens take no time. Sessions are left alone.
func (e *Engine) Finish() {
	close(*e.finish.Swap(newFinish()))
}

func newFinish() *chan struct{} {
	c := make(chan struct{})
	return &c
}

// delay moves all tokens of an answer that has none yet.
func (c *clock) delay(d time.Duration) { c.start, c.last = c.start.Add(d), c.last.Add(d) }

// slowness is the factor on the time of each token under FaultSlow.
const slowness = 10

func (e *Engine) newClock(fault string) clock {
	p := e.pace.Load()
	c := clock{start: time.Now(), ttft: p.ttft, itl: p.itl, finish: *e.finish.Load()}
	if e.c.Knee > 0 {
		c.last, c.slowdown = c.start, func() float64 { return e.batch.slowdown(e.c.Knee) }
	}
	switch fault {
	case FaultSlow:
		c.itl *= slowness
	case FaultBigAnswer:
		c.itl = 0
	}
	return c
}

// due returns when the n-th token (from 1) is generated.
func (c *clock) due(n int) time.Time {
	if c.slowdown != nil {
		for ; c.made < n; c.made++ {
			step := c.itl
			if c.made == 0 {
				step = c.ttft
			}
			c.last = c.last.Add(time.Duration(float64(step) * c.slowdown()))
		}
		return c.last
	}
	return c.start.Add(c.ttft + time.Duration(max(n-1, 0))*c.itl)
}

// until returns when the n-th token is generated, or when ctx has ended. With a slowdown, which may change, it waits
// for each token before.
func (c *clock) until(ctx context.Context, n int) error {
	for c.slowdown != nil && c.made < n-1 {
		if err := c.wait(ctx, c.made+1); err != nil {
			return err
		}
	}
	return c.wait(ctx, n)
}

func (c *clock) wait(ctx context.Context, n int) error {
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
	case <-c.finish:
		return context.Cause(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *clock) stop() {
	if c.timer != nil {
		c.timer.Stop()
	}
}
