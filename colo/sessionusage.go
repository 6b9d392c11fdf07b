package colo

import (
	"maps"
	"sync"
	"time"

	"colonnade/forwarding/hop"
)

const (
	sessionUsageKept = time.Minute // after the end of a session
	maxSessionUsages = 10_000      // that are kept
)

// sessionUsages keeps what realtime sessions have used after their ends, for the entries through which they went: an entry relays the bytes of a
// session, and does not read them. It is safe for concurrent use.
type sessionUsages struct {
	mu    sync.Mutex              // guards the field below
	ended map[string]sessionUsage // by request id
}

type sessionUsage struct {
	hop.SessionUsage
	source string // the entry
	at     time.Time
}

// put keeps the usage of a session that has ended. It removes those that no entry has asked for in time, if there are too many.
func (u *sessionUsages) put(requestID string, s sessionUsage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended == nil {
		u.ended = map[string]sessionUsage{}
	}
	if len(u.ended) >= maxSessionUsages {
		maps.DeleteFunc(u.ended, func(_ string, old sessionUsage) bool { return s.at.Sub(old.at) > sessionUsageKept })
	}
	if len(u.ended) < maxSessionUsages {
		u.ended[requestID] = s
	}
}

// take removes and returns the usage of a session that went through an entry. It reports false for one that has not ended, or is not known.
func (u *sessionUsages) take(requestID, source string) (hop.SessionUsage, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s, found := u.ended[requestID]
	if !found || s.source != source {
		return hop.SessionUsage{}, false
	}
	delete(u.ended, requestID)
	return s.SessionUsage, true
}
