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
	// pauseLimit is the longest time between two calls of Due or Settle that does not suggest that this process itself was stopped. After a
	// longer one, the silence of other processes proves nothing, since this one has not asked them.
	pauseLimit = SilentHold / 2
	// askInterval is how often a process that is not registered is asked.
	askInterval = 500 * time.Millisecond
)

// Orphans follows the records whose process is not registered, and decides when each blocks no more. It has no clock and does no I/O.
// It is not safe for concurrent use.
type Orphans struct {
	byProcess map[Process]*orphan
	lastRun   time.Time // last call of Due or Settle, or when the first record became orphaned
}

// orphan is one record whose process is not registered.
type orphan struct {
	record    Record
	lastAlive time.Time // when it became orphaned, or last gave a sign of life
	asked     time.Time // zero = never
	ended     time.Time // when its end became certain; zero = the end is not certain
	answer    *Answer   // the last one; nil = none
}

// NewOrphans returns Orphans without records.
func NewOrphans() *Orphans { return &Orphans{byProcess: map[Process]*orphan{}} }

// Update sets the records of all other processes. registered reports whether a process is registered.
func (o *Orphans) Update(records []Record, registered func(Process) bool, now time.Time) {
	if len(o.byProcess) == 0 {
		o.lastRun = now // no record was orphaned before
	}
	missing := map[Process]bool{}
	for _, r := range records {
		if registered(r.Process) {
			continue
		}
		missing[r.Process] = true
		known := o.byProcess[r.Process]
		if known == nil {
			known = &orphan{lastAlive: now}
			o.byProcess[r.Process] = known
		}
		if known.record.Revision != r.Revision {
			// The process may have registered meanwhile, and may have more requests than it answered.
			known.record, known.answer, known.lastAlive = r, nil, now
		}
	}
	maps.DeleteFunc(o.byProcess, func(p Process, _ *orphan) bool { return !missing[p] })
}

// Due returns the records whose processes must be asked now, sorted, and notes that they are asked.
func (o *Orphans) Due(now time.Time) []Record {
	o.resetAfterPause(now)
	var due []Record
	for _, r := range o.sorted() {
		if r.ended.IsZero() && (r.asked.IsZero() || now.Sub(r.asked) >= askInterval) {
			r.asked = now
			due = append(due, r.record)
		}
	}
	return due
}

// resetAfterPause restarts the silence of all processes at now if this process may have been stopped since the last run.
func (o *Orphans) resetAfterPause(now time.Time) {
	if now.Sub(o.lastRun) > pauseLimit {
		for _, r := range o.byProcess {
			r.lastAlive = now
		}
	}
	o.lastRun = now
}

// Answered notes the answer of a process at the address of p: of p, or of a later process of its node.
func (o *Orphans) Answered(p Process, now time.Time, a Answer) {
	r := o.byProcess[p]
	switch {
	case r == nil:
	case a.Boot == p.Boot:
		r.lastAlive, r.answer = later(r.lastAlive, now), &a
	case slices.Contains(a.Ended, p.Boot):
		r.end(now)
	}
}

// Ended notes that p has certainly ended, at that time or before: its address refuses connections, or a later process of its node has said
// so or has its address.
func (o *Orphans) Ended(p Process, at time.Time) {
	if r := o.byProcess[p]; r != nil {
		r.end(at)
	}
}

// Alive notes a sign of life of p other than an answer: it has asked this server, has registered, or its record has changed.
func (o *Orphans) Alive(p Process, at time.Time) {
	if r := o.byProcess[p]; r != nil {
		r.lastAlive = later(r.lastAlive, at)
	}
}

func (r *orphan) end(at time.Time) {
	if r.ended.IsZero() {
		r.ended = at
	}
}

// Settlement is a change of an orphaned record.
type Settlement struct {
	Old        Record
	New        *Record // nil = the record is deleted
	WrittenOff bool    // the process may still be running what it held
	Why        string
}

// Settle returns the changes that are due now, sorted by process.
func (o *Orphans) Settle(now time.Time) []Settlement {
	o.resetAfterPause(now)
	var all []Settlement
	for _, r := range o.sorted() {
		if s, ok := r.settle(now); ok {
			all = append(all, s)
		}
	}
	return all
}

func (r *orphan) settle(now time.Time) (Settlement, bool) {
	s := Settlement{Old: r.record}
	switch {
	case !r.ended.IsZero():
		s.Why = "the process has ended"
		return s, now.Sub(r.ended) >= linger
	case r.answer != nil && !r.answer.MayGrant:
		held := maps.Clone(r.answer.Held)
		maps.DeleteFunc(held, func(_ string, n int) bool { return n <= 0 })
		if len(held) == 0 {
			s.Why = "the process is not registered and holds nothing"
			return s, true
		}
		next := Record{Process: r.record.Process, Put: r.record.Put, Address: r.record.Address, Held: held}
		s.New, s.Why = &next, "the process is not registered and grants nothing"
		if len(r.record.Owns) > 0 || !maps.Equal(r.record.Held, held) {
			return s, true
		}
	}
	if now.Sub(r.lastAlive) >= SilentHold && r.record.Problem == "" {
		s.New, s.WrittenOff, s.Why = nil, true, "the process has been silent for "+SilentHold.String()
		return s, true
	}
	return s, false
}

// Next returns when Due or Settle may return something again; zero if no record is orphaned.
func (o *Orphans) Next() time.Time {
	var next time.Time
	for _, r := range o.byProcess {
		at := r.asked.Add(askInterval)
		if !r.ended.IsZero() {
			at = r.ended.Add(linger)
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
