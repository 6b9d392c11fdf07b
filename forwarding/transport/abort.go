package transport

import "sync"

// Abort ends an exchange, as the end of its context does: see [Request] and [Response.Abort]. It is for callers that give up one of
// several exchanges under one context, and costs less than a context for each of them. The zero value is ready for use. End may be called
// by any goroutine; one exchange at a time uses an Abort.
type Abort struct {
	mu    sync.Mutex // guards the fields below
	cause error
	end   func() // ends what the exchange is doing; nil = it is not under way
}

// End ends the exchange with a cause, also one that has yet to begin. Further calls do nothing.
func (a *Abort) End(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cause != nil {
		return
	}
	a.cause = cause
	if a.end != nil {
		a.end() // under the mutex, so that it is over when detach returns
	}
}

// Cause returns the cause with which End was called, or nil; also of a nil Abort.
func (a *Abort) Cause() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cause
}

// attach has End call end from now on, and calls it if End was called before.
func (a *Abort) attach(end func()) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.end = end; a.cause != nil {
		end()
	}
}

// detach ends the effect of End, and reports whether it has had any.
func (a *Abort) detach() (ended bool) {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end = nil
	return a.cause != nil
}
