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
	"colonnade/fleet/document"
)

// documentState is what is known of each key: what the store has, and what it lacks but stays in force. It is owned by
// Watcher.Run; time is passed in.
type documentState struct {
	logger    *slog.Logger
	limiter   logLimiter
	docs      *document.Set
	known     map[string]knownDocument // by key without the prefix
	gone      map[string]knownDocument // operators' documents deleted within holdWindow: they may yet turn out to be too many
	published bool                     // a table was published, so that what vanishes is missed
	expiry    time.Time                // when the first suspect's time is over, as of the last table; zero = none
	changed   bool                     // something changed since the last table
}

// knownDocument is what is known of one key.
type knownDocument struct {
	newest   []byte // the newest value, good or bad
	good     []byte // the newest good one; nil = none
	revision int64  // of good
	leased   bool   // put by a node or a registrar, under a lease

	// Of what is deleted:
	absence   absence
	goneAt    int64     // revision of the store at which it was seen to be gone
	goneSince time.Time // when that was
}

// absence says why a document is in force that the store does not have.
type absence uint8

const (
	inStore         absence = iota
	deletionPending         // too many were deleted at once
	leaseExpired            // its lease ran out
)

func newDocumentState(logger *slog.Logger) *documentState {
	return &documentState{
		logger: logger, limiter: logLimiter{tallies: map[string]tally{}}, docs: document.NewSet(), known: map[string]knownDocument{}, gone: map[string]knownDocument{}, changed: true,
	}
}

// put takes a new version of a document.
func (l *documentState) put(d Stored, now time.Time) {
	e, known := l.known[d.Key]
	same := known && e.absence == inStore && e.leased == d.Leased && bytes.Equal(e.newest, d.Value)
	if same && (e.revision == d.Revision || d.Key != string(fleet.KindDeletions)) { // a confirmation may be repeated
		return
	}
	l.changed = true
	delete(l.gone, d.Key)
	e.newest, e.leased, e.absence, e.goneAt = d.Value, d.Leased, inStore, 0
	if err := l.docs.Put(d.Key, d.Value, d.Revision); err != nil {
		l.logRejection(err, e.good != nil, now)
	} else {
		e.good, e.revision = d.Value, d.Revision
	}
	l.known[d.Key] = e
}

// restore takes a document from the file of an earlier run. If it is bad by now, there is no last good version.
func (l *documentState) restore(d cachedDocument, now time.Time) {
	if l.docs.Put(d.Key, d.Value, d.Revision) != nil {
		l.docs.Delete(d.Key, d.Revision)
		return
	}
	e := knownDocument{newest: d.Value, good: d.Value, revision: d.Revision, leased: d.Leased}
	if d.GoneAt > 0 {
		e.absence, e.goneAt, e.goneSince = deletionPending, d.GoneAt, now
		l.docs.Yield(d.Key)
	}
	l.known[d.Key] = e
	l.changed = true
}

func (l *documentState) logRejection(err error, lastGood bool, now time.Time) {
	var invalid *document.InvalidError
	if errors.As(err, &invalid) {
		l.warn(now, "a document is rejected", invalid.Key,
			"key", invalid.Key, "revision", invalid.Revision, "field", invalid.Field, "value", invalid.Value,
			"reason", invalid.Reason, "last_good_in_force", lastGood)
	}
}

// warn logs, unless there were many such lines of the same subject within a minute.
func (l *documentState) warn(now time.Time, message, subject string, args ...any) {
	leftOut, ok := l.limiter.ask(message+" "+subject, now)
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
func (l *documentState) remove(key string, noticed int64, now time.Time) {
	e, known := l.known[key]
	if !known || e.absence != inStore {
		return
	}
	l.changed = true
	e.goneAt, e.goneSince = noticed, now
	if l.mayBeAlive(key, e) {
		l.keepExpired(key, e, now)
		return
	}
	l.drop(key, noticed)
	if !e.leased && e.good != nil {
		l.gone[key] = e
	}
}

// drop takes a document out of force.
func (l *documentState) drop(key string, revision int64) {
	l.changed = true
	l.docs.Delete(key, revision)
	delete(l.known, key)
}

// keep puts a document into force again, in its last good version.
func (l *documentState) keep(key string, e knownDocument, why absence) {
	l.changed = true
	e.newest, e.absence = e.good, why
	_ = l.docs.Put(key, e.good, e.revision) // it was good before
	if why == deletionPending {
		l.docs.Yield(key)
	}
	l.known[key] = e
}

// missing returns the keys that should be in the store and are not in what was listed, sorted.
func (l *documentState) missing(listed []Stored) []string {
	there := make(map[string]bool, len(listed))
	for _, d := range listed {
		there[d.Key] = true
	}
	var missing []string
	for key, e := range l.known {
		if e.absence == inStore && !there[key] {
			missing = append(missing, key)
		}
	}
	slices.Sort(missing)
	return missing
}

// due reports whether a new table is needed.
func (l *documentState) due(now time.Time) bool {
	return l.changed || !l.expiry.IsZero() && !now.Before(l.expiry)
}

// table settles what stays in force, and builds the table of that.
func (l *documentState) table(now time.Time) *fleet.Table {
	l.settleDeletions(now)
	t := l.docs.Table()
	for l.dropExpired(t, now) || l.dropReplaced(t, now) {
		t = l.docs.Table()
	}
	t.PendingDeletions, t.ExpiredLeases = l.absentKeys(deletionPending), l.absentKeys(leaseExpired)
	l.changed, l.published, l.expiry = false, true, l.firstExpiry()
	return t
}

// settleDeletions decides on what operators have deleted.
func (l *documentState) settleDeletions(now time.Time) {
	confirmed := l.confirmed()
	maps.DeleteFunc(l.gone, func(_ string, e knownDocument) bool {
		return e.goneAt <= confirmed || now.Sub(e.goneSince) > holdWindow
	})
	l.releaseConfirmed(confirmed)
	l.holdBack(now)
}

// absentKeys returns the keys of the documents that are absent for a reason, sorted.
func (l *documentState) absentKeys(why absence) []string {
	var keys []string
	for key, e := range l.known {
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
