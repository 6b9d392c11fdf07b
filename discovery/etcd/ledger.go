package etcd

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"colonnade/fleet"
)

// ledger is what is known of each key: what the store has, and what it lacks but stays in force. It is owned by
// Watcher.Run; time is passed in.
type ledger struct {
	logger  *slog.Logger
	told    told
	docs    *fleet.Documents
	entries map[string]entry // by key without the prefix
	gone    map[string]entry // operators' documents deleted within holdWindow: they may yet turn out to be too many
	serving bool             // a table was published, so that what vanishes is missed
	expiry  time.Time        // when the first suspect's time is over, as of the last table; zero = none
	pending bool             // something changed since the last table
}

// entry is what is known of one key.
type entry struct {
	seen     []byte // the newest value, good or bad
	good     []byte // the newest good one; nil = none
	revision int64  // of good
	leased   bool   // put by a node or a registrar, under a lease

	// Of what is deleted:
	absence absence
	noticed int64     // revision of the store at which it was seen to be gone
	since   time.Time // when that was
}

// absence says why a document is in force that the store does not have.
type absence uint8

const (
	present absence = iota
	held            // too many were deleted at once
	suspect         // its lease ran out
)

func newLedger(logger *slog.Logger) *ledger {
	return &ledger{
		logger: logger, told: told{tallies: map[string]tally{}}, docs: fleet.NewDocuments(), entries: map[string]entry{}, gone: map[string]entry{}, pending: true,
	}
}

// put takes a new version of a document.
func (l *ledger) put(d Stored, now time.Time) {
	e, known := l.entries[d.Key]
	same := known && e.absence == present && e.leased == d.Leased && bytes.Equal(e.seen, d.Value)
	if same && (e.revision == d.Revision || d.Key != string(fleet.KindDeletions)) { // a confirmation may be repeated
		return
	}
	l.pending = true
	delete(l.gone, d.Key)
	e.seen, e.leased, e.absence, e.noticed = d.Value, d.Leased, present, 0
	if err := l.docs.Put(d.Key, d.Value, d.Revision); err != nil {
		l.logRejection(err, e.good != nil, now)
	} else {
		e.good, e.revision = d.Value, d.Revision
	}
	l.entries[d.Key] = e
}

// restore takes a document from the file of an earlier run. If it is bad by now, there is no last good version.
func (l *ledger) restore(d cachedDocument, now time.Time) {
	if l.docs.Put(d.Key, d.Value, d.Revision) != nil {
		l.docs.Delete(d.Key, d.Revision)
		return
	}
	e := entry{seen: d.Value, good: d.Value, revision: d.Revision, leased: d.Leased}
	if d.Held > 0 {
		e.absence, e.noticed, e.since = held, d.Held, now
		l.docs.Yield(d.Key)
	}
	l.entries[d.Key] = e
	l.pending = true
}

func (l *ledger) logRejection(err error, lastGood bool, now time.Time) {
	var invalid *fleet.InvalidError
	if errors.As(err, &invalid) {
		l.warn(now, "a document is rejected", invalid.Key,
			"key", invalid.Key, "revision", invalid.Revision, "field", invalid.Field, "value", invalid.Value,
			"reason", invalid.Reason, "last_good_in_force", lastGood)
	}
}

// warn logs, unless there were many such lines of the same subject within a minute.
func (l *ledger) warn(now time.Time, message, subject string, args ...any) {
	leftOut, ok := l.told.ask(message+" "+subject, now)
	if !ok {
		return
	}
	if leftOut > 0 {
		args = append(args, "lines_left_out", leftOut)
	}
	l.logger.Warn(message, args...)
}

// remove notes that the store does not have a document any more. What was put by an operator goes out of force at once,
// but may come back: see hold.
func (l *ledger) remove(key string, noticed int64, now time.Time) {
	e, known := l.entries[key]
	if !known || e.absence != present {
		return
	}
	l.pending = true
	e.noticed, e.since = noticed, now
	if l.mayLive(key, e) {
		l.suspect(key, e, now)
		return
	}
	l.drop(key, noticed)
	if !e.leased && e.good != nil {
		l.gone[key] = e
	}
}

// drop takes a document out of force.
func (l *ledger) drop(key string, revision int64) {
	l.pending = true
	l.docs.Delete(key, revision)
	delete(l.entries, key)
}

// keep puts a document into force again, in its last good version.
func (l *ledger) keep(key string, e entry, why absence) {
	l.pending = true
	e.seen, e.absence = e.good, why
	_ = l.docs.Put(key, e.good, e.revision) // it was good before
	if why == held {
		l.docs.Yield(key)
	}
	l.entries[key] = e
}

// missing returns the keys that should be in the store and are not in what was listed, sorted.
func (l *ledger) missing(listed []Stored) []string {
	there := make(map[string]bool, len(listed))
	for _, d := range listed {
		there[d.Key] = true
	}
	var missing []string
	for key, e := range l.entries {
		if e.absence == present && !there[key] {
			missing = append(missing, key)
		}
	}
	slices.Sort(missing)
	return missing
}

// due reports whether a new table is needed.
func (l *ledger) due(now time.Time) bool {
	return l.pending || !l.expiry.IsZero() && !now.Before(l.expiry)
}

// table settles what stays in force, and builds the table of that.
func (l *ledger) table(now time.Time) *fleet.Table {
	l.settle(now)
	t := l.docs.Table()
	for l.settleSuspects(t, now) || l.settleHeld(t, now) {
		t = l.docs.Table()
	}
	t.Held, t.Suspect = l.keys(held), l.keys(suspect)
	l.pending, l.serving, l.expiry = false, true, l.nextExpiry()
	return t
}

// settle decides on what operators have deleted.
func (l *ledger) settle(now time.Time) {
	confirmed := l.confirmed()
	maps.DeleteFunc(l.gone, func(_ string, e entry) bool { return e.noticed <= confirmed || now.Sub(e.since) > holdWindow })
	l.release(confirmed)
	l.hold(now)
}

// keys returns the keys of the documents that are absent for a reason, sorted.
func (l *ledger) keys(why absence) []string {
	var keys []string
	for key, e := range l.entries {
		if e.absence == why {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// kindOf returns the first part of a key.
func kindOf(key string) fleet.Kind {
	kind, _, _ := strings.Cut(key, "/")
	return fleet.Kind(kind)
}
