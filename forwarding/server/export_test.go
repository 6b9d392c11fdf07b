package server

import "time"

// For external tests.
const (
	Prefetched      = maxPrefetch
	LingerTime      = lingerTime
	CutAfter        = cancelGrace
	FirstAcceptWait = acceptBackoffMin
	MaxConnections  = maxConcurrent
	MaxRefusing     = maxRejecting
)

// SetReadTimeout sets how long a head may take to arrive.
func (s *Server) SetReadTimeout(d time.Duration) { s.http.ReadTimeout = d }

// SetMaxConnections bounds the connections in all.
func (s *Server) SetMaxConnections(n int) {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	s.limiter.maxTotal = n
}

// Refusing counts the refused connections that are not closed yet.
func (s *Server) Refusing() int { return s.limiter.countRejecting() }

// CountedNetworks counts the addresses and networks that have connections.
func (s *Server) CountedNetworks() int {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	return len(s.limiter.perIP)
}

// Watches counts the watches that have not ended.
func (w *Watcher) Watches() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.clients)
}
