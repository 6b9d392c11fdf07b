package permits

import (
	"math"
	"sync/atomic"
	"time"
)

// Fence is the right to grant at all. Several pools may share one. It ends by itself: a process that was stopped does
// not know that it was, but its clock does, so the right is compared with the clock at every grant.
type Fence struct {
	began time.Time    // what instants are counted from, by the monotonic clock
	until atomic.Int64 // when it ends, in nanoseconds after began
}

// NewFence returns a right without end.
func NewFence() *Fence {
	r := &Fence{began: time.Now()}
	r.until.Store(math.MaxInt64)
	return r
}

// Set replaces the moment when the right ends; one that is past ends it. Pools whose requests may wait for it must be
// told to [Pool.Dispatch] after that.
func (r *Fence) Set(until time.Time) { r.until.Store(int64(until.Sub(r.began))) }

// Valid says whether the right has not ended.
func (r *Fence) Valid() bool { return int64(time.Since(r.began)) < r.until.Load() }

// mayGrantLocked says whether the pool's right has not ended, and takes note of it if that keeps a slot from somebody.
func (p *Pool) mayGrantLocked(now time.Duration) bool {
	if r := p.config.Fence; r == nil || int64(now+p.fenceOffset) < r.until.Load() {
		return true
	}
	p.blocked = true
	return false
}

// Dispatch hands free slots to those who wait, after the right to grant has returned.
func (p *Pool) Dispatch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dispatchLocked(p.instant())
}
