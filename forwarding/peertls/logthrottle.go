package peertls

import (
	"sync"
	"time"
)

const (
	logPeriod     = time.Minute
	maxPerAddress = 8  // different lines about one address in a period
	maxAddresses  = 64 // in a period
)

// logThrottle drops lines that repeat: the same line about an address is allowed once in a period. Its memory is bounded, since
// clients choose addresses and errors, and lines about one address leave room for those about others. The zero value is ready.
type logThrottle struct {
	mu    sync.Mutex // guards the fields below
	since time.Time
	seen  map[string]map[string]struct{} // lines by address
}

func (l *logThrottle) allow(address, line string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil || now.Sub(l.since) >= logPeriod {
		l.since, l.seen = now, map[string]map[string]struct{}{}
	}
	lines, ok := l.seen[address]
	if !ok {
		if len(l.seen) >= maxAddresses {
			return false
		}
		lines = map[string]struct{}{}
		l.seen[address] = lines
	}
	if _, repeated := lines[line]; repeated || len(lines) >= maxPerAddress {
		return false
	}
	lines[line] = struct{}{}
	return true
}
