package journal

// rollLocked starts a new segment and keeps the disk bound.
func (l *Log) rollLocked(to *segments) error {
	if err := l.startLocked(to); err != nil {
		return err
	}
	l.dropLocked()
	return nil
}

// startLocked starts a new segment with what is open of its kind.
func (l *Log) startLocked(to *segments) error {
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
	renewed := false
	for l.bills.reach()+l.refused.reach()+l.journal.reach()+l.journal.limit > l.maxBytes {
		from := &l.refused
		if len(from.older) == 0 {
			from = &l.bills
		}
		if len(from.older) == 0 {
			return
		}
		if !renewed && l.endsJournalLocked(from) {
			renewed = true
			l.renewJournalLocked()
		}
		events, err := from.dropOldest()
		l.countDropsLocked(from, events)
		if err != nil {
			l.troubledLocked(err)
		}
	}
}

// endsJournalLocked says whether the oldest segment may hold ends of begins that the journal still has, as
// leftOpenLocked sees it: whether it was written to since the journal's newest was begun.
func (l *Log) endsJournalLocked(from *segments) bool {
	if l.journal.file == nil && len(l.journal.older) == 0 {
		return false
	}
	switch {
	case len(from.older) > 1:
		return from.older[1].number > l.journal.newest.number
	case from.file == nil: // no other has taken its place yet
		return true
	}
	return from.newest.number > l.journal.newest.number
}

// renewJournalLocked begins the journal anew, without the begins that have ended. That costs a copy of what is open,
// for each segment that is dropped at most, and none if the journal grows as fast. A journal that cannot be written
// keeps no segment from being dropped: on a full disk, that is what makes room.
func (l *Log) renewJournalLocked() {
	if err := l.startLocked(&l.journal); err != nil {
		l.stats.Errors++
		l.logger.Error("cannot begin the journal anew before events are dropped: until that succeeds, a kill would take ended requests for crashed",
			"dir", l.dir, "error", err)
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
