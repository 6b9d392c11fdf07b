package fleettest

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/atomicfile"
	"colonnade/internal/testkit"
	"colonnade/node"
	"colonnade/onebox"
)

// Operator changes documents in etcd directly, or in the file of a fleet that is one process, so that nothing checks them before they are
// stored.
type Operator struct {
	F      *Fleet
	Client *clientv3.Client // nil if there is no etcd

	mu sync.Mutex // held while the file is changed
}

// Operator connects to the fleet's etcd, until the end of the test.
func (f *Fleet) Operator() *Operator {
	f.T.Helper()
	if f.Etcd == "" {
		return &Operator{F: f}
	}
	client, err := etcd.Dial([]string{f.Etcd})
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(func() { _ = client.Close() })
	return &Operator{F: f, Client: client}
}

// Put writes YAML documents, each with its key, in one transaction, and returns its revision; 0 without an etcd.
func (o *Operator) Put(documents string) (revision int64) {
	o.F.T.Helper()
	if o.Client == nil {
		docs := split(o.F.T, documents)
		o.edit(keysOf(docs), docs)
		return 0
	}
	var ops []clientv3.Op
	for _, d := range split(o.F.T, documents) {
		ops = append(ops, clientv3.OpPut(node.Prefix+d.Key, string(d.Value)))
	}
	return o.Txn(ops...)
}

// Remove deletes documents in one transaction, which also confirms that.
func (o *Operator) Remove(keys ...string) {
	o.F.T.Helper()
	if o.Client == nil {
		o.edit(keys, nil)
		return
	}
	ops := []clientv3.Op{clientv3.OpPut(node.Prefix+string(fleet.KindDeletions), fmt.Sprintf("confirmed: %d", math.MaxInt64))}
	for _, key := range keys {
		ops = append(ops, clientv3.OpDelete(node.Prefix+key))
	}
	o.Txn(ops...)
}

// Get reads etcd by its own keys, which begin with node.Prefix.
func (o *Operator) Get(key string, options ...clientv3.OpOption) *clientv3.GetResponse {
	o.F.T.Helper()
	o.needsEtcd()
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
	o.needsEtcd()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	answer, err := o.Client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		o.F.T.Fatalf("cannot write to etcd: %v", err)
	}
	return answer.Header.Revision
}

func (o *Operator) needsEtcd() {
	o.F.T.Helper()
	if o.Client == nil {
		NeedsFleet(o.F.T, "an etcd")
	}
}

// edit replaces the file with which the process has started: by its documents but for some keys, and further ones.
func (o *Operator) edit(without []string, further []document.Raw) {
	o.F.T.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	path := filepath.Join(o.F.Documents, onebox.DocumentFile)
	text, err := os.ReadFile(path)
	if err != nil {
		o.F.T.Fatal(err)
	}
	docs := slices.DeleteFunc(split(o.F.T, string(text)), func(d document.Raw) bool { return slices.Contains(without, d.Key) })
	if text, err = document.JoinFile(append(docs, further...)); err == nil {
		err = atomicfile.Write(path, text, 0o600)
	}
	if err != nil {
		o.F.T.Fatal(err)
	}
}

func keysOf(docs []document.Raw) (keys []string) {
	for _, d := range docs {
		keys = append(keys, d.Key)
	}
	return keys
}
