package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// Writer changes documents. Each transaction also puts its author under [AuthorKey], and the change into the history. The
// methods may be called at any time.
type Writer struct {
	Client *clientv3.Client
	Prefix string // of all keys; with a slash at the end
	Author Author // without a Time, which is that of each change
}

// ErrChanged says that documents are not as they were read.
var ErrChanged = errors.New("documents have changed meanwhile")

// Edit is a change of documents. No key is in it twice.
type Edit struct {
	Put     []document.Raw
	Delete  []string // keys
	Confirm bool     // the deletions, and all before them, so that no node holds them back
	Stage   *Stage   // of the same change, which this one takes the place of, in one transaction; nil = none. It must still be there
}

// keys returns the keys of the documents, without the prefix.
func (e Edit) keys() []string {
	keys := make([]string, 0, len(e.Put)+len(e.Delete))
	for _, d := range e.Put {
		keys = append(keys, d.Key)
	}
	return append(keys, e.Delete...)
}

// confirmation is the value of the document "deletions" that confirms what the transaction that puts it deletes, and
// everything before: nodes limit the number to the revision of the document itself.
const confirmation = "confirmed: 9223372036854775807\n"

// documentsByKey are documents before a change. Keys without a document are missing.
type documentsByKey map[string]Stored

// has reports whether a document is there word for word. One under a lease is another one: it would vanish with the lease.
func (b documentsByKey) has(d document.Raw) bool {
	old, there := b[d.Key]
	return there && !old.Leased && bytes.Equal(old.Value, d.Value)
}

// read returns the documents of some keys, and the keys of the history, at one revision.
func (w Writer) read(ctx context.Context, keys []string) (documentsByKey, changeKeys, error) {
	ops := []clientv3.Op{clientv3.OpGet(w.Prefix+changesFolder, clientv3.WithPrefix(), clientv3.WithKeysOnly())}
	for _, key := range keys {
		ops = append(ops, clientv3.OpGet(w.Prefix+key))
	}
	answer, err := w.Client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return nil, nil, err
	}
	var changes changeKeys
	for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
		changes = append(changes, string(kv.Key))
	}
	there := documentsByKey{}
	for i, key := range keys {
		for _, kv := range answer.Responses[i+1].GetResponseRange().Kvs {
			there[key] = newStored(key, kv)
		}
	}
	return there, changes, nil
}

// commit carries out an edit if its documents are as before has them and the conditions hold; else the error is ErrChanged.
// A document that is there word for word is not put. It returns the change; without documents, nothing was to be changed.
func (w Writer) commit(ctx context.Context, e Edit, before documentsByKey, changes changeKeys, conditions ...clientv3.Cmp) (Change, error) {
	change := Change{Author: w.Author}
	change.Time = time.Now().UTC()
	var ops []clientv3.Op
	for _, d := range e.Put {
		old, there := before[d.Key]
		conditions = append(conditions, w.unchanged(d.Key, old))
		if before.has(d) {
			continue
		}
		action := ActionCreated
		if there {
			action = ActionChanged
		}
		change.Documents = append(change.Documents, ChangedDocument{d.Key, action, string(old.Value), string(d.Value), old.Revision})
		ops = append(ops, clientv3.OpPut(w.Prefix+d.Key, string(d.Value)))
	}
	for _, key := range e.Delete {
		old, there := before[key]
		conditions = append(conditions, w.unchanged(key, old))
		if there {
			change.Documents = append(change.Documents, ChangedDocument{key, ActionDeleted, string(old.Value), "", old.Revision})
			ops = append(ops, clientv3.OpDelete(w.Prefix+key))
		}
	}
	if len(ops) == 0 {
		return change, nil
	}
	if e.Confirm {
		ops = append(ops, clientv3.OpPut(w.Prefix+string(fleet.KindDeletions), confirmation))
	}
	if e.Stage != nil {
		staged, remove := e.Stage.taken()
		conditions, ops = append(conditions, staged), append(ops, remove)
	}
	recorded, err := w.record(&change, changes)
	if err != nil {
		return change, err
	}
	var lost []clientv3.Op // what says why it was not carried out
	if e.Stage != nil {
		lost = []clientv3.Op{clientv3.OpGet(e.Stage.key)}
	}
	answer, err := w.Client.Txn(ctx).If(conditions...).Then(append(ops, recorded...)...).Else(lost...).Commit()
	if err != nil {
		return change, err
	}
	if !answer.Succeeded && e.Stage != nil && len(answer.Responses[0].GetResponseRange().Kvs) == 0 {
		return change, ErrStageLost
	}
	if !answer.Succeeded {
		return change, ErrChanged
	}
	change.Revision = answer.Header.Revision
	return change, nil
}

// unchanged holds if the document of a key is still that of before; without one, if there is none.
func (w Writer) unchanged(key string, before Stored) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(w.Prefix+key), "=", before.Revision)
}

// record returns the operations that put the author and the change, and gives the change its key.
func (w Writer) record(change *Change, changes changeKeys) ([]clientv3.Op, error) {
	author, err := json.Marshal(change.Author)
	if err != nil {
		return nil, fmt.Errorf("cannot write the author as JSON: %w", err)
	}
	value, err := change.encode()
	if err != nil {
		return nil, err
	}
	change.key = changes.next(w.Prefix, change.Time, len(value))
	return append(changes.prune(w.Prefix, len(value)),
		clientv3.OpPut(w.Prefix+AuthorKey, string(author)),
		clientv3.OpPut(change.key, value)), nil
}

// change carries out an edit, whatever the documents were before. It returns the change and the documents before it.
func (w Writer) change(ctx context.Context, e Edit) (Change, documentsByKey, error) {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	for {
		before, changes, err := w.read(ctx, e.keys())
		if err != nil {
			return Change{}, nil, err
		}
		change, err := w.commit(ctx, e, before, changes)
		if !errors.Is(err, ErrChanged) {
			return change, before, err
		}
	}
}
