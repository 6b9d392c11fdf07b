package etcd

import (
	"maps"
	"slices"
	"time"

	"colonnade/fleet"
)

// Deletions of a kind are held back when at least minHeldBack of the operators' documents, and more than half, vanish
// within holdWindow.
const (
	minHeldBack = 10
	holdWindow  = time.Minute
)

// TooManyDeletions reports whether nodes hold back the deletion of so many of the operators' documents of a kind, when so
// many are left.
func TooManyDeletions(deleted, left int) bool { return deleted >= minHeldBack && deleted > left }

// confirmed returns the revision of the store up to which deletions are confirmed. A confirmation never covers what comes
// after it, whatever number it contains.
func (s *documentState) confirmed() int64 {
	key := string(fleet.KindDeletions)
	d, ok := s.docs.Noun(key).(*fleet.Deletions)
	if !ok {
		return 0
	}
	return min(int64(d.Confirmed), s.known[key].revision)
}

// releaseConfirmed takes documents out of force whose deletion was held back and is now confirmed.
func (s *documentState) releaseConfirmed(confirmed int64) {
	released := map[fleet.Kind]int{}
	for _, key := range s.absentKeys(deletionPending) {
		if k := s.known[key]; k.goneAt <= confirmed {
			s.drop(key, k.goneAt)
			released[kindOf(key)]++
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(released)) {
		s.logger.Info("pending deletions confirmed", "kind", kind, "documents", released[kind], "revision", confirmed)
	}
}

// clampRevision lowers the revisions at which documents were noticed to be gone to that of the store. A store that was
// restored to an older revision counts on from there, and no confirmation would ever reach the higher ones.
func (s *documentState) clampRevision(revision int64) {
	for colo, changed := range s.serversChanged {
		if changed > revision {
			s.serversChanged[colo], s.changed = revision, true
		}
	}
	for key := range s.absent {
		if k := s.known[key]; k.goneAt > revision {
			k.goneAt, s.changed = revision, true
			s.known[key] = k
		}
	}
	for key, k := range s.gone {
		if k.goneAt > revision {
			k.goneAt, s.changed = revision, true
			s.gone[key] = k
		}
	}
}

// holdBack keeps documents in force that were deleted within holdWindow, if they are too many.
func (s *documentState) holdBack(now time.Time) {
	if len(s.gone) == 0 {
		return
	}
	gone := map[fleet.Kind][]string{}
	for _, key := range slices.Sorted(maps.Keys(s.gone)) {
		gone[kindOf(key)] = append(gone[kindOf(key)], key)
	}
	for _, kind := range slices.Sorted(maps.Keys(gone)) {
		left, pending := s.count(kind, now)
		deleted := pending + len(gone[kind])
		if !TooManyDeletions(deleted, left) {
			continue
		}
		for _, key := range gone[kind] {
			s.keep(key, s.gone[key], deletionPending)
			delete(s.gone, key)
		}
		s.warn(now, "too many documents deleted; holding the deletions back until they are confirmed", string(kind),
			"kind", kind, "deleted", deleted, "left", left, "first", gone[kind][0],
			"action", "put them again, or confirm with: colonnade config confirm-deletions")
	}
}

// dropReplaced takes documents out of force whose deletion is held back and that were put again under another name: an
// endpoint whose URL another one has, a server whose colo another one has, an API key whose hash another one has, and a model
// whose name is another one's alias. It reports whether there was any. Of an alias that two models claim, only the alias goes
// to the one in the store.
func (s *documentState) dropReplaced(t *fleet.Table, now time.Time) bool {
	some := false
	for _, c := range t.Conflicts {
		key, other, reason := c.Loser, c.Winner, "its URL is registered as "+c.Winner
		switch c.What {
		case fleet.ConflictColo:
			reason = "its colo has the server " + c.Winner
		case fleet.ConflictKey:
			reason = "its hash is that of " + c.Winner
		case fleet.ConflictAlias: // the winner is a model's own name, which wins although it yields
			key, other, reason = c.Winner, c.Loser, "its name is an alias of "+c.Loser
		}
		if s.known[key].absence != deletionPending || s.known[other].absence != inStore {
			continue
		}
		s.drop(key, s.known[key].goneAt)
		s.warn(now, "document replaced while its deletion was pending", key, "key", key, "reason", reason)
		some = true
	}
	return some
}

// count returns how many of the operators' documents of a kind the store has, and of how many the deletion was held back
// within holdWindow.
func (s *documentState) count(kind fleet.Kind, now time.Time) (left, pending int) {
	for key, k := range s.known {
		switch {
		case k.leased || k.good == nil || kindOf(key) != kind:
		case k.absence == inStore:
			left++
		case now.Sub(k.goneSince) <= holdWindow:
			pending++
		}
	}
	return left, pending
}
