package etcd

import (
	"bytes"
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/homes"
)

// The methods in this file put and verify the own record together with the registration of the process. A Lease calls them.

// recordPut is the record that the transaction that registers its process puts.
type recordPut struct {
	record storedRecord
	newest int64 // newest revision of the store that was seen before
	puts   []clientv3.Op
}

// newRegistration returns the record to put with the registration: it owns nothing, and holds the requests in flight.
func (r *Records) newRegistration() (recordPut, error) {
	number, newest := r.nextPut()
	record := homes.Record{Process: r.config.Self, Put: number, Address: r.config.Address(), Held: r.config.Held()}
	s := storedRecord{put: number}
	s.owns, s.held = record.Encode()
	if err := checkSize(&s); err != nil {
		return recordPut{}, err
	}
	r.setRegistering(s)
	key := r.key(r.config.Self)
	puts := []clientv3.Op{clientv3.OpPut(key, string(s.owns)), clientv3.OpPut(key+heldSuffix, string(s.held))}
	return recordPut{record: s, newest: newest, puts: puts}, nil
}

func (r *Records) nextPut() (number uint64, newest int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	return r.number, r.newest
}

func (r *Records) setRegistering(s storedRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.registering = s
}

// setRegistered notes that the process is registered under a lease, with its record, since a revision. Earlier puts that were not
// answered can no longer take place.
func (r *Records) setRegistered(lease clientv3.LeaseID, p recordPut, revision int64) {
	r.sawRevision(p.newest, revision)
	p.record.ownsRevision, p.record.heldRevision = revision, revision
	r.mu.Lock()
	r.lease, r.registered, r.forgotten = lease, revision, false
	r.standing, r.unresolved, r.registering = p.record, nil, storedRecord{}
	r.mu.Unlock()
	signal(r.relist) // after an outage of etcd, the watch may still be on a dead connection
	r.config.OnRegistered(revision)
}

// setUnregistered notes that the process is not registered any more.
func (r *Records) setUnregistered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lease, r.registered = 0, 0
}

// checkRegistration reports whether the conditions hold and the own record stands as put last. If not, there is the value of the
// registration's key, nil = no such key. The error is ErrRecordLost if the registration stands, but not the record.
func (r *Records) checkRegistration(ctx context.Context, conditions []clientv3.Cmp, l *Lease) (there *mvccpb.KeyValue, stands bool, err error) {
	own, ok := r.ownState()
	if !ok {
		return nil, false, ErrRecordLost
	}
	conditions = append(conditions, r.unchanged(r.config.Self, &own.standing)...)
	answer, err := r.config.Client.Txn(ctx).If(conditions...).Else(r.readOps(r.config.Self)...).Commit()
	if err != nil {
		return nil, false, err
	}
	r.sawRevision(own.newest, answer.Header.Revision)
	if answer.Succeeded {
		return nil, true, nil
	}
	there, record := parseRead(answer)
	if there == nil || there.Lease != int64(own.lease) && there.Lease != 0 {
		return there, false, nil // the registration itself is not in place
	}
	isOwn, err := r.verify(&own, &record)
	inPlace := there.Lease == int64(own.lease) && bytes.Equal(there.Value, l.value)
	return there, isOwn && inPlace, err
}

// ownState returns what the own record is known to be; false if it counts as lost.
func (r *Records) ownState() (ownState, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ownStateLocked(), !r.forgotten
}

// verify reports whether there, the own record as a call that began with s has read it, is one that this process put. It returns false
// without an error if the record was put during the call, so that it must be read again. Otherwise the error is ErrRecordLost.
func (r *Records) verify(s *ownState, there *storedRecord) (isOwn bool, err error) {
	switch r.compare(s, there) {
	case recordIsOwn:
		return true, nil
	case recordChanged:
		return false, nil
	case recordIsRegistering:
		r.Forget()
	default:
		r.lose()
	}
	return false, ErrRecordLost
}

// Results of comparing the record in the store with those that this process has put.
const (
	recordIsOwn         = "own"         // one that this process put
	recordChanged       = "changed"     // it was put meanwhile
	recordIsRegistering = "registering" // that of a registration that was not answered; nothing was lost
	recordIsOther       = "other"
)

func (r *Records) compare(s *ownState, there *storedRecord) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, isOwn := r.matchOwnLocked(there)
	switch {
	case isOwn:
		return recordIsOwn
	case r.standing.revision() != s.standing.revision():
		return recordChanged
	case !r.registering.isAbsent() && r.registering.sameValues(there):
		return recordIsRegistering
	}
	return recordIsOther
}

// leave removes the registration of a process that grants nothing any more, and its record. If the process still holds requests on
// engines, the record stays, and owns nothing.
func (r *Records) leave(ctx context.Context, lease clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout/2)
	defer cancel()
	key := r.key(r.config.Self)
	ops := []clientv3.Op{clientv3.OpDelete(key), clientv3.OpDelete(key + heldSuffix)}
	p, err := r.newRegistration()
	if err == nil && len(homes.ParseRecord(r.config.Self, p.record.owns, p.record.held).Held) > 0 {
		ops = p.puts
	}
	ops = append(ops, clientv3.OpDelete(r.serverKey(r.config.Self.Node)))
	if _, err := r.config.Client.Txn(ctx).If(r.isRegistered(lease)).Then(ops...).Commit(); err != nil {
		r.config.Logger.Warn("cannot remove the record of this server; its siblings find out that it has ended", "error", err)
	}
}
