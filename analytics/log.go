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
	Appended        uint64 // events given to Append, and those that OpenLog wrote
	Crashed         uint64 // begins of an earlier run that OpenLog ended
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
	open    map[string][]byte // event id of a begin without an end → its line; nil if it is not on disk
	failing bool              // the last append failed
	closed  bool
	stats   LogStats
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
	l.stats.Appended++
	to := &l.bills
	if _, begun := l.open[e.EventID]; !begun && e.Kind == KindRequest && e.Outcome == OutcomeRefused {
		to = &l.refused
	}
	written := l.keepLocked(to, line)
	switch e.Phase {
	case PhaseBegin:
		var kept []byte
		if written {
			kept = bytes.Clone(line)
		}
		l.open[e.EventID] = kept
	case PhaseEnd:
		delete(l.open, e.EventID)
	}
}

// keepLocked writes a line and says whether it stands on disk.
func (l *Log) keepLocked(to *segments, line []byte) bool {
	if l.dir == "" {
		return false
	}
	err := l.writeLocked(to, line)
	if err != nil {
		l.stats.Errors++
		l.countDropsLocked(to, 1)
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
	var carry []byte
	events := 0
	if to == &l.bills {
		for _, line := range l.open {
			if line != nil {
				carry = append(carry, line...)
				events++
			}
		}
	}
	if err := to.roll(carry, events); err != nil {
		return err
	}
	l.dropLocked()
	return nil
}

// dropLocked makes room for the newest segments to grow full: refusals first. Since refused.reach() is at least one
// segment, also while there are none, refusals alone never drop anything but refusals.
func (l *Log) dropLocked() {
	for l.bills.reach()+l.refused.reach() > l.maxBytes {
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
			l.stats.Errors++
			l.logger.Error("cannot keep the disk bound of events", "dir", l.dir, "error", err)
		}
	}
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
	stats.Bytes = l.bills.bytes() + l.refused.bytes()
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
	return errors.Join(l.bills.close(), l.refused.close(), l.unlock())
}
