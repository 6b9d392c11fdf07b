package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/forwarding/peertls"

	"github.com/valyala/fasthttp"
)

// Server answers the requests that come in at a listener, and can end without harm to anybody. Its steps are
// [Server.Drain], [Server.AwaitQuiet], [Server.Shut] and [Server.End].
//
// fasthttp's own end would do harm. It closes the listener at once, which resets whoever stands in its backlog; it ends
// idle connections without a look at what has arrived meanwhile, and others after an answer that did not say so; and it
// does not know the connections that were taken over.
type Server struct {
	http     *fasthttp.Server
	limiter  *connLimiter
	tls      *tls.Config         // nil = without
	peers    *peertls.TrustStore // nil = anybody is let in
	logger   *slog.Logger
	inflight *Inflight
	draining atomic.Bool

	mu       sync.Mutex // guards the fields below
	listener *listener  // nil before Serve
	shut     bool
}

const (
	maxQuiet  = 500 * time.Millisecond
	maxSettle = 100 * time.Millisecond
	// cancelGrace is how long what was told to end may take to do so.
	cancelGrace = 3 * time.Second
	// pollInterval is how often an end that is being waited for is looked for.
	pollInterval = 10 * time.Millisecond
)

// DrainTimings is how long the steps of an end take.
type DrainTimings struct {
	Notice time.Duration // the longest time in which new requests are served as before
	Settle time.Duration // the shortest
	// Quiet is after how long a silent client is not about to send something. Where it is shorter than a handshake
	// takes, who connects at the very end may be reset.
	Quiet time.Duration
}

// NewDrainTimings fits the steps into the time that running requests have. notice is the most that others need to notice.
func NewDrainTimings(total, notice time.Duration) DrainTimings {
	return DrainTimings{Notice: min(total/2, notice), Settle: min(total/20, maxSettle), Quiet: min(total/10, maxQuiet)}
}

// Serve answers what comes in at ln, which is of TCP, until Shut.
func (s *Server) Serve(ln net.Listener) error {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return fmt.Errorf("cannot serve %s: a %T is no listener of TCP alone", ln.Addr(), ln)
	}
	d := s.openListener(tcp)
	if d == nil {
		return ln.Close()
	}
	defer close(d.served)
	if err := s.http.Serve(d); err != nil {
		return fmt.Errorf("cannot serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// openListener returns nil if it is to stay shut.
func (s *Server) openListener(ln *net.TCPListener) *listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shut {
		s.listener = newListener(ln, s)
	}
	return s.listener
}

func (s *Server) markShut() *listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	return s.listener
}

// ConnStats says how many there are, and how many were refused.
func (s *Server) ConnStats() ConnStats { return s.limiter.stats() }

// Drain makes every answer from now on the last of its connection, and says so. Requests are served as before.
func (s *Server) Drain() { s.draining.Store(true) }

// AwaitQuiet waits until no request has come for a while and expected, unless it is nil, is false; for p.Notice at
// most, and until ctx ends.
func (s *Server) AwaitQuiet(ctx context.Context, p DrainTimings, expected func() bool) {
	began := time.Now()
	waitUntil(ctx, func() bool {
		took := time.Since(began)
		quiet := took >= p.Settle && s.inflight.idleFor() >= p.Quiet && (expected == nil || !expected())
		return quiet || took >= p.Notice
	})
}

// StopAccepting lets nobody in any more, and returns once the listener is closed. Connections that wait for a request end once
// they have been silent for a while; who still sends one is answered. Nobody is reset.
func (s *Server) StopAccepting(p DrainTimings) {
	s.Drain()
	if d := s.markShut(); d != nil {
		d.closeGracefully(p.Quiet)
	}
}

// Shutdown waits until nothing is in hand. When ctx ends, it ends what still is, for cause, and cuts what has not ended a
// moment later. It returns once there is neither a connection left nor a request in hand.
func (s *Server) Shutdown(ctx context.Context, p DrainTimings, cause error) error {
	cut, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		s.inflight.CancelAll(cause)
		time.AfterFunc(cancelGrace, cancel)
	})()
	waitUntil(cut, func() bool { return s.inflight.Count() == 0 })
	s.StopAccepting(p)
	if d := s.markShut(); d != nil {
		<-d.served
		waitUntil(cut, func() bool { return d.count() == 0 })
		d.closeAll()
		waitUntil(context.WithoutCancel(ctx), func() bool { return d.count() == 0 })
	}
	return s.inflight.Close()
}

// waitUntil waits until done, or ctx ends.
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
