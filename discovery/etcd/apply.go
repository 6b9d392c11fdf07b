package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/fleet"
)

// etcd refuses transactions of more than 128 operations or 1.5 MiB unless it is told otherwise.
const (
	maxTxnDocuments = 100
	maxTxnBytes     = 1 << 20
	applyTimeout    = 10 * time.Second
)

// Apply checks all documents and then puts them, in transactions of up to a hundred. If one is bad, or two have the same key,
// none is put, and the error names every bad one.
func Apply(ctx context.Context, client *clientv3.Client, prefix string, docs []fleet.RawDocument) error {
	if err := checkAll(docs); err != nil {
		return err
	}
	for done := 0; done < len(docs); {
		ops, count := batch(prefix, docs[done:])
		if _, err := commit(ctx, client, ops); err != nil {
			return fmt.Errorf("cannot put documents (%d of %d were put before): %w", done, len(docs), err)
		}
		done += count
	}
	return nil
}

func checkAll(docs []fleet.RawDocument) error {
	var failed []error
	seen := map[string]bool{}
	for _, d := range docs {
		err := fleet.Check(d.Key, d.Value)
		if seen[d.Key] {
			err = &fleet.InvalidError{Key: d.Key, Reason: "the key is given twice"}
		}
		seen[d.Key] = true
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// batch returns the operations that fit into one transaction, at least one.
func batch(prefix string, docs []fleet.RawDocument) (ops []clientv3.Op, count int) {
	bytes := 0
	for _, d := range docs {
		bytes += len(prefix) + len(d.Key) + len(d.Value)
		if count == maxTxnDocuments || count > 0 && bytes > maxTxnBytes {
			break
		}
		ops = append(ops, clientv3.OpPut(prefix+d.Key, string(d.Value)))
		count++
	}
	return ops, count
}

// Delete deletes documents, in transactions of up to a hundred, and returns the keys of those that were there, also with an
// error.
func Delete(ctx context.Context, client *clientv3.Client, prefix string, keys []string) (found []string, err error) {
	for some := range slices.Chunk(keys, maxTxnDocuments) {
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
