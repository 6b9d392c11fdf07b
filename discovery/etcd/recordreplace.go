package etcd

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/homes"
)

// Replace puts next in place of a record, or deletes it if next is nil, in one transaction that requires that the record is
// unchanged and that its process is still not registered: no process of the node is, or another one is. It reports whether the
// record was changed.
func (r *Records) Replace(ctx context.Context, old homes.Record, next *homes.Record) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.callTimeout())
	defer cancel()
	before := r.newestRevision()
	answer, err := r.config.Client.Txn(ctx).Then(r.readOps(old.Process)...).Commit()
	if err != nil {
		return false, fmt.Errorf("cannot read the record of %s: %w", old.Process, err)
	}
	r.sawRevision(before, answer.Header.Revision)
	server, there := parseRead(answer)
	if registered, err := r.isRegistrationOf(server, old.Process); registered || err != nil {
		return false, err
	}
	if there.isAbsent() || there.revision() != old.Revision {
		return false, nil
	}
	absent := clientv3.Compare(clientv3.ModRevision(r.serverKey(old.Node)), "=", int64(0))
	if server != nil {
		absent = clientv3.Compare(clientv3.ModRevision(r.serverKey(old.Node)), "=", server.ModRevision)
	}
	answer, err = r.config.Client.Txn(ctx).If(append(r.unchanged(old.Process, &there), absent)...).Then(r.replacement(old.Process, next)...).Commit()
	if err != nil {
		return false, fmt.Errorf("cannot change or delete the record of %s: %w", old.Process, err)
	}
	r.sawRevision(before, answer.Header.Revision)
	return answer.Succeeded, nil
}

// isRegistrationOf reports whether a registration is that of a process. The error means that it cannot be read, so it may be.
func (r *Records) isRegistrationOf(server *mvccpb.KeyValue, p homes.Process) (bool, error) {
	if server == nil {
		return false, nil
	}
	key := fleet.KindServer.Key(r.config.Colo, p.Node)
	set := document.NewSet()
	if err := set.Put(key, server.Value, server.ModRevision); err != nil {
		return false, fmt.Errorf("cannot tell whether %s is registered: %w", p, err)
	}
	document, _ := set.Noun(key).(*fleet.Server)
	return document != nil && document.Boot == p.Boot, nil
}

// replacement returns the operations that put a record in place of another, or delete that.
func (r *Records) replacement(p homes.Process, next *homes.Record) []clientv3.Op {
	key := r.key(p)
	if next == nil {
		return []clientv3.Op{clientv3.OpDelete(key), clientv3.OpDelete(key + heldSuffix)}
	}
	owns, held := next.Encode()
	return []clientv3.Op{clientv3.OpPut(key, string(owns)), clientv3.OpPut(key+heldSuffix, string(held))}
}

func (r *Records) newestRevision() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}
