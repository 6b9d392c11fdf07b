// Package lazyctx has a context that costs little as long as nothing waits for its end.
//
// A context of package context allocates its channel, its children and a function for each of them, and registers each with its parent.
// Most requests end without a cancellation, and nothing but one hook in the connection of their exchange, or in the queue while they wait, has to notice one.
package lazyctx

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Context is a context that ends with a call of Cancel, like one of [context.WithCancelCause]. It makes a context of that kind when its
// channel or its values are first used, so contexts can be derived from it, and [context.Cause] returns its cause. The zero value has not
// ended. It must not be copied. Its methods may be called by several goroutines at once.
type Context struct {
	ended atomic.Bool // set under mu, with cause

	mu        sync.Mutex // guards the fields below; locked before the mutexes of std
	cause     error
	std       context.Context // nil until it is used
	cancelStd context.CancelCauseFunc
	hooks     *Hook // first of a list
}

// Cancel ends the context with a cause; nil means [context.Canceled]. Further calls do nothing.
func (c *Context) Cancel(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended.Load() {
		return
	}
	c.cause = cause
	c.ended.Store(true)
	if c.std != nil {
		c.cancelStd(cause)
	}
	for c.hooks != nil {
		h := c.hooks
		c.removeLocked(h)
		go h.f()
	}
}

// Err returns nil, or [context.Canceled] once the context has ended. Then the channel of Done is closed.
func (c *Context) Err() error {
	if !c.ended.Load() {
		return nil
	}
	c.mu.Lock() // until Cancel has closed the channel
	defer c.mu.Unlock()
	return context.Canceled
}

// Deadline returns that there is none.
func (c *Context) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done returns a channel that is closed when the context ends.
func (c *Context) Done() <-chan struct{} { return c.standard().Done() }

// Value lets package context find the context of its own kind, so that derived contexts need no goroutine. Any call makes that context.
func (c *Context) Value(key any) any { return c.standard().Value(key) }

func (c *Context) standard() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.std == nil {
		c.std, c.cancelStd = context.WithCancelCause(context.Background())
		if c.ended.Load() {
			c.cancelStd(c.cause)
		}
	}
	return c.std
}

// Hook is one function to call at the end of a context, like one of [context.AfterFunc]. It allocates nothing for a [Context]. The zero
// value is ready for Attach. It must not be copied, and is for one goroutine at a time.
type Hook struct {
	context *Context    // nil for any other context
	stop    func() bool // for any other context
	f       func()

	waits          bool // guarded by the context's mutex, with the fields below
	previous, next *Hook
}

// Attach has f called in a goroutine of its own when ctx ends, or at once if it has ended. It may be called again after Stop.
func (h *Hook) Attach(ctx context.Context, f func()) {
	c, ok := ctx.(*Context)
	if !ok {
		*h = Hook{stop: context.AfterFunc(ctx, f)}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if *h = (Hook{context: c, f: f}); c.ended.Load() {
		go f()
		return
	}
	if h.waits, h.next = true, c.hooks; h.next != nil {
		h.next.previous = h
	}
	c.hooks = h
}

// Stop ends the effect of Attach, and reports whether it has prevented the call; further calls report false.
func (h *Hook) Stop() bool {
	switch {
	case h.stop != nil:
		return h.stop()
	case h.context == nil:
		return false
	}
	h.context.mu.Lock()
	defer h.context.mu.Unlock()
	waited := h.waits
	if waited {
		h.context.removeLocked(h)
	}
	return waited
}

// removeLocked removes a hook that waits from the list.
func (c *Context) removeLocked(h *Hook) {
	if h.next != nil {
		h.next.previous = h.previous
	}
	if h.previous != nil {
		h.previous.next = h.next
	} else {
		c.hooks = h.next
	}
	h.waits, h.previous, h.next = false, nil, nil
}
