package permits

import (
	"math"
	"sync/atomic"
	"time"
)

// Fence is the moment up to which permits may be granted. Several pools may share one. Every grant compares the fence with
// the monotonic clock, as the pool reads it then, or as the request's caller has read it just before (Request.Now). A process may be
// stopped by a signal after any reading, so a permit's holder asks Valid, and compares the Epoch, right before it uses the permit. That clock
// stands still while the machine is suspended. Fence is safe for concurrent use.
type Fence struct {
	began time.Time     // instants count from it, by the monotonic clock
	until atomic.Int64  // nanoseconds after began
	epoch atomic.Uint64 // of the permits that may be used
}

// NewFence returns a fence that never passes.
func NewFence() *Fence {
	f := &Fence{began: time.Now()}
	f.until.Store(math.MaxInt64)
	return f
}

// Set replaces the moment; one that is past ends all grants. Requests may wait for a fence that has passed: after it was
// set to a later moment, [Pool.Dispatch] serves them.
func (f *Fence) Set(until time.Time) { f.until.Store(int64(until.Sub(f.began))) }

// Renew begins a new epoch. Permits granted before must not be used any more, even if the fence is set to a later moment: another
// server may have granted their slots meanwhile.
func (f *Fence) Renew() { f.epoch.Add(1) }

// Epoch returns how often Renew was called.
func (f *Fence) Epoch() uint64 { return f.epoch.Load() }

// Valid reports whether permits may be granted now.
func (f *Fence) Valid() bool { return int64(time.Since(f.began)) < f.until.Load() }

// mayGrantLocked reports whether the pool's fence has not passed. If it has, waiters may be blocked beside free slots from
// now on, which Check then allows.
func (p *Pool) mayGrantLocked(now time.Duration) bool {
	f := p.config.Fence
	if f == nil {
		return true
	}
	p.epoch = f.epoch.Load() // first: a fence that is moved by the next epoch says nothing about permits of this one
	if int64(now+p.fenceOffset) < f.until.Load() {
		return true
	}
	p.blocked = true
	return false
}

// Dispatch hands free slots to waiters, after the fence was set to a later moment.
func (p *Pool) Dispatch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dispatchLocked(p.instant())
}
