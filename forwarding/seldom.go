package forwarding

import (
	"sync"
	"time"
)

// mostTold bounds what is told in a minute.
const mostTold = 64

// seldom keeps a log from being filled: each text is news once a minute.
type seldom struct {
	mu    sync.Mutex // guards the fields below
	since time.Time
	told  map[string]struct{}
}

func (s *seldom) isNews(text string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told == nil || now.Sub(s.since) >= complainEvery {
		s.since, s.told = now, map[string]struct{}{}
	}
	if _, known := s.told[text]; known || len(s.told) >= mostTold {
		return false
	}
	s.told[text] = struct{}{}
	return true
}
