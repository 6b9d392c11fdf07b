package etcd

import (
	"maps"
	"slices"
	"time"

	"colonnade/fleet"
)

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

// beginRevision notes that changes of a revision come next, and decides about the deletions before it. So the decision
// depends on what the revisions did, and not on which of them a node happens to see at once.
func (s *documentState) beginRevision(revision int64, now time.Time) {
	if revision != s.applied {
		s.decide(now)
	}
	s.applied = revision
}

// decide decides which of the operators' deletions that were noticed since the last call are held back.
func (s *documentState) decide(now time.Time) {
	if !s.undecided {
		return
	}
	s.undecided = false
	confirmed := s.confirmed()
	s.forgetGone(confirmed, now)
	if len(s.gone) == 0 {
		return
	}
	s.holdBack(confirmed, now)
	s.holdRest()
}

// forgetGone forgets deletions that are confirmed, or that do not count any more.
func (s *documentState) forgetGone(confirmed int64, now time.Time) {
	maps.DeleteFunc(s.gone, func(_ string, k knownDocument) bool {
		return k.goneAt <= confirmed || now.Sub(k.goneSince) > holdWindow
	})
}

// holdBack applies the rules to the deletions in gone.
func (s *documentState) holdBack(confirmed int64, now time.Time) []HeldGroup {
	var held []HeldGroup
	for _, group := range s.goneGroups() {
		if h, some := s.reasonToHold(group, confirmed, now); some {
			s.hold(h, now)
			held = append(held, h)
		}
	}
	return held
}

// hold puts deleted documents into force again until their deletion is confirmed.
func (s *documentState) hold(h HeldGroup, now time.Time) {
	last := s.keepAll(h.Keys)
	kind, colo := splitGroup(h.Group)
	fields := []any{"kind", kind, "deleted", h.Deleted, "left", h.Left, "keys", firstOf(h.Keys, len(h.Keys)), "revision", last.goneAt}
	if colo != "" {
		fields = append(fields, "colo", colo)
	}
	if last.goneBy != "" {
		fields = append(fields, "by", last.goneBy)
	}
	s.warn(now, h.Reason.message(), h.Group, append(fields, "action", "put them again, or confirm with: colonnade config confirm-deletions")...)
}

// keepAll puts deleted documents into force again, and returns the one that was deleted last.
func (s *documentState) keepAll(keys []string) (last knownDocument) {
	for _, key := range keys {
		k := s.gone[key]
		k.goneBy = s.authors.of(k.goneAt)
		if k.goneAt >= last.goneAt {
			last = k
		}
		s.keep(key, k, deletionPending)
		delete(s.gone, key)
	}
	return last
}

// holdRest holds back all other deletions too if some are held back and the store has none of the operators' documents any more. No fleet
// is administered by deleting all of it, so the store was emptied by mistake, or it is another one.
func (s *documentState) holdRest() {
	if s.left.total() > 0 || !s.anyPending() {
		return
	}
	s.keepAll(slices.Sorted(maps.Keys(s.gone)))
	s.logger.Error("etcd has no documents any more; those of before stay in force until they are put again, or their deletion is confirmed",
		"held", len(s.absentKeys(deletionPending)))
}

func (s *documentState) anyPending() bool {
	for _, why := range s.absent {
		if why == deletionPending {
			return true
		}
	}
	return false
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

// heldDeletions says how documents vanished whose deletion is held back.
func (s *documentState) heldDeletions(keys []string) []fleet.HeldDeletion {
	var held []fleet.HeldDeletion
	for _, key := range keys {
		k := s.known[key]
		held = append(held, fleet.HeldDeletion{Key: key, Revision: k.goneAt, By: k.goneBy})
	}
	return held
}

// recentlyHeld returns how many deletions of a group were held back within holdWindow, and are not confirmed.
func (s *documentState) recentlyHeld(group string, confirmed int64, now time.Time) (pending int) {
	for key, why := range s.absent {
		if why != deletionPending || groupOf(key) != group {
			continue
		}
		if k := s.known[key]; k.goneAt > confirmed && now.Sub(k.goneSince) <= holdWindow {
			pending++
		}
	}
	return pending
}
