package fleettest

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// Operator changes documents in etcd directly, so that nothing checks them before they are stored.
type Operator struct {
	F      *Fleet
	Client *clientv3.Client
}

// Operator connects to the fleet's etcd, until the end of the test.
func (f *Fleet) Operator() *Operator {
	f.T.Helper()
	client, err := etcd.Dial([]string{f.Etcd})
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(func() { _ = client.Close() })
	return &Operator{f, client}
}

// Put writes YAML documents, each with its key, in one transaction, and returns its revision.
func (o *Operator) Put(documents string) (revision int64) {
	o.F.T.Helper()
	var ops []clientv3.Op
	for _, d := range split(o.F.T, documents) {
		ops = append(ops, clientv3.OpPut(node.Prefix+d.Key, string(d.Value)))
	}
	return o.Txn(ops...)
}

// Remove deletes documents in one transaction.
func (o *Operator) Remove(keys ...string) {
	o.F.T.Helper()
	var ops []clientv3.Op
	for _, key := range keys {
		ops = append(ops, clientv3.OpDelete(node.Prefix+key))
	}
	o.Txn(ops...)
}

// Get reads etcd by its own keys, which begin with node.Prefix.
func (o *Operator) Get(key string, options ...clientv3.OpOption) *clientv3.GetResponse {
	o.F.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	answer, err := o.Client.Get(ctx, key, options...)
	if err != nil {
		o.F.T.Fatalf("cannot read etcd: %v", err)
	}
	return answer
}

// Txn runs operations in one transaction, and returns its revision.
func (o *Operator) Txn(ops ...clientv3.Op) (revision int64) {
	o.F.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	answer, err := o.Client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		o.F.T.Fatalf("cannot write to etcd: %v", err)
	}
	return answer.Header.Revision
}
