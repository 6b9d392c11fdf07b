package etcd_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/internal/testkit"
)

// right is what a lease has told of its tenure.
type right struct{ until atomic.Pointer[time.Time] }

func (r *right) tell(until time.Time) { r.until.Store(&until) }

func (r *right) held() bool {
	until := r.until.Load()
	return until != nil && time.Now().Before(*until)
}

// placed is a registration whose tenure is followed. vacant says whether nobody else is known.
func (s *store) placed(key string, vacant bool) (etcd.Registration, *right) {
	told := new(right)
	r := s.registration(key)
	r.Exclusive = true
	r.Fence = etcd.Fence{SetDeadline: told.tell, NoRival: func() bool { return vacant }}
	return r, told
}

// A node has its place for as long as it renews its lease, and not a moment longer than until it leaves.
func TestTenureOfTheRegistered(t *testing.T) {
	s := start(t)
	r, told := s.placed("servers/ams/a", false)
	l := s.register(r)
	if !told.held() {
		t.Error("registered, and may not act")
	}
	first := *told.until.Load()
	if left := time.Until(first); left > r.TTL*9/10 {
		t.Errorf("may act for %v, of a lease of %v", left, r.TTL)
	}
	stop := run(t, l.Run)
	testkit.WaitFor(t, "the tenure goes beyond its first", func() bool { return time.Now().After(first) && told.held() })
	stop()
	if told.held() {
		t.Error("it has left, and may act")
	}
}

// While etcd is away, what has been confirmed goes on; and so does a start without it.
func TestTenureWhileStoreIsAway(t *testing.T) {
	s := start(t)
	p := newProxy(t, s.Address)
	r, told := s.placed("servers/ams/a", false)
	r.Client = p.client(t)
	run(t, s.register(r).Run)
	p.swallow()
	other, later := s.placed("servers/fra/a", true)
	other.Client = r.Client
	l := etcd.NewLease(other)
	l.Assume()
	run(t, l.Run)
	for end := time.Now().Add(3 * ttl / 2); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if !told.held() || !later.held() {
			t.Fatalf("though the processes went on, the tenure has lapsed: confirmed %v, begun without etcd %v", told.held(), later.held())
		}
	}
	p.heal()
	testkit.WaitFor(t, "registered", func() bool { return s.get("servers/fra/a") != nil && later.held() })
}

// A process that was stopped finds its connection to etcd dead, and a successor: it does not act beside that one, however
// long it takes to be told.
func TestTenureOnConnectionOfBeforeStop(t *testing.T) {
	s := start(t)
	p := newProxy(t, s.Address)
	r, told := s.placed("servers/ams/a", true)
	r.Client = p.client(t)
	l := s.register(r) // and stopped: nothing renews it
	next, other := s.placed("servers/ams/b", true)
	run(t, s.register(next).Run)
	p.swallow()
	ctx, cancel := context.WithTimeout(context.Background(), 2*testkit.Timeout)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	time.Sleep(100 * time.Millisecond) // it has asked
	p.healQuietly()
	for {
		select {
		case err := <-ended:
			wantTaken(t, err, "servers/ams/b")
			return
		case <-time.After(5 * time.Millisecond):
			if told.held() && other.held() {
				t.Fatal("both may act")
			}
		}
	}
}

// Whoever hears that another has its place may act no more, also if that one came in the moment when the key was gone.
func TestTenureOfAnother(t *testing.T) {
	s := start(t)
	r, told := s.placed("servers/ams/a", true)
	l := s.register(r)
	lease, err := s.client.Grant(s.ctx(), 60)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.client.Txn(s.ctx()).Then(
		clientv3.OpDelete(prefix+"servers/ams/a"), clientv3.OpPut(prefix+"servers/ams/b", "{}", clientv3.WithLease(lease.ID)),
	).Commit()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(s.ctx()) }()
	select {
	case err := <-ended:
		wantTaken(t, err, "servers/ams/b")
	case <-time.After(testkit.Timeout):
		t.Fatal("Run goes on")
	}
	if told.held() {
		t.Error("it may act, though another has its place")
	}
}
