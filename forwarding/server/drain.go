package server

import (
	"context"
	"time"
)

const (
	maxQuiet  = 500 * time.Millisecond
	maxSettle = 100 * time.Millisecond
	// cancelGrace is how long cancelled requests may take to end before their connections are closed.
	cancelGrace = 3 * time.Second
	// pollInterval is how often a condition of the drain is checked.
	pollInterval = 10 * time.Millisecond
)

// DrainTimings are the durations of the steps of a drain.
type DrainTimings struct {
	Notice time.Duration // longest time in which new requests are served as before
	Settle time.Duration // shortest time in which they are
	// Quiet is how long a client must be silent before it is assumed to send nothing. A client whose TCP handshake takes longer may
	// be reset if it connects at the very end.
	Quiet time.Duration
}

// NewDrainTimings divides total, the time that running requests have. notice is the longest time in which clients notice the drain.
func NewDrainTimings(total, notice time.Duration) DrainTimings {
	return DrainTimings{Notice: min(total/2, notice), Settle: min(total/20, maxSettle), Quiet: min(total/10, maxQuiet)}
}

// Drain makes each response from now on the last of its connection. Requests are served as before.
func (s *Server) Drain() { s.draining.Store(true) }

// Undrain ends what Drain has begun, unless StopAccepting was called.
func (s *Server) Undrain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.draining.Store(false)
	}
}

// AwaitQuiet waits until no request has arrived for t.Quiet and expected, unless it is nil, returns false. It waits for at most
// t.Notice, and until ctx ends.
func (s *Server) AwaitQuiet(ctx context.Context, t DrainTimings, expected func() bool) {
	began := time.Now()
	waitUntil(ctx, func() bool {
		took := time.Since(began)
		quiet := took >= t.Settle && s.inflight.idleFor() >= t.Quiet && (expected == nil || !expected())
		return quiet || took >= t.Notice
	})
}

// StopAccepting refuses new connections, and returns when the listener is closed. A connection between two requests is closed once
// its client has been silent for t.Quiet; a request that arrives before is served. No connection is reset. Then links take no further
// streams, which their clients send elsewhere.
func (s *Server) StopAccepting(t DrainTimings) {
	s.Drain()
	if l := s.stop(); l != nil {
		l.closeGracefully(t.Quiet)
		s.links.goAway()
	}
}

// stop returns the listener to close, or nil if Serve was not called; it will not serve then.
func (s *Server) stop() *listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	return s.listener
}

// Shutdown waits until no request is in flight, closes the listener, and returns when no connection is left. When ctx ends, it
// cancels the requests in flight with cause, and 3 s later closes their connections.
func (s *Server) Shutdown(ctx context.Context, t DrainTimings, cause error) error {
	forced, force := context.WithCancel(context.WithoutCancel(ctx))
	defer force()
	defer context.AfterFunc(ctx, func() {
		s.inflight.CancelAll(cause)
		time.AfterFunc(cancelGrace, force)
	})()
	waitUntil(forced, func() bool { return s.inflight.Count() == 0 })
	s.StopAccepting(t)
	if l := s.stop(); l != nil {
		<-l.served
		waitUntil(forced, func() bool { return l.count() == 0 })
		l.closeAll()
		waitUntil(context.WithoutCancel(ctx), func() bool { return l.count() == 0 })
	}
	s.links.running.Wait() // else they might still accept streams
	err := s.inflight.Close()
	s.links.workers.close()
	return err
}

// waitUntil waits until done returns true, or ctx ends.
func waitUntil(ctx context.Context, done func() bool) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !done() && ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}
