package etcd

import (
	"context"
	"errors"
	"fmt"
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
		if err := commit(ctx, client, ops); err != nil {
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

func commit(ctx context.Context, client *clientv3.Client, ops []clientv3.Op) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	_, err := client.Txn(ctx).Then(ops...).Commit()
	return err
}
