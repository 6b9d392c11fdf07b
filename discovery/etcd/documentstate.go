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

// documentState is what is known of each key: what the store has, and what it lacks but stays in force. Watcher.Run owns
// it; time is passed in.
type documentState struct {
	logger    *slog.Logger
	limiter   logLimiter
	docs      *document.Set
	known     map[string]knownDocument // by key without the prefix
	absent    map[string]absence       // of those in known that the store lacks
	gone      map[string]knownDocument // operators' documents deleted within holdWindow, in case that they become too many
	left      groupCounts              // the operators' documents that the store has, without those that never were good
	undecided bool                     // there are deletions in gone about which decide has not decided
	applied   int64                    // revision of the newest change
	authors   authors                  // of the latest changes
	changes   changeLog                // what is not logged yet
	published bool                     // a table was published, so a document that vanishes was in force
	restored  bool                     // there are documents of an earlier run
	changed   bool                     // since the last table

	listed         int64            // revision of the last list
	serversChanged map[string]int64 // by colo, see [fleet.Table.ServersRevision]

	staged        *overlay     // on this node; nil = none
	withoutStaged *fleet.Table // the last table, as it was before the staged change was laid over it
}

// knownDocument is what is known of one key.
type knownDocument struct {
	newest   []byte // the newest value, good or bad
	good     []byte // the newest good one; nil = none
	revision int64  // of good
	created  int64  // of the key, see [Stored]
	leased   bool   // put under a lease, by a node or a registrar

	// Of a document that the store lacks:
	absence   absence
	goneAt    int64           // revision of the store at which its absence was noticed
	goneSince time.Time       // when that was
	goneBy    string          // who deleted it, if that is known
	claim     uint64          // its place among the documents that claim the same, see [document.Set.Claim]
	endpoint  *fleet.Endpoint // of an endpoint in gone: as it was in force
	client    bool            // of an API key in gone: it was for requests
}

// counts reports whether it is an operator's document that the store has, and that was good once. A confirmation is none.
func (k *knownDocument) counts(key string) bool {
	return !k.leased && k.good != nil && k.absence == inStore && key != string(fleet.KindDeletions)
}

// absence says why a document is in force that the store lacks.
type absence uint8

const (
	inStore         absence = iota
	deletionPending         // too many were deleted at once
	leaseExpired
)

func newDocumentState(logger *slog.Logger) *documentState {
	return &documentState{
		logger: logger, limiter: logLimiter{subjects: map[string]*limitedSubject{}}, docs: document.NewSet(),
		known: map[string]knownDocument{}, absent: map[string]absence{}, gone: map[string]knownDocument{}, changed: true,
		left: groupCounts{}, changes: newChangeLog(), serversChanged: map[string]int64{},
	}
}

// put takes a new version of a document.
func (s *documentState) put(d Stored, now time.Time) {
	k, known := s.known[d.Key]
	same := known && k.absence == inStore && k.leased == d.Leased && k.created == d.Created && bytes.Equal(k.newest, d.Value)
	if same && (k.revision == d.Revision || d.Key != string(fleet.KindDeletions)) { // a confirmation may be repeated
		return
	}
	delete(s.gone, d.Key)
	recreated, action := k.deletedBefore(d), putAction(known && k.absence == inStore)
	k.newest, k.leased, k.created, k.absence, k.goneAt = d.Value, d.Leased, d.Created, inStore, 0
	if err := d.PutInto(s.docs); err != nil {
		s.logRejection(err, k.good != nil, now)
	} else {
		if action == actionChanged && !d.Leased && isSameMeaning(d.Key, k.good, d.Value) {
			action = actionRestyled
		}
		k.good, k.revision = d.Value, d.Revision
		s.noteChange(d.Key, action, d.Revision, d.Leased, now)
	}
	if recreated {
		s.docs.Reclaim(d.Key, 0)
	}
	s.set(d.Key, k)
}

// deletedBefore reports whether the document was deleted before d was created, also if its deletion was not seen, or is held back. The
// revisions of an empty store begin anew, so d may have been created at the same one.
func (k *knownDocument) deletedBefore(d Stored) bool {
	return k.created > 0 && (k.created != d.Created || k.absence != inStore && k.goneAt < d.Created)
}

// noteRevision notes that a document was put or deleted at a revision. The revision of servers is a reason for a table: nodes
// compare it.
func (s *documentState) noteRevision(key string, revision int64) {
	rest, isServer := strings.CutPrefix(key, string(fleet.KindServer)+"/")
	if colo, _, _ := strings.Cut(rest, "/"); isServer && revision > s.serversChanged[colo] {
		s.serversChanged[colo], s.changed = revision, true
	}
}

// restore takes a document from the file of an earlier run. If it is bad by now, it has no last good version.
func (s *documentState) restore(d cachedDocument, now time.Time) {
	if (Stored{Key: d.Key, Value: d.Value, Revision: d.Revision, Leased: d.Leased}).PutInto(s.docs) != nil {
		s.docs.Delete(d.Key, d.Revision)
		return
	}
	s.docs.Reclaim(d.Key, d.Claim)
	s.restored = true
	k := knownDocument{newest: d.Value, good: d.Value, revision: d.Revision, created: d.Created, leased: d.Leased}
	if d.GoneAt > 0 {
		k.absence, k.goneAt, k.goneSince, k.goneBy = deletionPending, d.GoneAt, now, d.GoneBy
		s.docs.Yield(d.Key)
	}
	s.set(d.Key, k)
}

func (s *documentState) set(key string, k knownDocument) {
	s.changed = true
	s.uncount(key)
	s.known[key] = k
	if k.counts(key) {
		s.left[groupOf(key)]++
	}
	if delete(s.absent, key); k.absence != inStore {
		s.absent[key] = k.absence
	}
}

// uncount takes a document out of left if it counts there, before it changes.
func (s *documentState) uncount(key string) {
	if k, known := s.known[key]; known && k.counts(key) {
		s.left[groupOf(key)]--
	}
}

func (s *documentState) logRejection(err error, lastGood bool, now time.Time) {
	var invalid *document.InvalidError
	if errors.As(err, &invalid) {
		s.warn(now, "document rejected", invalid.Key,
			"key", invalid.Key, "revision", invalid.Revision, "field", invalid.Field, "value", invalid.Value,
			"error", invalid.Reason, "last_good_in_force", lastGood)
	}
}

// warn logs, unless the log has had many such lines of the same subject lately.
func (s *documentState) warn(now time.Time, message, subject string, args ...any) {
	suppressed, ok := s.limiter.allow(message+" "+subject, now)
	if !ok {
		return
	}
	if suppressed > 0 {
		args = append(args, "lines_suppressed", suppressed)
	}
	s.logger.Warn(message, args...) //nolint:sloglint // the callers pass literals
}

// remove notes that the store lacks a document as of a revision. A document that an operator put goes out of force at once,
// but may come back: see holdBack.
func (s *documentState) remove(key string, revision int64, now time.Time) {
	k, known := s.known[key]
	if !known || k.absence != inStore {
		return
	}
	k.goneAt, k.goneSince, k.claim = revision, now, s.docs.Claim(key)
	if s.mayBeAlive(key, k) {
		s.keepExpired(key, k, now)
		return
	}
	if k.counts(key) {
		k.endpoint, _ = s.nounOf(key, fleet.KindEndpoint).(*fleet.Endpoint)
		k.client = s.isClientKey(key)
		s.undecided = true
		s.gone[key] = k
	}
	s.noteChange(key, actionDeleted, revision, k.leased, now)
	s.drop(key, revision)
}

// drop takes a document out of force.
func (s *documentState) drop(key string, revision int64) {
	s.changed = true
	s.docs.Delete(key, revision)
	s.uncount(key)
	delete(s.known, key)
	delete(s.absent, key)
}

// keep puts a document that the store lacks into force again, in its last good version.
func (s *documentState) keep(key string, k knownDocument, why absence) {
	k.newest, k.absence = k.good, why
	_ = s.docs.Put(key, k.good, k.revision) // it was good before
	s.docs.Reclaim(key, k.claim)
	if why == deletionPending {
		s.docs.Yield(key)
	}
	s.set(key, k)
}

// missing returns the keys that the store should have and that are not in a list of it, sorted.
func (s *documentState) missing(listed []Stored) []string {
	found := make(map[string]bool, len(listed))
	for _, d := range listed {
		found[d.Key] = true
	}
	var missing []string
	for key, k := range s.known {
		if k.absence == inStore && !found[key] {
			missing = append(missing, key)
		}
	}
	slices.Sort(missing)
	return missing
}

// table decides what stays in force, and builds the table of that.
func (s *documentState) table(now time.Time) *fleet.Table {
	confirmed := s.confirmed()
	s.releaseConfirmed(confirmed)
	s.decide(now)
	s.forgetGone(confirmed, now)
	t := s.docs.Table()
	for s.dropExpired(t, now) || s.dropReplaced(t, now) {
		t = s.docs.Table()
	}
	s.changed, s.published = false, true
	pending := s.absentKeys(deletionPending)
	return s.lay(t.WithStoreState(fleet.StoreState{
		PendingDeletions: pending, HeldDeletions: s.heldDeletions(pending), ExpiredLeases: s.absentKeys(leaseExpired),
		Listed: s.listed, ServersChanged: maps.Clone(s.serversChanged),
	}))
}

// absentKeys returns the keys of the documents that are absent for a reason, sorted.
func (s *documentState) absentKeys(why absence) []string {
	var keys []string
	for key, absence := range s.absent {
		if absence == why {
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
