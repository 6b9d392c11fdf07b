package server

import "time"

// For external tests.
const (
	MaxPrefetch      = maxPrefetch
	LingerTime       = lingerTime
	CancelGrace      = cancelGrace
	AcceptBackoffMin = acceptBackoffMin
	MaxConnections   = MaxConns
	MaxRejecting     = maxRejecting
)

// SetReadTimeout sets the time in which a head must arrive.
func (s *Server) SetReadTimeout(d time.Duration) { s.http.ReadTimeout = d }

// SetMaxConnections sets the limit of all connections.
func (s *Server) SetMaxConnections(n int) {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	s.limiter.maxTotal = n
}

// Rejecting counts the refused connections that are not closed yet.
func (s *Server) Rejecting() int { return s.limiter.countRejecting() }

// CountedNetworks counts the addresses and networks that have connections.
func (s *Server) CountedNetworks() int {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	return len(s.limiter.perIP)
}
