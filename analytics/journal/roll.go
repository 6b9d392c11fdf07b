package journal

import (
	"fmt"
	"time"
)

// rollLocked starts a new segment and enforces the disk bound.
func (l *Log) rollLocked(to *segments) error {
	if err := l.startSegmentLocked(to); err != nil {
		return err
	}
	l.enforceBoundLocked()
	return nil
}

// startSegmentLocked starts a new segment with the open begins of its kind.
func (l *Log) startSegmentLocked(to *segments) error {
	var first []byte
	carried := 0
	for id, begin := range l.open {
		// A begin whose pending end is written now needs no further copy.
		if to == &l.billing && l.pendingEnds[id] != nil || begin.in != to || begin.line == nil {
			continue
		}
		first = append(first, *begin.line...)
		carried++
	}
	if to == &l.billing {
		for _, end := range l.pendingEnds {
			first = append(first, end...)
		}
	}
	number := max(l.billing.newest.number, l.requests.newest.number, l.refusals.newest.number, l.begins.newest.number) + 1
	if err := to.roll(number, first, carried); err != nil {
		return err
	}
	if to != &l.begins {
		_ = to.record() // if it fails, the next roll tries again
	}
	switch to {
	case &l.billing:
		l.flushedLocked()
	case &l.begins:
		// A begin that is not in the new segment has ended.
		if err := to.removeOlder(); err != nil {
			l.boundErrorLocked(err)
		}
	}
	return nil
}

// flushedLocked notes that the pending ends are in the newest segment.
func (l *Log) flushedLocked() {
	if len(l.pendingEnds) == 0 {
		return
	}
	for id := range l.pendingEnds {
		delete(l.open, id)
	}
	l.billing.newest.events += len(l.pendingEnds)
	l.billing.newest.finals += len(l.pendingEnds)
	l.stats.Appended += uint64(len(l.pendingEnds))
	l.stats.Crashed += uint64(len(l.pendingEnds))
	l.logger.Warn("ended requests that were open when an earlier run died", "requests", len(l.pendingEnds))
	l.pendingEnds = nil
}

// enforceBoundLocked drops segments until the newest ones have room to become full: refusals first, then requests. These
// never drop a billing segment: projectedBytes includes one segment of a kind even while there is none, and begins are
// bounded by themselves.
func (l *Log) enforceBoundLocked() {
	for l.projectedBytesLocked() > l.maxBytes {
		from := l.droppableLocked()
		if from == nil {
			return
		}
		l.dropOldestLocked(from)
		if from == &l.billing {
			from.lost, from.lostAt = fmt.Errorf("the oldest are dropped at the bound of %d bytes", l.maxBytes), time.Now()
		}
	}
}

func (l *Log) projectedBytesLocked() int64 {
	total := l.begins.projectedBytes() + l.begins.limit
	for _, s := range l.finals() {
		total += s.projectedBytes()
	}
	return total
}

// droppableLocked returns the segments to drop the oldest of, or nil if each kind has its newest only.
func (l *Log) droppableLocked() *segments {
	for _, s := range l.finals() {
		if len(s.older) > 0 {
			return s
		}
	}
	return nil
}

// dropOldestLocked drops the oldest of segments that has older ones.
func (l *Log) dropOldestLocked(from *segments) {
	if l.mayEndBeginsLocked(from) {
		l.renewBeginsLocked()
	}
	events, err := from.dropOldest()
	from.dropped += uint64(events)
	if err != nil {
		l.boundErrorLocked(err)
	}
}

// mayEndBeginsLocked reports whether the oldest segment may hold ends of begins in the newest segment of begins: whether
// it was written to after that one was started. It is the rule of openLocked.
func (l *Log) mayEndBeginsLocked(from *segments) bool {
	if l.begins.file == nil && len(l.begins.older) == 0 {
		return false
	}
	switch {
	case len(from.older) > 1:
		return from.older[1].number > l.begins.newest.number
	case from.file == nil: // no newer segment was started
		return true
	}
	return from.newest.number > l.begins.newest.number
}

// renewBeginsLocked starts a new segment of begins, without those that have ended. It costs a copy of the open begins for
// each dropped segment at most, and nothing if begins grow as fast. If it fails, the segment is dropped all the same: on
// a full disk, that makes room.
func (l *Log) renewBeginsLocked() {
	if err := l.startSegmentLocked(&l.begins); err != nil {
		l.stats.Errors++
		l.logger.Error("cannot renew begins before events are dropped; after a crash now, requests that have ended would count as crashed",
			"dir", l.dir, "error", err)
	}
}

func (l *Log) boundErrorLocked(err error) {
	l.stats.Errors++
	l.logger.Error("cannot enforce the disk bound of events", "dir", l.dir, "error", err)
}
