package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// etcd refuses transactions of more than 128 operations or 1.5 MiB unless it is configured otherwise.
const (
	MaxTransaction = 100 // documents that are put, or deleted, as one
	maxTxnBytes    = 1 << 20
	applyTimeout   = 10 * time.Second
)

// ErrExists says that there is a document under the key already.
var ErrExists = errors.New("the document exists already")

// Create checks a document and puts it, in one transaction that never replaces another document. The error is
// ErrExists if there is one, or an *InvalidError of fleet.
func (w Writer) Create(ctx context.Context, doc document.Raw) error {
	if err := document.Check(doc.Key, doc.Value); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	before, changes, err := w.read(ctx, []string{doc.Key})
	if err == nil && len(before) == 0 {
		_, err = w.commit(ctx, Edit{Put: []document.Raw{doc}}, before, changes)
	}
	switch {
	case len(before) > 0, errors.Is(err, ErrChanged):
		return ErrExists
	case err != nil:
		return fmt.Errorf("cannot put %s: %w", doc.Key, err)
	}
	return nil
}

// Applied says what documents have changed, by their keys.
type Applied struct {
	Created   []string // there was no document before
	Unchanged []string // the document was there before, word for word
}

// Apply checks all documents and then puts them, in transactions of up to a hundred. If one is bad, or two have the
// same key, none is put, and the error names every bad one. With an error, it returns what was put before.
func (w Writer) Apply(ctx context.Context, docs []document.Raw) (Applied, error) {
	var applied Applied
	if err := checkAll(docs); err != nil {
		return applied, err
	}
	for done := 0; done < len(docs); {
		some := batch(w.Prefix, docs[done:])
		_, before, err := w.change(ctx, Edit{Put: some})
		if err != nil {
			return applied, fmt.Errorf("cannot put documents (%d of %d were put before): %w", done, len(docs), err)
		}
		for _, d := range some {
			switch old, there := before[d.Key]; {
			case !there:
				applied.Created = append(applied.Created, d.Key)
			case bytes.Equal(old.Value, d.Value):
				applied.Unchanged = append(applied.Unchanged, d.Key)
			}
		}
		done += len(some)
	}
	return applied, nil
}

func checkAll(docs []document.Raw) error {
	var failed []error
	seen := map[string]bool{}
	for _, d := range docs {
		err := document.Check(d.Key, d.Value)
		if seen[d.Key] {
			err = &document.InvalidError{Key: d.Key, Reason: "the key is given twice"}
		}
		seen[d.Key] = true
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// batch returns the first of the documents, as many as fit into one transaction, at least one.
func batch(prefix string, docs []document.Raw) []document.Raw {
	size := 0
	for i, d := range docs {
		size += len(prefix) + len(d.Key) + len(d.Value)
		if i == MaxTransaction || i > 0 && size > maxTxnBytes {
			return docs[:i]
		}
	}
	return docs
}

// Delete deletes documents, in transactions of up to a hundred, and returns the keys of those that were there, also
// with an error.
func (w Writer) Delete(ctx context.Context, keys []string) (found []string, err error) {
	found, _, err = w.delete(ctx, keys, false)
	return found, err
}

// DeleteConfirmed deletes as Delete does, and confirms the deletions in the same transactions, so that no node holds them back. It confirms
// all deletions up to the revision that it returns, which is 0 if none of the documents was there: then nothing was confirmed.
func (w Writer) DeleteConfirmed(ctx context.Context, keys []string) (found []string, revision int64, err error) {
	found, revision, err = w.delete(ctx, keys, true)
	if err != nil || revision == 0 {
		return found, revision, err
	}
	return found, revision, w.nameConfirmed(ctx, revision)
}

// nameConfirmed puts the revision that a transaction has confirmed, which it could not name itself. A document that says which it was can
// be put into another store without confirming what is deleted there.
func (w Writer) nameConfirmed(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	key := w.Prefix + string(fleet.KindDeletions)
	own := clientv3.Compare(clientv3.ModRevision(key), "=", revision) // a later confirmation covers this one
	if _, err := w.Client.Txn(ctx).If(own).Then(clientv3.OpPut(key, fmt.Sprintf("confirmed: %d\n", revision))).Commit(); err != nil {
		return fmt.Errorf("cannot put the revision that was confirmed (the deletion is confirmed): %w", err)
	}
	return nil
}

func (w Writer) delete(ctx context.Context, keys []string, confirm bool) (found []string, revision int64, err error) {
	for some := range slices.Chunk(keys, MaxTransaction) {
		change, _, err := w.change(ctx, Edit{Delete: some, Confirm: confirm})
		if err != nil {
			if len(found) > 0 {
				err = fmt.Errorf("%d were deleted before: %w", len(found), err)
			}
			return found, revision, fmt.Errorf("cannot delete documents: %w", err)
		}
		for _, d := range change.Documents {
			found = append(found, d.Key)
		}
		revision = max(revision, change.Revision)
	}
	return found, revision, nil
}
