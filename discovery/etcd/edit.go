package etcd

import (
	"bytes"
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/fleet"
)

// Edit changes a document so that no change that somebody else makes meanwhile is lost: change is called with its
// newest text (empty: there is none), and called again if the document was another one when the result was about to be
// put. A result that is no good document is not put, nor one that is the same as before, nor anything if change returns
// an error, which Edit returns as it is.
func Edit(ctx context.Context, client *Client, prefix, key string, change func(old []byte) ([]byte, error)) error {
	for {
		old, revision, err := newest(ctx, client, prefix+key)
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", key, err)
		}
		changed, err := change(old)
		if err != nil {
			return err
		}
		if revision > 0 && bytes.Equal(changed, old) {
			return nil
		}
		if err := fleet.Check(key, changed); err != nil {
			return err
		}
		put, err := putIf(ctx, client, prefix+key, changed, revision)
		if err != nil {
			return fmt.Errorf("cannot put %s: %w", key, err)
		}
		if put {
			return nil
		}
	}
}

// newest returns what stands under a key, and the revision at which it was put; 0 = nothing does.
func newest(ctx context.Context, client *Client, key string) ([]byte, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	answer, err := client.Get(ctx, key)
	if err != nil || len(answer.Kvs) == 0 {
		return nil, 0, err
	}
	return answer.Kvs[0].Value, answer.Kvs[0].ModRevision, nil
}

// putIf puts a value if what stands under the key is still of that revision.
func putIf(ctx context.Context, client *Client, key string, value []byte, revision int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	same := clientv3.Compare(clientv3.ModRevision(key), "=", revision)
	answer, err := client.Txn(ctx).If(same).Then(clientv3.OpPut(key, string(value))).Commit()
	if err != nil {
		return false, err
	}
	return answer.Succeeded, nil
}
