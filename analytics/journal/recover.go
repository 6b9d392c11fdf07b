package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"colonnade/analytics"
)

// closeEarlierRun ends what an earlier run of the node left open. If the disk takes no data now, the node starts all the
// same: the ends are pending then, and their begins open.
func (l *Log) closeEarlierRun() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	open, err := l.openLocked()
	if err != nil {
		return err
	}
	l.makeEndsLocked(open)
	if len(l.pendingEnds) == 0 {
		l.resetBeginsLocked()
	} else if err := l.rollLocked(&l.billing); err != nil {
		l.stats.Errors++
		l.logger.Error("cannot end requests that were open when an earlier run died; trying again with the next event",
			"requests", len(l.pendingEnds), "dir", l.dir, "error", err)
	} else {
		l.resetBeginsLocked()
	}
	l.enforceBoundLocked() // the bound may be smaller than in the earlier run
	return nil
}

// leftOpen is a begin of an earlier run, and the segments that it is in.
type leftOpen struct {
	begin analytics.Event
	in    *segments
}

// openLocked returns the begins without an end, by event id. The newest billing segment and the newest segment of begins
// start with every begin that was open then, so older begins do not matter; the ends of requests are in the segments of
// final events that were written to since that segment of begins was started. A begin whose end is on a corrupt line
// gets a second end: its id shows that, while a missing one would show nowhere.
func (l *Log) openLocked() (map[string]leftOpen, error) {
	open := map[string]leftOpen{}
	since := 0 // the number of the newest segment of begins
	if n := len(l.begins.older); n > 0 {
		since = l.begins.older[n-1].number
		if err := l.replayLocked(&l.begins, &l.begins.older[n-1], open); err != nil {
			return nil, err
		}
	}
	for _, s := range l.finals() {
		for i := range s.older {
			last := i == len(s.older)-1
			// Written to since: the one that was the newest when that segment of begins was started, and all after it.
			if !last && (since == 0 || s.older[i+1].number < since) {
				continue
			}
			if err := l.replayLocked(s, &s.older[i], open); err != nil {
				return nil, err
			}
		}
		_ = s.record() // likewise
	}
	return open, nil
}

// replayLocked adds the begins of one segment to open, removes those that it ends, and counts bad lines. It removes the zeros that a
// killed process has left behind the last line.
func (l *Log) replayLocked(s *segments, replayed *segment, open map[string]leftOpen) error {
	path, end := segmentPath(s.dir, s.prefix, replayed.number), int64(0)
	torn, finals := false, 0
	for e, err := range readSegment(path, &end, false) {
		switch {
		case errors.Is(err, ErrTorn), errors.Is(err, ErrCorrupt):
			torn = errors.Is(err, ErrTorn)
			l.stats.Torn++
			l.logger.Warn("skipped a bad line in the events of an earlier run", "error", err)
		case err != nil:
			return err
		case e.Phase == analytics.PhaseBegin:
			open[e.EventID] = leftOpen{begin: e, in: s}
		case e.Phase == analytics.PhaseEnd:
			delete(open, e.EventID)
			finals++
		}
	}
	if !replayed.recorded {
		replayed.finals = finals
	}
	if !torn && replayed.bytes > end && os.Truncate(path, end) == nil {
		replayed.bytes = end
	}
	return nil
}

// makeEndsLocked makes the pending ends. The next billing segment, which exists as a whole or not at all, begins with
// them.
func (l *Log) makeEndsLocked(open map[string]leftOpen) {
	l.pendingEnds = make(map[string][]byte, len(open))
	now := time.Now().UTC()
	for id, left := range open {
		l.open[id] = openBegin{line: new(appendLine(nil, &left.begin)), in: left.in}
		end := left.begin
		end.Phase, end.Outcome, end.Partial, end.Time = analytics.PhaseEnd, analytics.OutcomeCrashed, true, now
		l.pendingEnds[id] = appendLine(nil, &end)
	}
}

// resetBeginsLocked removes the begins of an earlier run, all of which have ends on disk.
func (l *Log) resetBeginsLocked() {
	if err := l.begins.removeOlder(); err != nil {
		l.boundErrorLocked(err)
	}
}

// removeUnfinished removes segments that an earlier run did not get to rename.
func removeUnfinished(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), segmentSuffix+unfinishedSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, entry.Name())))
		}
	}
	return err
}
