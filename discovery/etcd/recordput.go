package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/homes"
)

// ownState is the state of the own record when a put or a renewal begins.
type ownState struct {
	lease      clientv3.LeaseID
	newest     int64
	number     uint64
	standing   storedRecord
	unresolved bool // there are puts that were not answered
}

// Put puts the own record: what the process owns, each with its limit, and what it holds on other engines, in a transaction
// that requires that the process is registered and that the record stands as put last. registered is the revision of the registration
// for which owns and held were computed (see RecordsConfig.OnRegistered). Put returns the revision at which the record stands; a
// revision lower than that of a later registration is out of date. After an error other than ErrNotRegistered and ErrRecordLost, the
// put may stand or may yet take place. The next Put finds out, and prevents that it takes place later.
func (r *Records) Put(ctx context.Context, registered int64, owns, held map[string]int) (revision int64, err error) {
	r.putting.Lock()
	defer r.putting.Unlock()
	record := homes.Record{Process: r.config.Self, Address: r.config.Address(), Owns: owns, Held: held}
	for {
		s, err := r.begin(registered)
		if err != nil {
			return 0, err
		}
		if s.unresolved {
			if err := r.resolve(ctx, registered, s); err != nil {
				return 0, err
			}
			if s, err = r.begin(registered); err != nil {
				return 0, err
			}
		}
		next, changed := s.next(record)
		if !changed {
			return s.standing.revision(), nil
		}
		if err := checkSize(&next); err != nil {
			return 0, err
		}
		if done, err := r.tryPut(ctx, registered, s, next); done != 0 || err != nil {
			return done, err
		}
	}
}

// checkSize refuses a record that etcd might not take.
func checkSize(s *storedRecord) error {
	if size := len(s.owns) + len(s.held); size > maxRecord {
		return fmt.Errorf("cannot put the record of this server: it would have %d bytes, more than %d; the pools of the colo have too many engines",
			size, maxRecord)
	}
	return nil
}

// begin returns the state that a put starts from.
func (r *Records) begin(registered int64) (ownState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.registered == 0 || r.registered != registered:
		return ownState{}, ErrNotRegistered
	case r.forgotten:
		return ownState{}, ErrRecordLost
	}
	return r.ownStateLocked(), nil
}

func (r *Records) ownStateLocked() ownState {
	return ownState{lease: r.lease, newest: r.newest, number: r.number, standing: r.standing, unresolved: len(r.unresolved) > 0}
}

// next returns the record to put, and whether it differs from the one that stands. If an earlier put may yet take place, the returned
// one always differs: only another revision prevents the earlier put.
func (s *ownState) next(record homes.Record) (storedRecord, bool) {
	next := s.standing
	record.Put = next.put
	owns, held := record.Encode()
	if s.unresolved || !bytes.Equal(owns, next.owns) {
		record.Put = s.number + 1
		owns, _ = record.Encode()
		next.owns, next.ownsRevision, next.put = owns, 0, record.Put
	}
	if !bytes.Equal(held, next.held) {
		next.held, next.heldRevision = held, 0
	}
	return next, next.ownsRevision == 0 || next.heldRevision == 0
}

// tryPut puts the keys of next that have no revision yet, and returns the revision. 0 = an earlier put had taken place, and is adopted
// now: the caller must try again.
func (r *Records) tryPut(ctx context.Context, registered int64, s ownState, next storedRecord) (int64, error) {
	if !r.addUnresolved(registered, next) {
		return 0, ErrNotRegistered
	}
	key := r.key(r.config.Self)
	var puts []clientv3.Op
	if next.ownsRevision == 0 {
		puts = append(puts, clientv3.OpPut(key, string(next.owns)))
	}
	if next.heldRevision == 0 {
		puts = append(puts, clientv3.OpPut(key+heldSuffix, string(next.held)))
	}
	conditions := append(r.unchanged(r.config.Self, &s.standing), r.isRegistered(s.lease))
	ctx, cancel := context.WithTimeout(ctx, r.callTimeout())
	defer cancel()
	answer, err := r.config.Client.Txn(ctx).If(conditions...).Then(puts...).Else(r.readOps(r.config.Self)...).Commit()
	if err != nil {
		return 0, fmt.Errorf("cannot put the record of this server: %w", err)
	}
	r.sawRevision(s.newest, answer.Header.Revision)
	if !answer.Succeeded {
		return 0, r.adopt(registered, answer)
	}
	return answer.Header.Revision, r.settle(registered, next, answer.Header.Revision)
}

// isRegistered is the condition that the registration of this process stands under a lease.
func (r *Records) isRegistered(lease clientv3.LeaseID) clientv3.Cmp {
	return clientv3.Compare(clientv3.LeaseValue(r.serverKey(r.config.Self.Node)), "=", lease)
}

// addUnresolved notes a put before it is sent; false = the process has registered anew.
func (r *Records) addUnresolved(registered int64, next storedRecord) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.registered != registered {
		return false
	}
	r.number = max(r.number, next.put)
	r.unresolved = append(r.unresolved, next)
	return true
}

// settle notes that a put stands, at a revision. Earlier ones can no longer take place.
func (r *Records) settle(registered int64, next storedRecord, revision int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.registered != registered {
		return ErrNotRegistered
	}
	if next.ownsRevision == 0 {
		next.ownsRevision = revision
	}
	if next.heldRevision == 0 {
		next.heldRevision = revision
	}
	r.standing, r.unresolved = next, nil
	return nil
}

// resolve reads the record, and finds out which of the puts that were not answered has taken place.
func (r *Records) resolve(ctx context.Context, registered int64, s ownState) error {
	ctx, cancel := context.WithTimeout(ctx, r.callTimeout())
	defer cancel()
	answer, err := r.config.Client.Txn(ctx).Then(r.readOps(r.config.Self)...).Commit()
	if err != nil {
		return fmt.Errorf("cannot read the record of this server: %w", err)
	}
	r.sawRevision(s.newest, answer.Header.Revision)
	return r.adopt(registered, answer)
}

// adopt makes the record in answer the known one if this process put it, last or by an unresolved put; else the record is lost.
func (r *Records) adopt(registered int64, answer *clientv3.TxnResponse) error {
	server, there := parseRead(answer)
	err := r.adoptRecord(registered, server, &there)
	if errors.Is(err, ErrRecordLost) {
		r.lose()
	}
	return err
}

func (r *Records) adoptRecord(registered int64, server *mvccpb.KeyValue, there *storedRecord) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.registered != registered || server == nil || server.Lease != int64(r.lease) {
		return ErrNotRegistered
	}
	own, ok := r.matchOwnLocked(there)
	if !ok {
		return ErrRecordLost
	}
	if own.revision() != r.standing.revision() { // the revision has changed, so no other unresolved put can take place
		r.standing, r.unresolved = own, nil
	}
	return nil
}

// matchOwnLocked returns the put that the record in the store comes from: the last one, or an unresolved one; false if it is neither.
func (r *Records) matchOwnLocked(there *storedRecord) (storedRecord, bool) {
	if there.ownsRevision == r.standing.ownsRevision && there.heldRevision == r.standing.heldRevision {
		return r.standing, true
	}
	for _, own := range r.unresolved {
		if own.sameValues(there) && there.revision() > r.standing.revision() {
			own.ownsRevision, own.heldRevision = there.ownsRevision, there.heldRevision
			return own, true
		}
	}
	return storedRecord{}, false
}

// lose notes that the own record is not as it was put, possibly because the store was restored.
func (r *Records) lose() {
	r.Forget()
	r.noteRestored()
}
