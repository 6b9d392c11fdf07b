package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

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
func Create(ctx context.Context, client *clientv3.Client, prefix string, doc document.Raw) error {
	if err := document.Check(doc.Key, doc.Value); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	key := prefix + doc.Key
	absent := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	answer, err := client.Txn(ctx).If(absent).Then(clientv3.OpPut(key, string(doc.Value))).Commit()
	if err != nil {
		return fmt.Errorf("cannot put %s: %w", doc.Key, err)
	}
	if !answer.Succeeded {
		return ErrExists
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
func Apply(ctx context.Context, client *clientv3.Client, prefix string, docs []document.Raw) (Applied, error) {
	var applied Applied
	if err := checkAll(docs); err != nil {
		return applied, err
	}
	for done := 0; done < len(docs); {
		some := batch(prefix, docs[done:])
		var puts []clientv3.Op
		for _, d := range some {
			puts = append(puts, clientv3.OpPut(prefix+d.Key, string(d.Value), clientv3.WithPrevKV()))
		}
		answer, err := commit(ctx, client, puts)
		if err != nil {
			return applied, fmt.Errorf("cannot put documents (%d of %d were put before): %w", done, len(docs), err)
		}
		for i, d := range some {
			switch old := answer.Responses[i].GetResponsePut().PrevKv; {
			case old == nil:
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
func Delete(ctx context.Context, client *clientv3.Client, prefix string, keys []string) (found []string, err error) {
	for some := range slices.Chunk(keys, MaxTransaction) {
		var ops []clientv3.Op
		for _, key := range some {
			ops = append(ops, clientv3.OpDelete(prefix+key))
		}
		answer, err := commit(ctx, client, ops)
		if err != nil {
			return found, fmt.Errorf("cannot delete documents (%d were deleted before): %w", len(found), err)
		}
		for i, r := range answer.Responses {
			if r.GetResponseDeleteRange().Deleted > 0 {
				found = append(found, some[i])
			}
		}
	}
	return found, nil
}

func commit(ctx context.Context, client *clientv3.Client, ops []clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	return client.Txn(ctx).Then(ops...).Commit()
}
