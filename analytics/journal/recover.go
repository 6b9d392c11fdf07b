package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"colonnade/analytics"
)

// endEarlierRun ends what an earlier run of the node had in hand. A disk that takes nothing just now keeps no node from
// starting: the ends are then owed, and their begins open.
func (l *Log) endEarlierRun() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := removeUnfinished(l.dir); err != nil {
		return err
	}
	open, err := l.leftOpenLocked()
	if err != nil {
		return err
	}
	l.oweLocked(open)
	if len(l.owed) == 0 {
		l.forgetJournalLocked()
	} else if err := l.rollLocked(&l.bills); err != nil {
		l.stats.Errors++
		l.logger.Error("cannot end requests of an earlier run that were open when it died; trying again with the next event",
			"requests", len(l.owed), "dir", l.dir, "error", err)
	} else {
		l.forgetJournalLocked()
	}
	l.dropLocked() // the bound may be smaller than it was
	return nil
}

// leftOpenLocked returns the begins without an end. The newest segment of bills, and that of the journal, begin with
// every begin of theirs that was open then, so no older begin matters. The ends of those in the journal are elsewhere,
// in what was written since. A begin whose end is on a bad line gets another: too many ends can be told by their id,
// one too few cannot.
func (l *Log) leftOpenLocked() (map[string]leftOpen, error) {
	open := map[string]leftOpen{}
	since := 0 // the number of the journal's newest segment
	if n := len(l.journal.older); n > 0 {
		since = l.journal.older[n-1].number
		if err := l.readLocked(&l.journal, since, open); err != nil {
			return nil, err
		}
	}
	for _, s := range []*segments{&l.bills, &l.refused} {
		for i, o := range s.older {
			last := i == len(s.older)-1
			// The one that was the newest when the journal's was begun, and all after it.
			if !last && (since == 0 || s.older[i+1].number < since) {
				continue
			}
			if err := l.readLocked(s, o.number, open); err != nil {
				return nil, err
			}
		}
	}
	return open, nil
}

// leftOpen is a begin of an earlier run, and where it stands.
type leftOpen struct {
	begin analytics.Event
	in    *segments
}

// readLocked takes the begins and ends of one segment, and counts bad lines.
func (l *Log) readLocked(s *segments, number int, open map[string]leftOpen) error {
	for e, err := range ReadSegment(segmentPath(s.dir, s.prefix, number)) {
		switch {
		case errors.Is(err, ErrTorn), errors.Is(err, ErrCorrupt):
			l.stats.Torn++
			l.logger.Warn("skipped a bad line in the events of an earlier run", "error", err)
		case err != nil:
			return err
		case e.Phase == analytics.PhaseBegin:
			open[e.EventID] = leftOpen{begin: e, in: s}
		case e.Phase == analytics.PhaseEnd:
			delete(open, e.EventID)
		}
	}
	return nil
}

// oweLocked makes the ends. The next new segment of bills, which is there whole or not at all, begins with them: a
// process that is killed before starts over.
func (l *Log) oweLocked(open map[string]leftOpen) {
	l.owed = make(map[string][]byte, len(open))
	now := time.Now().UTC()
	encoder := newLineEncoder()
	for id, left := range open {
		l.open[id] = openBegin{line: bytes.Clone(encoder.encode(&left.begin)), in: left.in}
		end := left.begin
		end.Phase, end.Outcome, end.Partial, end.Time = analytics.PhaseEnd, analytics.OutcomeCrashed, true, now
		l.owed[id] = bytes.Clone(encoder.encode(&end))
	}
}

// forgetJournalLocked removes the journal of an earlier run, all of whose begins have their ends.
func (l *Log) forgetJournalLocked() {
	if err := l.journal.forget(); err != nil {
		l.troubledLocked(err)
	}
}

func removeUnfinished(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), segmentSuffix+newSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, entry.Name())))
		}
	}
	return err
}
