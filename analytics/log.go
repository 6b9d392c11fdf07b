package analytics

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"
)

// LogStats are counts since OpenLog, but for Bytes and OpenBegins, which are states.
type LogStats struct {
	Appended        uint64 // events given to Append, but for begins in the journal; and ends of an earlier run's begins
	Crashed         uint64 // begins of an earlier run that were ended
	Dropped         uint64 // events no longer kept: at the disk bound, or since they could not be written
	DroppedRefusals uint64 // of those, the ones in segments of refusals
	Torn            uint64 // bad lines that an earlier run left in its newest segments
	Errors          uint64 // of the disk
	Bytes           int64  // on disk now
	OpenBegins      int    // begins without an end yet
}

// Log appends events to segments. A nil *Log and one without a Dir are of use too: they keep nothing.
type Log struct {
	node     string
	dir      string // of this node; empty: keep nothing
	maxBytes int64
	logger   *slog.Logger
	lock     *os.File
	lines    sync.Pool // of *[]byte

	mu      sync.Mutex // guards the fields below
	bills   segments   // everything but refusals
	refused segments
	journal segments             // begins of requests, of which an entry does not know yet whether they will be refused
	open    map[string]openBegin // by event id: begins without an end
	owed    map[string][]byte    // by event id: ends for begins of an earlier run, not on disk yet
	failing bool                 // the last append failed
	closed  bool
	stats   LogStats
}

// openBegin is a begin without an end.
type openBegin struct {
	line []byte // nil if it is not on disk
	in   *segments
}

// Append keeps an event. It is in the kernel's hands when Append returns. An event that cannot be written is counted
// and lost; the caller goes on. The event is not kept, and may be used again.
func (l *Log) Append(e *Event) {
	if l == nil {
		return
	}
	filled := *e
	if filled.Node == "" {
		filled.Node = l.node
	}
	if filled.Time.IsZero() {
		filled.Time = time.Now()
	}
	filled.Time = filled.Time.UTC()
	buffer := l.lines.Get().(*[]byte)
	defer l.lines.Put(buffer)
	if l.dir != "" {
		*buffer = appendLine((*buffer)[:0], &filled)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	l.appendLocked(&filled, *buffer)
}

func (l *Log) appendLocked(e *Event, line []byte) {
	to := l.segmentsOf(e)
	if to != &l.journal {
		l.stats.Appended++
	}
	written := l.keepLocked(to, line)
	switch e.Phase {
	case PhaseBegin:
		begin := openBegin{in: to}
		if written {
			begin.line = bytes.Clone(line)
		}
		l.open[e.EventID] = begin
	case PhaseEnd:
		delete(l.open, e.EventID)
	}
}

// segmentsOf says where an event belongs.
func (l *Log) segmentsOf(e *Event) *segments {
	switch {
	case e.Kind != KindRequest:
		return &l.bills
	case e.Phase == PhaseBegin:
		return &l.journal
	case e.Outcome == OutcomeRefused:
		return &l.refused
	}
	return &l.bills
}

// keepLocked writes a line and says whether it stands on disk.
func (l *Log) keepLocked(to *segments, line []byte) bool {
	if l.dir == "" {
		return false
	}
	err := l.writeLocked(to, line)
	if err != nil {
		l.stats.Errors++
		if to != &l.journal { // else nothing is lost yet
			l.countDropsLocked(to, 1)
		}
	}
	// A full disk fails every append: say so once, and once when it is over.
	if failing := err != nil; failing != l.failing {
		l.failing = failing
		if failing {
			l.logger.Error("events are being lost", "dir", l.dir, "error", err)
		} else {
			l.logger.Info("events are kept again", "dir", l.dir, "lost", l.stats.Dropped)
		}
	}
	return err == nil
}

func (l *Log) writeLocked(to *segments, line []byte) error {
	if l.closed {
		return errors.New("log is closed")
	}
	if to.full(len(line)) {
		if err := l.rollLocked(to); err != nil {
			return err
		}
	}
	return to.write(line)
}

// rollLocked starts a new segment and keeps the disk bound.
func (l *Log) rollLocked(to *segments) error {
	var first []byte
	carried := 0
	for id, begin := range l.open {
		// A begin whose end is written now needs no other copy.
		if to == &l.bills && l.owed[id] != nil || begin.in != to || begin.line == nil {
			continue
		}
		first = append(first, begin.line...)
		carried++
	}
	if to == &l.bills {
		for _, end := range l.owed {
			first = append(first, end...)
		}
	}
	number := max(l.bills.newest.number, l.refused.newest.number, l.journal.newest.number) + 1
	if err := to.roll(number, first, carried); err != nil {
		return err
	}
	switch to {
	case &l.bills:
		l.paidLocked()
	case &l.journal:
		// Begins that are not in the new segment have ended.
		if err := to.forget(); err != nil {
			l.troubledLocked(err)
		}
	}
	l.dropLocked()
	return nil
}

// paidLocked takes note that the ends that were owed stand in the newest segment.
func (l *Log) paidLocked() {
	if len(l.owed) == 0 {
		return
	}
	for id := range l.owed {
		delete(l.open, id)
	}
	l.bills.newest.events += len(l.owed)
	l.stats.Appended += uint64(len(l.owed))
	l.stats.Crashed += uint64(len(l.owed))
	l.logger.Warn("ended requests of an earlier run that were open when it died", "requests", len(l.owed))
	l.owed = nil
}

// dropLocked makes room for the newest segments to grow full: refusals first. Since refused.reach() is at least one
// segment, also while there are none, and the journal's does not grow, refusals alone never drop anything but refusals.
func (l *Log) dropLocked() {
	for l.bills.reach()+l.refused.reach()+l.journal.reach()+l.journal.limit > l.maxBytes {
		from := &l.refused
		if len(from.older) == 0 {
			from = &l.bills
		}
		if len(from.older) == 0 {
			return
		}
		events, err := from.dropOldest()
		l.countDropsLocked(from, events)
		if err != nil {
			l.troubledLocked(err)
		}
	}
}

func (l *Log) troubledLocked(err error) {
	l.stats.Errors++
	l.logger.Error("cannot keep the disk bound of events", "dir", l.dir, "error", err)
}

func (l *Log) countDropsLocked(from *segments, events int) {
	l.stats.Dropped += uint64(events)
	if from == &l.refused {
		l.stats.DroppedRefusals += uint64(events)
	}
}

// Stats returns the counts so far.
func (l *Log) Stats() LogStats {
	if l == nil {
		return LogStats{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	stats := l.stats
	stats.Bytes = l.bills.bytes() + l.refused.bytes() + l.journal.bytes()
	stats.OpenBegins = len(l.open)
	return stats
}

// Close ends the log. Begins that are still open are ended by the next OpenLog, as crashed.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.dir == "" {
		l.closed = true
		return nil
	}
	l.closed = true
	return errors.Join(l.bills.close(), l.refused.close(), l.journal.close(), l.unlock())
}
