package journal

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

const (
	reserveSegments = 4  // the reserve, in segments; at most a quarter of the file system
	looksPerSegment = 16 // how often the free space is looked at while a segment fills
	// problemWindow is how long lost events are reported as a problem.
	problemWindow = 10 * time.Minute
)

// errReserved is wrapped by the errors of events that are not kept since only billing events may use the last free space.
var errReserved = errors.New("the last free space of the disk is kept for events that bill")

// reserve is the free space of the disk that is kept for billing events: those of this log, and those of other nodes that log
// to the same disk.
type reserve struct {
	segmentBytes int64
	unseen       int64 // bytes of other events since the last look at the free space
	short        bool  // at the last look, less was free
}

// keepReserveLocked returns an error that wraps errReserved if the disk has no room for size bytes that do not bill. At each look
// that finds too little, it drops the oldest segment of refusals, else of requests, as at the disk bound.
func (l *Log) keepReserveLocked(size int) error {
	r := &l.reserve
	if r.unseen += int64(size); !r.short && r.unseen < r.segmentBytes/looksPerSegment {
		return nil
	}
	r.unseen = 0
	missing := r.missing(l.dir)
	if missing > 0 {
		if from := l.droppableLocked(); from != nil && from != &l.billing {
			l.dropOldestLocked(from)
			missing = r.missing(l.dir)
		}
	}
	if r.short = missing > 0; r.short {
		return fmt.Errorf("%w: %d bytes short", errReserved, missing)
	}
	return nil
}

// missing returns how many bytes the free space of the disk of dir is short of the reserve; nothing if the disk does not say.
func (r *reserve) missing(dir string) int64 {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return 0
	}
	block := int64(disk.Bsize)
	free, size := int64(disk.Bavail)*block, int64(disk.Blocks)*block
	return min(reserveSegments*r.segmentBytes, size/4) - free
}

// Problems returns, for each kind of event, that events of it were lost in the last ten minutes: not written, or billing events
// that were dropped at the disk bound. Refusals and requests that are dropped at the bound are no problem.
func (l *Log) Problems() []error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var problems []error
	for _, s := range []*segments{&l.billing, &l.requests, &l.refusals, &l.begins} {
		if s.lost == nil || time.Since(s.lostAt) > problemWindow {
			continue
		}
		problems = append(problems, fmt.Errorf("events are being dropped: %s, %d since the start, the last %s ago, below %s: %w",
			s.events, s.dropped, time.Since(s.lostAt).Round(time.Second), l.dir, s.lost))
	}
	return problems
}
