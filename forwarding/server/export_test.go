package server

import "time"

// What external tests look at.
const (
	Prefetched      = prefetched
	LingerTime      = lingerTime
	CutAfter        = cutAfter
	FirstAcceptWait = firstWait
	MaxConnections  = maxConcurrent
	MaxRefusing     = mostDismissed
)

// SetReadTimeout sets how long a head may take to arrive.
func (s *Server) SetReadTimeout(d time.Duration) { s.http.ReadTimeout = d }

// SetMaxConnections bounds the connections in all.
func (s *Server) SetMaxConnections(n int) {
	s.crowd.mu.Lock()
	defer s.crowd.mu.Unlock()
	s.crowd.total = n
}

// Refusing counts the refused connections that are not closed yet.
func (s *Server) Refusing() int { return s.crowd.telling() }

// CountedNetworks counts the addresses and networks that have connections.
func (s *Server) CountedNetworks() int {
	s.crowd.mu.Lock()
	defer s.crowd.mu.Unlock()
	return len(s.crowd.open)
}

// Watches counts the watches that have not ended.
func (w *Watcher) Watches() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.clients)
}
