package analytics

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// endEarlierRun ends what an earlier run of the node had in hand. Only newest segments are read: each begins with every
// begin that was open then.
func (l *Log) endEarlierRun() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := removeUnfinished(l.dir); err != nil {
		return err
	}
	open, err := l.readNewestLocked(&l.bills)
	if err != nil {
		return err
	}
	if _, err := l.readNewestLocked(&l.refused); err != nil {
		return err
	}
	if len(open) > 0 {
		if err := l.endCrashedLocked(open); err != nil {
			return err
		}
	}
	l.dropLocked() // the bound may be smaller than it was
	return nil
}

// readNewestLocked returns the begins without an end, and counts bad lines. A begin whose end is on a bad line gets
// another: too many ends can be told by their id, one too few cannot.
func (l *Log) readNewestLocked(s *segments) (map[string]Event, error) {
	if len(s.older) == 0 {
		return nil, nil
	}
	path := segmentPath(s.dir, s.prefix, s.older[len(s.older)-1].number)
	open := map[string]Event{}
	for e, err := range ReadSegment(path) {
		switch {
		case errors.Is(err, ErrTorn), errors.Is(err, ErrCorrupt):
			l.stats.Torn++
			l.logger.Warn("skipped a bad line in the events of an earlier run", "error", err)
		case err != nil:
			return nil, err
		case e.Phase == PhaseBegin:
			open[e.EventID] = e
		case e.Phase == PhaseEnd:
			delete(open, e.EventID)
		}
	}
	return open, nil
}

// endCrashedLocked writes the ends into a segment that is there whole or not at all: a process killed here starts over.
func (l *Log) endCrashedLocked(open map[string]Event) error {
	var lines []byte
	now := time.Now().UTC()
	for _, e := range open {
		e.Phase, e.Outcome, e.Partial, e.Time = PhaseEnd, OutcomeCrashed, true, now
		lines = appendLine(lines, &e)
	}
	if err := l.bills.roll(lines, len(open)); err != nil {
		return err
	}
	l.stats.Appended += uint64(len(open))
	l.stats.Crashed += uint64(len(open))
	l.logger.Warn("ended requests of an earlier run that were open when it died", "requests", len(open))
	return nil
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
