package etcd

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// fakeStore answers the calls of a lease as a test wants.
type fakeStore struct {
	clientv3.KV
	clientv3.Lease
	takes  time.Duration // each call
	slow   time.Time     // when calls begin to take so long
	lost   bool          // the lease has expired
	holder string        // the key in the place then; empty: calls about it are not answered
	ends   bool          // the place is free then, and etcd goes away when a lease was granted
}

func (f *fakeStore) answer(ctx context.Context, err error) error {
	takes := f.takes
	if time.Now().Before(f.slow) {
		takes = 0
	}
	select {
	case <-time.After(takes):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// KeepAliveOnce renews the lease, unless it is lost.
func (f *fakeStore) KeepAliveOnce(ctx context.Context, _ clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	if f.lost {
		return nil, f.answer(ctx, rpctypes.ErrLeaseNotFound)
	}
	return nil, f.answer(ctx, nil)
}

// Grant grants a lease.
func (f *fakeStore) Grant(ctx context.Context, _ int64) (*clientv3.LeaseGrantResponse, error) {
	return &clientv3.LeaseGrantResponse{ID: 2}, f.answer(ctx, nil)
}

// Revoke ends the lease.
func (f *fakeStore) Revoke(ctx context.Context, _ clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	if f.ends {
		<-ctx.Done()
	}
	return nil, f.answer(ctx, ctx.Err())
}

// Get returns the holder.
func (f *fakeStore) Get(ctx context.Context, _ string, _ ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if f.ends {
		return &clientv3.GetResponse{Header: &etcdserverpb.ResponseHeader{Revision: 2}}, f.answer(ctx, nil)
	}
	if f.holder == "" {
		return nil, f.answer(ctx, context.DeadlineExceeded)
	}
	holder := &mvccpb.KeyValue{Key: []byte(f.holder), Lease: 7, CreateRevision: 1}
	return &clientv3.GetResponse{Header: &etcdserverpb.ResponseHeader{Revision: 2}, Kvs: []*mvccpb.KeyValue{holder}}, f.answer(ctx, nil)
}

// TimeToLive is never answered.
func (f *fakeStore) TimeToLive(ctx context.Context, _ clientv3.LeaseID, _ ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	return nil, f.answer(ctx, context.DeadlineExceeded)
}

// Txn succeeds: the key is as it should be.
func (f *fakeStore) Txn(ctx context.Context) clientv3.Txn { return fakeTxn{store: f, ctx: ctx} }

type fakeTxn struct {
	clientv3.Txn
	store *fakeStore
	ctx   context.Context
}

func (t fakeTxn) If(...clientv3.Cmp) clientv3.Txn  { return t }
func (t fakeTxn) Then(...clientv3.Op) clientv3.Txn { return t }
func (t fakeTxn) Else(...clientv3.Op) clientv3.Txn { return t }
func (t fakeTxn) Commit() (*clientv3.TxnResponse, error) {
	if t.store.ends {
		<-t.ctx.Done()
		return nil, t.ctx.Err()
	}
	return &clientv3.TxnResponse{Succeeded: true}, t.store.answer(t.ctx, nil)
}

// leased returns the lease of a registered node with a TTL of 5 s, and its deadline. It is alone.
func leased(f *fakeStore) (l *Lease, until *time.Time) {
	until = new(time.Time)
	l = NewLease(Registration{
		Client: &clientv3.Client{KV: f, Lease: f}, Prefix: "/", Key: "servers/ams/a", TTL: 5 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
		Fence:  Fence{SetDeadline: func(u time.Time) { *until = u }, Alone: func() bool { return true }},
	})
	l.id = 1
	l.fence.confirm(time.Now(), time.Now())
	return l, until
}

// renews tries to renew the lease for so long, as Run does.
func (l *Lease) renews(t *testing.T, length time.Duration) {
	t.Helper()
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(l.renewEvery()) {
		asked := time.Now()
		if err := l.renew(t.Context(), asked); err != nil {
			l.fence.unanswered(asked, time.Now())
		}
		l.fence.heartbeat(time.Now())
	}
}

// An etcd that answers slowly counts as away: the deadline does not pass before each of its answers.
func TestFenceWithSlowStore(t *testing.T) {
	for _, takes := range []time.Duration{0, 800 * time.Millisecond, 1600 * time.Millisecond, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			l, _ := leased(&fakeStore{takes: takes})
			l.staysAhead(t)
		})
	}
}

// staysAhead runs a lease for a minute, and expects that the deadline of its fence does not pass.
func (l *Lease) staysAhead(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	for range 600 {
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		l.fence.mu.Lock()
		held := time.Now().Before(l.fence.deadline)
		l.fence.mu.Unlock()
		if !held {
			t.Error("the deadline has passed")
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A document that changes while etcd is slow or away makes no renewal take longer, so the deadline does not pass. Each update takes
// as long as a renewal may.
func TestFenceWhileDocumentChanges(t *testing.T) {
	for _, takes := range []time.Duration{800 * time.Millisecond, 1600 * time.Millisecond, time.Minute} {
		for phase := range 10 { // of the updates beside the renewals
			synctest.Test(t, func(t *testing.T) {
				slow := time.Now().Add(time.Duration(phase) * 100 * time.Millisecond)
				l, _ := leased(&fakeStore{takes: takes, slow: slow})
				ctx, cancel := context.WithCancel(t.Context())
				var updates sync.WaitGroup
				for range 3 {
					updates.Go(func() {
						for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
							_ = l.Update(ctx, []byte("changed"))
						}
					})
				}
				l.staysAhead(t)
				cancel()
				updates.Wait()
			})
		}
	}
}

// A node that is alone, has lost its lease, and registers again keeps its deadline when etcd goes away before the last step.
func TestFenceWhileRegisteringAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := leased(&fakeStore{lost: true, ends: true})
		time.Sleep(l.renewEvery()) // since the last renewal
		l.staysAhead(t)
	})
}

// A node whose lease was lost, with etcd away right after it said so, uses the rest of its deadline. If a sibling may be known,
// the deadline is not extended.
func TestFenceIsNotExtendedAfterLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, until := leased(&fakeStore{lost: true})
		l.r.Fence.Alone, l.fence.Alone = nil, nil
		left := *until
		l.renews(t, time.Minute)
		if !until.Equal(left) {
			t.Errorf("the deadline was extended by %v", until.Sub(left))
		}
	})
}

// A node that sees a key in its place has no deadline from there on. If etcd goes away then, it gets one again: the key has its own
// name, and may be that of an earlier run.
func TestFenceAfterChallenge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{lost: true, holder: "/servers/ams/a"}
		l, until := leased(store)
		l.renews(t, 5*time.Second)
		if !until.IsZero() {
			t.Errorf("its deadline is %v", until)
		}
		store.holder = ""
		l.renews(t, time.Minute)
		if until.IsZero() {
			t.Error("it has no deadline, with etcd away")
		}
	})
}

// Until etcd has confirmed the place, there is no deadline.
func TestFenceBeforeFirstConfirmation(t *testing.T) {
	reports := 0
	NewLease(Registration{Fence: Fence{SetDeadline: func(until time.Time) {
		reports++
		if !until.IsZero() {
			t.Errorf("the deadline is %v", until)
		}
	}}})
	if reports != 1 {
		t.Errorf("reported %d times", reports)
	}
}
