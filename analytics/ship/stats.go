package ship

import (
	"cmp"
	"time"

	"colonnade/analytics/journal"
)

// Stats is the state of a shipper. Its counts are since Open, but Dropped and Corrupt, which the position has kept.
type Stats struct {
	Name   string `json:"name"`
	Scheme string `json:"scheme"`

	LagEvents  uint64  `json:"lag_events"`  // that the sink has not taken yet, before any filter
	LagSeconds float64 `json:"lag_seconds"` // since the oldest of them; 0 = none

	Shipped  uint64 `json:"shipped"`  // that the sink has taken
	Filtered uint64 `json:"filtered"` // that the filter has left out
	Rejected uint64 `json:"rejected"` // that the sink would never have taken, skipped
	Dropped  uint64 `json:"dropped"`  // that were dropped from the journal, at the bound of its disk, before the sink had taken them
	Corrupt  uint64 `json:"corrupt"`  // lines of the journal that were skipped
	Failures uint64 `json:"failures"` // attempts that failed

	DroppedAt    time.Time `json:"dropped_at,omitzero"`     // when an event was last found to be dropped; zero = not since Open
	Failing      string    `json:"failing,omitempty"`       // why the last attempt failed; empty = it did not
	FailingSince time.Time `json:"failing_since,omitzero"`  // first failed attempt without a success after it
	Unreadable   string    `json:"unreadable,omitempty"`    // why events of the journal cannot be read, and so are not sent; empty = all can be read
	LastRejected string    `json:"last_rejected,omitempty"` // why an event was rejected last; empty = none was
	RejectedAt   time.Time `json:"rejected_at,omitzero"`    // when
	Unsaved      string    `json:"unsaved,omitempty"`       // why the position cannot be saved; empty = it is
}

// measure measures the lag behind the cursor, with the events before it that are pending, and notes whether more events were dropped. If the
// journal cannot be read, it returns what it has measured last.
func (s *Shipper) measure(at journal.Cursor, pending uint64) (behind journal.Behind, droppedAt time.Time) {
	s.gaugeMu.Lock()
	defer s.gaugeMu.Unlock()
	if b, err := s.gauge.Behind(at); err == nil { // else the shipper reports it: see Stats.Unreadable
		s.behind = b
		s.behind.Events += pending
	}
	if s.behind.Missed > s.missed {
		s.missed, s.missedAt = s.behind.Missed, time.Now()
	}
	return s.behind, s.missedAt
}

// Stats returns the state now. It reads the newest segments of the journal as far as they were not counted yet.
func (s *Shipper) Stats() Stats {
	s.mu.Lock()
	stats, read, pending, oldest, caughtUp := s.stats, s.read, s.pending, s.oldest, s.caughtUp
	s.mu.Unlock()
	behind, droppedAt := s.measure(read, pending)
	stats.LagEvents = behind.Events
	stats.Dropped, stats.DroppedAt, stats.Corrupt = behind.Missed, droppedAt, read.Corrupt()
	if stats.LagEvents > 0 {
		since := cmp.Or(oldest, caughtUp)
		stats.LagSeconds = max(0, time.Since(since).Seconds())
	}
	return stats
}
