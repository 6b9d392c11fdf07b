package fleettest

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// Operator changes documents as etcdctl does: nobody checks them before they are in the store.
type Operator struct {
	F      *Fleet
	Client *clientv3.Client
}

func (f *Fleet) Operator() *Operator {
	f.T.Helper()
	client, err := etcd.Dial([]string{f.Etcd})
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(func() { _ = client.Close() })
	return &Operator{f, client}
}

// Put writes YAML documents, each with its key, in one transaction, and returns the revision that the store has then.
func (o *Operator) Put(documents string) int64 {
	o.F.T.Helper()
	docs, err := fleet.SplitFile([]byte(documents))
	if err != nil {
		o.F.T.Fatal(err)
	}
	var ops []clientv3.Op
	for _, d := range docs {
		ops = append(ops, clientv3.OpPut(node.Prefix+d.Key, string(d.Value)))
	}
	return o.Txn(ops...)
}

// Remove deletes documents, in one transaction.
func (o *Operator) Remove(keys ...string) {
	o.F.T.Helper()
	var ops []clientv3.Op
	for _, key := range keys {
		ops = append(ops, clientv3.OpDelete(node.Prefix+key))
	}
	o.Txn(ops...)
}

func (o *Operator) Get(key string, options ...clientv3.OpOption) *clientv3.GetResponse {
	o.F.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	answer, err := o.Client.Get(ctx, key, options...)
	if err != nil {
		o.F.T.Fatalf("etcd does not answer: %v", err)
	}
	return answer
}

// Txn returns the revision that the store has afterwards.
func (o *Operator) Txn(ops ...clientv3.Op) int64 {
	o.F.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	answer, err := o.Client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		o.F.T.Fatalf("etcd does not take a change: %v", err)
	}
	return answer.Header.Revision
}
