package homes

import (
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// SilentHold is how long the record of a process that is not registered blocks while nothing is heard of the process. A record that
	// cannot be read as a whole blocks longer: until the end of its process is certain, or an operator deletes it.
	SilentHold = 10 * time.Second
	// linger is how long engines take to notice the end of a process.
	linger = 250 * time.Millisecond
	// standstill is the time without a look at the records after which this process may have been stopped itself: it has not asked
	// meanwhile, so that it heard nothing means nothing.
	standstill = SilentHold / 2
	// askInterval is how often a process that is not registered is asked.
	askInterval = 500 * time.Millisecond
)

// Orphans follows the records whose process is not registered, and decides when each blocks no more. It has no clock and does no I/O.
// It is not safe for concurrent use.
type Orphans struct {
	byProcess map[Process]*orphan
	looked    time.Time // last call of Due or Settle, or when the first record was missed
}

// orphan is the record of one process that is not registered.
type orphan struct {
	record Record
	heard  time.Time // when it was missed, or last heard of
	asked  time.Time // zero = never
	ended  time.Time // when its end became certain; zero = it is not
	answer *Answer   // its last
}

// NewOrphans returns Orphans without records.
func NewOrphans() *Orphans { return &Orphans{byProcess: map[Process]*orphan{}} }

// Update takes all records of other processes, and which of these are registered.
func (o *Orphans) Update(records []Record, registered func(Process) bool, now time.Time) {
	if len(o.byProcess) == 0 {
		o.looked = now // there was nothing to look at before
	}
	missing := map[Process]bool{}
	for _, r := range records {
		if registered(r.Process) {
			continue
		}
		missing[r.Process] = true
		known := o.byProcess[r.Process]
		if known == nil {
			known = &orphan{heard: now}
			o.byProcess[r.Process] = known
		}
		if known.record.Revision != r.Revision {
			// The process may have registered since, and have granted more.
			known.record, known.answer, known.heard = r, nil, now
		}
	}
	maps.DeleteFunc(o.byProcess, func(p Process, _ *orphan) bool { return !missing[p] })
}

// Due returns the records whose processes are to be asked now, sorted, and counts them as asked.
func (o *Orphans) Due(now time.Time) []Record {
	o.look(now)
	var due []Record
	for _, m := range o.sorted() {
		if m.ended.IsZero() && (m.asked.IsZero() || now.Sub(m.asked) >= askInterval) {
			m.asked = now
			due = append(due, m.record)
		}
	}
	return due
}

// look begins the silence of all processes anew if this process did not look at them for a while.
func (o *Orphans) look(now time.Time) {
	if now.Sub(o.looked) > standstill {
		for _, m := range o.byProcess {
			m.heard = now
		}
	}
	o.looked = now
}

// Heard takes the answer of the process that answers for p's node.
func (o *Orphans) Heard(p Process, now time.Time, a Answer) {
	m := o.byProcess[p]
	switch {
	case m == nil:
	case a.Boot == p.Boot:
		m.heard, m.answer = later(m.heard, now), &a
	case slices.Contains(a.Ended, p.Boot):
		m.end(now)
	}
}

// Ended notes that p has certainly ended, at that time or before: its address refuses connections, or a later process of its node knows.
func (o *Orphans) Ended(p Process, at time.Time) {
	if m := o.byProcess[p]; m != nil {
		m.end(at)
	}
}

// Spoke notes that p itself has asked this server something.
func (o *Orphans) Spoke(p Process, at time.Time) {
	if m := o.byProcess[p]; m != nil {
		m.heard = later(m.heard, at)
	}
}

func (m *orphan) end(at time.Time) {
	if m.ended.IsZero() {
		m.ended = at
	}
}

// Settlement is what the record of a process that is not registered becomes.
type Settlement struct {
	Old        Record
	New        *Record // nil = the record is deleted
	WrittenOff bool    // the process may still be running what it held
	Why        string
}

// Settle returns the records that change now, sorted.
func (o *Orphans) Settle(now time.Time) []Settlement {
	o.look(now)
	var all []Settlement
	for _, m := range o.sorted() {
		if s, ok := m.settle(now); ok {
			all = append(all, s)
		}
	}
	return all
}

func (m *orphan) settle(now time.Time) (Settlement, bool) {
	s := Settlement{Old: m.record}
	switch {
	case !m.ended.IsZero():
		s.Why = "the process has ended"
		return s, now.Sub(m.ended) >= linger
	case m.answer != nil && !m.answer.MayGrant:
		held := maps.Clone(m.answer.Held)
		maps.DeleteFunc(held, func(_ string, n int) bool { return n <= 0 })
		if len(held) == 0 {
			s.Why = "the process is not registered and holds nothing"
			return s, true
		}
		next := Record{Process: m.record.Process, Put: m.record.Put, Address: m.record.Address, Held: held}
		s.New, s.Why = &next, "the process is not registered and grants nothing"
		if len(m.record.Owns) > 0 || !maps.Equal(m.record.Held, held) {
			return s, true
		}
	}
	if now.Sub(m.heard) >= SilentHold && m.record.Problem == "" {
		s.New, s.WrittenOff, s.Why = nil, true, "the process has been silent for "+SilentHold.String()
		return s, true
	}
	return s, false
}

// Next returns when Due or Settle may have something new; zero if no record is followed.
func (o *Orphans) Next() time.Time {
	var next time.Time
	for _, m := range o.byProcess {
		at := m.asked.Add(askInterval)
		if !m.ended.IsZero() {
			at = m.ended.Add(linger)
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

func (o *Orphans) sorted() []*orphan {
	return slices.SortedFunc(maps.Values(o.byProcess), func(a, b *orphan) int { return compare(a.record.Process, b.record.Process) })
}

func compare(a, b Process) int {
	if c := strings.Compare(a.Node, b.Node); c != 0 {
		return c
	}
	return strings.Compare(a.Boot, b.Boot)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
