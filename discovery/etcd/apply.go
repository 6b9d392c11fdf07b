package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/fleet"
)

// etcd refuses transactions of more than 128 operations or 1.5 MiB unless it is told otherwise.
const (
	MaxTogether  = 100 // documents that are put, or deleted, as one
	maxTxnBytes  = 1 << 20
	applyTimeout = 10 * time.Second
	applyTries   = 10 // for one transaction, while others change the accounts in it
)

// Apply checks all documents and then puts them, in transactions of up to a hundred. If one is bad, or two have the
// same key, none is put, and the error names every bad one. An account's document without a field keys leaves the
// account the keys that it has; none that somebody else makes or revokes meanwhile is lost or comes back.
func Apply(ctx context.Context, client *clientv3.Client, prefix string, docs []fleet.RawDocument) error {
	_, err := ApplyTelling(ctx, client, prefix, docs)
	return err
}

// Applied is what the documents that were put have changed.
type Applied struct {
	Same []string          // keys of those that were there already, word for word
	Keys []fleet.KeyChange // of accounts' keys
}

// ApplyTelling is [Apply], and returns what has changed, also with an error.
func ApplyTelling(ctx context.Context, client *clientv3.Client, prefix string, docs []fleet.RawDocument) (Applied, error) {
	var told Applied
	if err := checkAll(docs); err != nil {
		return told, err
	}
	a := applier{client: client, prefix: prefix}
	todo, err := a.prepare(ctx, docs)
	if err != nil {
		return told, err
	}
	for done, tries := 0, 1; done < len(docs); {
		some := batch(prefix, todo[done:])
		put, same, err := a.put(ctx, some)
		switch {
		case err != nil:
		case put:
			told.Same = append(told.Same, same...)
			for _, p := range some {
				if !p.keys.None() {
					told.Keys = append(told.Keys, p.keys)
				}
			}
			done, tries = done+len(some), 1
		case tries == applyTries:
			err = errors.New("somebody else goes on changing the keys of these accounts; try again")
		default:
			tries++
			again, failed := a.prepare(ctx, docs[done:done+len(some)])
			copy(some, again)
			err = failed
		}
		if err != nil {
			return told, fmt.Errorf("cannot put documents (%d of %d were put before): %w", done, len(docs), err)
		}
	}
	return told, nil
}

// toPut is a document as it is to be put. An account's is put only in the place of the version that it was made for.
type toPut struct {
	fleet.RawDocument
	isAccount bool
	over      int64 // revision of what an account's takes the place of; 0 = nothing
	keys      fleet.KeyChange
}

type applier struct {
	client *clientv3.Client
	prefix string
}

// prepare gives accounts the keys that they have. The error names every one whose keys cannot be kept.
func (a applier) prepare(ctx context.Context, docs []fleet.RawDocument) ([]toPut, error) {
	all := make([]toPut, len(docs))
	var accounts []int
	for i, d := range docs {
		all[i] = toPut{RawDocument: d, isAccount: kindOf(d.Key) == fleet.KindAccount}
		if all[i].isAccount {
			accounts = append(accounts, i)
		}
	}
	var failed []error
	for some := range slices.Chunk(accounts, pageSize) {
		var gets []clientv3.Op
		for _, i := range some {
			gets = append(gets, clientv3.OpGet(a.prefix+docs[i].Key))
		}
		answer, err := commit(ctx, a.client, nil, gets)
		if err != nil {
			return nil, fmt.Errorf("cannot read accounts: %w", err)
		}
		for n, i := range some {
			var old []byte
			if found := answer.Responses[n].GetResponseRange().Kvs; len(found) > 0 {
				old, all[i].over = found[0].Value, found[0].ModRevision
			}
			failed = append(failed, all[i].carry(old))
		}
	}
	return all, errors.Join(failed...)
}

// carry takes over the keys of what stands in etcd.
func (p *toPut) carry(old []byte) (err error) {
	_, account, _ := strings.Cut(p.Key, "/")
	p.Value, p.keys, err = fleet.CarryKeys(account, p.Value, old)
	return err
}

// put puts documents in one transaction, unless somebody has changed an account among them. same are those of which
// nothing is new.
func (a applier) put(ctx context.Context, docs []toPut) (done bool, same []string, err error) {
	var as []clientv3.Cmp
	var puts []clientv3.Op
	for _, d := range docs {
		key := a.prefix + d.Key
		if d.isAccount {
			as = append(as, clientv3.Compare(clientv3.ModRevision(key), "=", d.over))
		}
		puts = append(puts, clientv3.OpPut(key, string(d.Value), clientv3.WithPrevKV()))
	}
	answer, err := commit(ctx, a.client, as, puts)
	if err != nil || !answer.Succeeded {
		return false, nil, err
	}
	for i, d := range docs {
		if old := answer.Responses[i].GetResponsePut().PrevKv; old != nil && bytes.Equal(old.Value, d.Value) {
			same = append(same, d.Key)
		}
	}
	return true, same, nil
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

// batch returns the first of the documents, as many as fit into one transaction, at least one.
func batch(prefix string, docs []toPut) []toPut {
	size := 0
	for i, d := range docs {
		size += len(prefix) + len(d.Key) + len(d.Value)
		if i == MaxTogether || i > 0 && size > maxTxnBytes {
			return docs[:i]
		}
	}
	return docs
}

// Delete deletes documents, in transactions of up to a hundred, and returns the keys of those that were there, also
// with an error.
func Delete(ctx context.Context, client *clientv3.Client, prefix string, keys []string) (found []string, err error) {
	for some := range slices.Chunk(keys, MaxTogether) {
		var ops []clientv3.Op
		for _, key := range some {
			ops = append(ops, clientv3.OpDelete(prefix+key))
		}
		answer, err := commit(ctx, client, nil, ops)
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

func commit(ctx context.Context, client *clientv3.Client, same []clientv3.Cmp, ops []clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	return client.Txn(ctx).If(same...).Then(ops...).Commit()
}
