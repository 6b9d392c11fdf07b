package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/internal/ctxtime"
)

// ErrStageLost says that a staged change is not in etcd any more, so that its node has withdrawn it.
var ErrStageLost = errors.New("the staged change is gone from etcd")

// ErrNoNode says that a node is not registered.
var ErrNoNode = errors.New("the node is not registered")

// AlreadyStagedError says that another change is staged on a node.
type AlreadyStagedError struct {
	By       Author
	Revision int64 // of the store, when it was put
}

// Error returns the author of the other change.
func (e *AlreadyStagedError) Error() string {
	return fmt.Sprintf("a change is staged there already, since %s, by %s", e.By.Time.UTC().Format("15:04:05 MST"), e.By)
}

// Stage is a change that is staged on a node, under a lease. Its methods may be called at any time.
type Stage struct {
	Revision int64 // of the store, when it was put

	client *clientv3.Client
	key    string // with the prefix
	lease  clientv3.LeaseID
	ttl    time.Duration
}

// Stage stages a change on one node, by the key of the node's own document, until [Stage.Withdraw], or until the lease expires that
// [Stage.Keep] renews. The error is ErrNoNode if the node is not registered, and an *AlreadyStagedError if it has a staged change.
func (w Writer) Stage(ctx context.Context, node string, e Edit, ttl time.Duration) (*Stage, error) {
	if err := checkAll(e.Put); err != nil {
		return nil, err
	}
	if n := len(e.keys()); n > MaxTransaction {
		return nil, fmt.Errorf("the change is of %d documents, and only %d can be staged, since all nodes take up what was staged as one: apply it in parts", n, MaxTransaction)
	}
	value, err := w.stagedValue(e, ttl)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	lease, err := w.Client.Grant(ctx, int64(ttl.Seconds()))
	if err != nil {
		return nil, fmt.Errorf("cannot take a lease for the staged change: %w", err)
	}
	s := &Stage{client: w.Client, key: w.Prefix + StagedKey(node), lease: lease.ID, ttl: ttl}
	if err := s.put(ctx, w.Prefix+node, value); err != nil {
		return nil, errors.Join(err, s.Withdraw(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (w Writer) stagedValue(e Edit, ttl time.Duration) (string, error) {
	c := Staged{Author: w.Author, Delete: e.Delete, TTLSeconds: int(ttl.Seconds())}
	c.Time = time.Now().UTC()
	for _, d := range e.Put {
		c.Put = append(c.Put, StagedDocument{Key: d.Key, Value: string(d.Value)})
	}
	return c.encode()
}

// put puts the change, if the node is registered under a key and no other change is staged on it.
func (s *Stage) put(ctx context.Context, node, value string) error {
	answer, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(node), ">", 0), clientv3.Compare(clientv3.CreateRevision(s.key), "=", 0)).
		Then(clientv3.OpPut(s.key, value, clientv3.WithLease(s.lease))).Else(clientv3.OpGet(s.key)).Commit()
	switch {
	case err != nil:
		return fmt.Errorf("cannot stage the change: %w", err)
	case answer.Succeeded:
		s.Revision = answer.Header.Revision
		return nil
	}
	for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
		author, _ := ParseAuthor(kv.Value) // for the message only
		return &AlreadyStagedError{By: author, Revision: kv.ModRevision}
	}
	return ErrNoNode
}

// Keep renews the lease until ctx ends; then it returns nil. If the lease has expired, or may have since etcd does not answer, the error says so.
func (s *Stage) Keep(ctx context.Context) error {
	renewed := time.Now()
	for ctxtime.Sleep(ctx, s.ttl/leaseRenewals) {
		began := time.Now()
		err := s.renew(ctx)
		switch {
		case err == nil:
			renewed = began
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			return ErrStageLost
		case time.Since(renewed) > s.ttl:
			return fmt.Errorf("etcd has not answered for %s, so the lease of the staged change has expired: %w", s.ttl, err)
		}
	}
	return nil
}

// leaseRenewals is how often the lease of a staged change is renewed during its TTL.
const leaseRenewals = 5

func (s *Stage) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.ttl/leaseRenewals)
	defer cancel()
	_, err := s.client.KeepAliveOnce(ctx, s.lease)
	return err
}

// Withdraw takes the change away, so that it cannot be committed any more. With an error, the lease does it when it expires.
func (s *Stage) Withdraw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.ttl/leaseRenewals)
	defer cancel()
	if _, err := s.client.Revoke(ctx, s.lease); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("cannot withdraw the staged change: %w", err)
	}
	return nil
}

// taken returns the condition that the change is still staged, and the operation that takes it away.
func (s *Stage) taken() (clientv3.Cmp, clientv3.Op) {
	return clientv3.Compare(clientv3.ModRevision(s.key), "=", s.Revision), clientv3.OpDelete(s.key)
}
