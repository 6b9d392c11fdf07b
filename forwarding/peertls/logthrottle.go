package peertls

import (
	"sync"
	"time"
)

// mostTold bounds what is told of one address in a minute, and mostTellers the addresses.
// logPeriod is how often the same is logged again.
const logPeriod = time.Minute

const (
	maxPerAddress = 8
	maxAddresses  = 64
)

// logThrottle keeps a log from being filled: what is told of an address is news once a minute. One address cannot keep what
// is told of another one from being news.
type logThrottle struct {
	mu    sync.Mutex // guards the fields below
	since time.Time
	seen  map[string]map[string]struct{} // by address
}

func (s *logThrottle) allow(address, text string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil || now.Sub(s.since) >= logPeriod {
		s.since, s.seen = now, map[string]map[string]struct{}{}
	}
	of, known := s.seen[address]
	if !known {
		if len(s.seen) >= maxAddresses {
			return false
		}
		of = map[string]struct{}{}
		s.seen[address] = of
	}
	if _, known := of[text]; known || len(of) >= maxPerAddress {
		return false
	}
	of[text] = struct{}{}
	return true
}
