package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/fleet/document"
)

// Snapshot is all documents as they were at one revision, for a change that depends on them.
type Snapshot struct {
	Documents []Stored // sorted by key
	Revision  int64    // of the store
	Author    Author   // of the newest change by a Writer
	Authored  int64    // the revision of that change; 0 = there was none

	changes changeKeys
}

// Snapshot reads all documents.
func (w Writer) Snapshot(ctx context.Context) (s Snapshot, err error) {
	if s.Documents, s.Revision, err = List(ctx, w.Client, w.Prefix, ""); err != nil {
		return Snapshot{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	at := clientv3.WithRev(s.Revision)
	answer, err := w.Client.Txn(ctx).Then(clientv3.OpGet(w.Prefix+AuthorKey, at),
		clientv3.OpGet(w.Prefix+changesFolder, clientv3.WithPrefix(), clientv3.WithKeysOnly(), at)).Commit()
	if err != nil {
		return Snapshot{}, fmt.Errorf("cannot read the history: %w", err)
	}
	for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
		s.Authored = kv.ModRevision
		s.Author, _ = ParseAuthor(kv.Value) // for messages only
	}
	for _, kv := range answer.Responses[1].GetResponseRange().Kvs {
		s.changes = append(s.changes, string(kv.Key))
	}
	return s, nil
}

// Commit checks documents and carries out a change, unless documents have changed since the snapshot: then the error is
// ErrChanged. It notices every change by a Writer; of changes by other programs, those of documents in the change, and new
// versions of documents that have a meaning for others ([document.Interdependent]), but no registrations.
//
// A change of more than a hundred documents takes several transactions. If a later one fails, it returns the changes of those before it,
// with the error.
func (w Writer) Commit(ctx context.Context, s Snapshot, e Edit) (done []Change, err error) {
	if err := checkAll(e.Put); err != nil {
		return nil, err
	}
	before := make(documentsByKey, len(s.Documents))
	for _, d := range s.Documents {
		before[d.Key] = d
	}
	conditions := w.sameKinds(s.Revision)
	parts := e.split(w.Prefix, before)
	if e.Stage != nil && len(parts) == 1 {
		parts[0].Stage = e.Stage
	} else if e.Stage != nil {
		return nil, fmt.Errorf("cannot commit the staged change: it takes %d transactions", len(parts))
	}
	for _, part := range parts {
		change, err := w.commitPart(ctx, part, s, before, conditions)
		if err != nil {
			return done, err
		}
		if change.Revision > 0 {
			done = append(done, change)
			s.Authored, s.changes, conditions = change.Revision, append(s.changes, change.key), nil
		}
	}
	if e.Confirm && len(done) > 0 {
		return done, w.nameConfirmed(ctx, done[len(done)-1].Revision)
	}
	return done, nil
}

func (w Writer) commitPart(ctx context.Context, part Edit, s Snapshot, before documentsByKey, conditions []clientv3.Cmp) (Change, error) {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	author := clientv3.Compare(clientv3.ModRevision(w.Prefix+AuthorKey), "=", s.Authored)
	change, err := w.commit(ctx, part, before, s.changes, append(slices.Clone(conditions), author)...)
	if err != nil && !errors.Is(err, ErrChanged) && !errors.Is(err, ErrStageLost) {
		return change, fmt.Errorf("cannot change documents: %w", err)
	}
	return change, err
}

// sameKinds are the conditions that no document of the interdependent kinds is newer than a revision.
func (w Writer) sameKinds(revision int64) []clientv3.Cmp {
	var all []clientv3.Cmp
	for _, kind := range document.Interdependent() {
		key := w.Prefix + string(kind)
		all = append(all, clientv3.Compare(clientv3.ModRevision(key), "<", revision+1),
			clientv3.Compare(clientv3.ModRevision(key+"/").WithPrefix(), "<", revision+1))
	}
	return all
}

// split returns the parts of a change that fit into one transaction each, the deletions last. Documents that do not change are
// left out, so that a change that was interrupted goes on where it ended.
func (e Edit) split(prefix string, before documentsByKey) (parts []Edit) {
	put := slices.DeleteFunc(slices.Clone(e.Put), func(d document.Raw) bool { return before.has(d) })
	for len(put) > 0 {
		some := batch(prefix, put)
		parts, put = append(parts, Edit{Put: some}), put[len(some):]
	}
	for some := range slices.Chunk(e.Delete, MaxTransaction) {
		parts = append(parts, Edit{Delete: some, Confirm: e.Confirm})
	}
	if len(parts) == 2 && len(e.Put)+len(e.Delete) <= MaxTransaction && len(parts[0].Put) > 0 && len(parts[1].Delete) > 0 {
		parts = []Edit{{Put: parts[0].Put, Delete: e.Delete, Confirm: e.Confirm}} // in force as one
	}
	return parts
}
