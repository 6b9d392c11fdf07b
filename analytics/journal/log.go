package journal

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"colonnade/analytics"
)

// LogStats are counts since OpenLog, but for Bytes and OpenBegins, which are states.
type Stats struct {
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
	encoders sync.Pool // of *lineEncoder

	mu      sync.Mutex // guards the fields below
	bills   segments   // everything but refusals
	refused segments
	journal segments             // begins of requests, of which an entry does not know yet whether they will be refused
	open    map[string]openBegin // by event id: begins without an end
	owed    map[string][]byte    // by event id: ends for begins of an earlier run, not on disk yet
	closed  bool
	stats   Stats
}

// openBegin is a begin without an end.
type openBegin struct {
	line []byte // nil if it is not on disk
	in   *segments
}

// Append keeps an event. It is in the kernel's hands when Append returns. An event that cannot be written is counted
// and lost; the caller goes on. The event is not kept, and may be used again.
func (l *Log) Append(e *analytics.Event) {
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
	encoder := l.encoders.Get().(*lineEncoder)
	defer l.encoders.Put(encoder)
	var line []byte
	if l.dir != "" {
		line = encoder.encode(&filled)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	l.appendLocked(&filled, line)
}

func (l *Log) appendLocked(e *analytics.Event, line []byte) {
	to := l.segmentsOf(e)
	if to != &l.journal {
		l.stats.Appended++
	}
	written := l.keepLocked(to, line)
	switch e.Phase {
	case analytics.PhaseBegin:
		begin := openBegin{in: to}
		if written {
			begin.line = bytes.Clone(line)
		}
		l.open[e.EventID] = begin
	case analytics.PhaseEnd:
		delete(l.open, e.EventID)
	}
}

// segmentsOf says where an event belongs.
func (l *Log) segmentsOf(e *analytics.Event) *segments {
	switch {
	case e.Kind != analytics.KindRequest:
		return &l.bills
	case e.Phase == analytics.PhaseBegin:
		return &l.journal
	case e.Outcome == analytics.OutcomeRefused:
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
	l.tellLocked(to, err)
	return err == nil
}

// tellLocked says once that appends to these segments fail, as all do on a full disk, and once when that is over. Each
// prefix has its own state: where one fails and another does not, every request would else be told of twice.
func (l *Log) tellLocked(to *segments, err error) {
	if failing := err != nil; failing == to.failing {
		return
	}
	to.failing = err != nil
	lost, kept := "events are being lost", "events are kept again"
	switch to {
	case &l.refused:
		lost, kept = "events of refusals are being lost", "events of refusals are kept again"
	case &l.journal:
		lost, kept = "begins are not kept; a kill would leave no trace of them", "begins are kept again"
	}
	if to.failing {
		l.logger.Error(lost, "dir", l.dir, "error", err)
	} else {
		l.logger.Info(kept, "dir", l.dir, "dropped", l.stats.Dropped)
	}
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

// Stats returns the counts so far.
func (l *Log) Stats() Stats {
	if l == nil {
		return Stats{}
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
