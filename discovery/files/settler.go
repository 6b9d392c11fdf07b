package files

import "time"

// Files that change together are for one table. It waits until nothing has changed for settleTime, but no longer than
// maxSettleTime after the first change.
const (
	settleTime    = 100 * time.Millisecond
	maxSettleTime = 500 * time.Millisecond
)

// settler decides when changed files are read. It has no clock of its own.
type settler struct {
	first, last time.Time // of the changes since the files were read; zero = there is none
}

// change notes that a change was seen.
func (s *settler) change(now time.Time) {
	if s.first.IsZero() {
		s.first = now
	}
	s.last = now
}

func (s *settler) pending() bool { return !s.first.IsZero() }

// due returns when the files are to be read, if a change is pending.
func (s *settler) due() time.Time {
	settled := s.last.Add(settleTime)
	if latest := s.first.Add(maxSettleTime); latest.Before(settled) {
		return latest
	}
	return settled
}
