package etcd

import (
	"maps"
	"slices"
	"time"

	"colonnade/fleet"
)

// When deletions are too many to be believed: at least so many, and more than half, of the operators' documents of a
// kind within this time.
const (
	minHeldBack = 10
	holdWindow  = time.Minute
)

// TooManyDeletions reports whether nodes hold back the deletion of so many of the operators' documents of a kind, when so many
// are left.
func TooManyDeletions(deleted, left int) bool { return deleted >= minHeldBack && deleted > left }

// confirmed returns the revision of the store up to which deletions are meant. A confirmation never covers what comes
// after it, whatever number stands in it.
func (l *documentState) confirmed() int64 {
	key := string(fleet.KindDeletions)
	d, ok := l.docs.Noun(key).(*fleet.Deletions)
	if !ok {
		return 0
	}
	return min(int64(d.Confirmed), l.known[key].revision)
}

// releaseConfirmed takes out of force what was held back and is now confirmed.
func (l *documentState) releaseConfirmed(confirmed int64) {
	released := map[fleet.Kind]int{}
	for _, key := range l.absentKeys(deletionPending) {
		if e := l.known[key]; e.goneAt <= confirmed {
			l.drop(key, e.goneAt)
			released[kindOf(key)]++
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(released)) {
		l.logger.Info("deletions that were held back are confirmed",
			"kind", kind, "documents", released[kind], "confirmed", confirmed)
	}
}

// clampRevision takes what is gone for noticed at this revision, the store's, at the latest. A store that was restored to an
// older one counts on from there: no confirmation would ever reach what was noticed before.
func (l *documentState) clampRevision(revision int64) {
	for _, absent := range []map[string]knownDocument{l.known, l.gone} {
		for key, e := range absent {
			if e.goneAt > revision {
				e.goneAt, l.changed = revision, true
				absent[key] = e
			}
		}
	}
}

// holdBack keeps in force what was deleted within the last minute, if it was too much.
func (l *documentState) holdBack(now time.Time) {
	if len(l.gone) == 0 {
		return
	}
	gone := map[fleet.Kind][]string{}
	for _, key := range slices.Sorted(maps.Keys(l.gone)) {
		gone[kindOf(key)] = append(gone[kindOf(key)], key)
	}
	for _, kind := range slices.Sorted(maps.Keys(gone)) {
		there, lost := l.count(kind, now)
		if lost += len(gone[kind]); !TooManyDeletions(lost, there) {
			continue
		}
		for _, key := range gone[kind] {
			l.keep(key, l.gone[key], deletionPending)
			delete(l.gone, key)
		}
		l.warn(now, "too many documents were deleted; these deletions are held back until they are confirmed", string(kind),
			"kind", kind, "deleted", lost, "left", there, "first", gone[kind][0],
			"do", "put them again, or confirm that they are meant with: colonnade config confirm-deletions")
	}
}

// dropReplaced takes out of force what has been put again under another name: an endpoint whose URL another one has, an
// API key whose hash another one has, and a model whose name is another one's alias. It reports whether there was any. Of
// an alias that a held model and another one claim, only the alias goes to the other one.
func (l *documentState) dropReplaced(t *fleet.Table, now time.Time) bool {
	some := false
	for _, c := range t.Conflicts {
		key, other, reason := c.Loser, c.Winner, "its URL is registered as "+c.Winner
		switch c.What {
		case "key":
			reason = "its hash is that of " + c.Winner
		case "alias": // it wins though it yields: a model's own name
			key, other, reason = c.Winner, c.Loser, "its name is an alias of "+c.Loser
		}
		if l.known[key].absence != deletionPending || l.known[other].absence != inStore {
			continue
		}
		l.drop(key, l.known[key].goneAt)
		l.warn(now, "a document whose deletion was held back is out of force", key, "key", key, "reason", reason)
		some = true
	}
	return some
}

// count returns how many of the operators' documents of a kind the store has, and how many were held back of late.
func (l *documentState) count(kind fleet.Kind, now time.Time) (there, lost int) {
	for key, e := range l.known {
		switch {
		case e.leased || e.good == nil || kindOf(key) != kind:
		case e.absence == inStore:
			there++
		case now.Sub(e.goneSince) <= holdWindow:
			lost++
		}
	}
	return there, lost
}
