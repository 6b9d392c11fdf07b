package journal

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"colonnade/analytics"
)

// Stats are counts since Open, except Bytes and OpenBegins, which are states.
type Stats struct {
	Appended   uint64  // events that Append has written (without a Dir: counted), and ends of an earlier run's begins; no begins of requests
	Crashed    uint64  // begins of an earlier run that were ended
	Dropped    Dropped // events that are not kept: removed for room, or not written; no begins of requests, which no reader misses
	Torn       uint64  // incomplete or corrupt lines in the newest segments of an earlier run
	Errors     uint64  // failed operations on files
	Bytes      int64   // on disk
	OpenBegins int     // begins without an end
}

// Dropped counts dropped events by kind of segment.
type Dropped struct{ Billing, Requests, Refusals uint64 }

// Total returns the count of all kinds.
func (d Dropped) Total() uint64 { return d.Billing + d.Requests + d.Refusals }

// Log appends the events of one node to segments. A nil *Log and one without a Dir keep nothing. Safe for concurrent use.
type Log struct {
	node     string
	dir      string // of this node; empty: keep nothing
	maxBytes int64
	logger   *slog.Logger
	lock     *os.File

	// Memory for one line each, as *[]byte. Append gives a line back, but the line of an open begin is kept until its end.
	lines, beginLines sync.Pool

	mu          sync.Mutex           // guards the fields below
	billing     segments             // inferences
	requests    segments             // ends of requests, without the refused ones
	refusals    segments             // ends of refused requests
	begins      segments             // begins of requests
	reserve     reserve              // the room on the disk that only billing events may use
	open        map[string]openBegin // by event id: begins without an end
	pendingEnds map[string][]byte    // by event id: ends for begins of an earlier run, not on disk yet
	closed      bool
	stats       Stats
}

// openBegin is a begin without an end.
type openBegin struct {
	line *[]byte // nil if it is not on disk
	in   *segments
}

// Append writes an event; when it returns, the kernel has the event. An event that cannot be written is counted and
// lost, and the caller goes on. Append does not retain e. An event without a node or a time gets the log's node and the
// current time.
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
	memory := &l.lines
	if filled.Phase == analytics.PhaseBegin {
		memory = &l.beginLines
	}
	line := memory.Get().(*[]byte)
	*line = (*line)[:0]
	if l.dir != "" {
		*line = appendLine(*line, &filled)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if kept := l.appendLocked(&filled, line); !kept {
		memory.Put(line)
	}
}

// appendLocked reports whether it has kept the line.
func (l *Log) appendLocked(e *analytics.Event, line *[]byte) (kept bool) {
	to := l.segmentsOf(e)
	written := l.storeLocked(to, *line, e.Time)
	if to != &l.begins && (written || l.dir == "") {
		l.stats.Appended++
	}
	if written && e.Phase == analytics.PhaseEnd {
		to.newest.finals++
	}
	switch {
	case e.Phase == analytics.PhaseBegin && written:
		l.open[e.EventID] = openBegin{line: line, in: to}
		return true // the end gives the line back
	case e.Phase == analytics.PhaseBegin:
		l.open[e.EventID] = openBegin{in: to}
	case e.Phase == analytics.PhaseEnd:
		if begin := l.open[e.EventID]; begin.line != nil {
			l.beginLines.Put(begin.line)
		}
		delete(l.open, e.EventID)
	}
	return false
}

// segmentsOf returns the segments that an event belongs to.
func (l *Log) segmentsOf(e *analytics.Event) *segments {
	switch {
	case e.Kind != analytics.KindRequest:
		return &l.billing
	case e.Phase == analytics.PhaseBegin:
		return &l.begins
	case e.Outcome == analytics.OutcomeRefused:
		return &l.refusals
	}
	return &l.requests
}

// finals returns the segments of final events, those first whose events are dropped first.
func (l *Log) finals() [3]*segments { return [...]*segments{&l.refusals, &l.requests, &l.billing} }

// storeLocked writes the line of an event that has just happened, counts it if that fails, and reports whether it is on disk.
func (l *Log) storeLocked(to *segments, line []byte, now time.Time) bool {
	if l.dir == "" {
		return false
	}
	err := l.writeLocked(to, line, now)
	if err != nil {
		if !errors.Is(err, errReserved) {
			l.stats.Errors++
		}
		to.dropped++
		to.lost, to.lostAt = err, time.Now()
	}
	l.logTransitionLocked(to, err)
	return err == nil
}

// logTransitionLocked logs once that writes to these segments fail, and once that they succeed again. Each kind has its
// own state: if one fails and another does not, as on a disk that is nearly full, every request would log otherwise.
func (l *Log) logTransitionLocked(to *segments, err error) {
	if failing := err != nil; failing == to.failing {
		return
	}
	to.failing = err != nil
	switch ofBegins := to == &l.begins; {
	case to.failing && ofBegins:
		l.logger.Error("begins are not kept: requests open at a crash would leave no event", "dir", l.dir, "error", err)
	case to.failing:
		l.logger.Error("events are being lost", "events", to.events, "dir", l.dir, "error", err)
	case ofBegins:
		l.logger.Info("begins are kept again", "dir", l.dir, "dropped", to.dropped)
	default:
		l.logger.Info("events are kept again", "events", to.events, "dir", l.dir, "dropped", to.dropped)
	}
}

func (l *Log) writeLocked(to *segments, line []byte, now time.Time) error {
	if l.closed {
		return errors.New("log is closed")
	}
	if to != &l.billing {
		if err := l.keepReserveLocked(len(line)); err != nil {
			return err
		}
	}
	if to.isFull(len(line)) {
		if err := l.rollLocked(to); err != nil {
			return err
		}
	}
	return to.write(line, now)
}

// Stats returns the counts so far.
func (l *Log) Stats() Stats {
	if l == nil {
		return Stats{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	stats := l.stats
	stats.Dropped = Dropped{Billing: l.billing.dropped, Requests: l.requests.dropped, Refusals: l.refusals.dropped}
	stats.Bytes = l.billing.bytes() + l.requests.bytes() + l.refusals.bytes() + l.begins.bytes()
	stats.OpenBegins = len(l.open)
	return stats
}

// Close syncs and closes the log. The next Open ends begins that are still open, as crashed.
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
	return errors.Join(l.billing.close(), l.requests.close(), l.refusals.close(), l.begins.close(), l.unlock())
}
