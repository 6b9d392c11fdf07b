package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// attached is another document of a process, under the lease of its registration.
type attached struct {
	key   string // without the prefix; "" = there is none
	value []byte
	wait  contention // for the process that has the place; startRevision is that at which the place was last ours
	ours  bool       // the place was ours before
}

// Attach puts another document of the process, or replaces it: one that comes and goes with the registration, under its lease. There is one
// at most, so key is always the same. If etcd does not take it now, Run puts it there later. If another process has the place, Run waits until
// that one's lease expires, and returns a [*TakenError] as soon as it is clear that it does not.
func (l *Lease) Attach(ctx context.Context, key string, value []byte) error {
	l.lock()
	defer l.unlock()
	if l.attached.key != "" && l.attached.key != key {
		panic("etcd: the attached document of " + l.r.Key + " is " + l.attached.key + ", and not " + key)
	}
	l.attached.key, l.attached.value = key, value
	l.stored.Store(false)
	if l.id == 0 {
		return notRegistered(l.r.Key)
	}
	return l.ensureKeyLocked(ctx)
}

// ensureAttached puts the attached document, if there is one, after the process was registered.
func (l *Lease) ensureAttached(ctx context.Context) error {
	l.lock()
	defer l.unlock()
	if l.attached.key == "" {
		return nil
	}
	return l.ensureAttachedLocked(ctx)
}

// ensureAttachedLocked makes sure that the attached document stands under the lease. While another process that may be dead has its place, it
// returns nil without that, and the document does not count as stored.
func (l *Lease) ensureAttachedLocked(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.callTimeout())
	defer cancel()
	a, key := &l.attached, l.r.Prefix+l.attached.key
	for {
		answer, err := l.r.Client.Txn(ctx).If(l.attachedStands()...).Else(clientv3.OpGet(key)).Commit()
		if err != nil {
			return err
		}
		if answer.Succeeded {
			l.stored.Store(true)
			return nil
		}
		there := &clientv3.GetResponse{Header: answer.Header, Kvs: answer.Responses[0].GetResponseRange().Kvs}
		if len(there.Kvs) > 0 && !l.mayReplaceAttached(there.Kvs[0]) {
			return a.wait.observe(ctx, l, there)
		}
		put, err := l.r.Client.Txn(ctx).If(unchangedSince(key, there.Kvs)).Then(clientv3.OpPut(key, string(a.value), clientv3.WithLease(l.id))).Commit()
		if err != nil {
			return err
		}
		if put.Succeeded {
			a.ours, a.wait = true, contention{startRevision: put.Header.Revision}
		}
		// The key may have changed before or after it was put: look again.
	}
}

// mayReplaceAttached reports whether what stands in the place of the attached document is ours, or was put by hand over ours.
func (l *Lease) mayReplaceAttached(there *mvccpb.KeyValue) bool {
	return there.Lease == int64(l.id) || there.Lease == 0 && l.attached.ours
}

// unchangedSince holds if a key is still as it was read.
func unchangedSince(key string, read []*mvccpb.KeyValue) clientv3.Cmp {
	if len(read) == 0 {
		return clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	}
	return clientv3.Compare(clientv3.ModRevision(key), "=", read[0].ModRevision)
}

// attachedStands returns the conditions that hold if the attached document stands, if there is one.
func (l *Lease) attachedStands() []clientv3.Cmp {
	if l.attached.key == "" {
		return nil
	}
	key := l.r.Prefix + l.attached.key
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.LeaseValue(key), "=", l.id), clientv3.Compare(clientv3.Value(key), "=", string(l.attached.value)),
	}
}
