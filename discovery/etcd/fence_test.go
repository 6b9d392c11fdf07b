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

// deadline is what a fence has reported.
type deadline struct{ until atomic.Pointer[time.Time] }

func (d *deadline) set(until time.Time) { d.until.Store(&until) }

// ahead reports whether the node may act.
func (d *deadline) ahead() bool {
	until := d.until.Load()
	return until != nil && time.Now().Before(*until)
}

// fenced returns a registration and its deadline. alone says whether no other node is known that may act.
func (s *store) fenced(key string, alone bool) (etcd.Registration, *deadline) {
	reported := new(deadline)
	r := s.registration(key)
	r.Fence = etcd.Fence{SetDeadline: reported.set, Alone: func() bool { return alone }}
	return r, reported
}

// A node has a deadline for as long as it renews its lease, and none after it has left.
func TestFenceOfRegistration(t *testing.T) {
	s := start(t)
	r, reported := s.fenced("servers/ams/a", false)
	l := s.register(r)
	if !reported.ahead() {
		t.Error("registered, and has no deadline")
	}
	first := *reported.until.Load()
	if left := time.Until(first); left > r.TTL*9/10 {
		t.Errorf("the deadline is in %v, with a TTL of %v", left, r.TTL)
	}
	stop := run(t, l.Run)
	testkit.WaitFor(t, "a deadline after the first", func() bool { return time.Now().After(first) && reported.ahead() })
	stop()
	if reported.ahead() {
		t.Error("it has left, and has a deadline")
	}
}

// While etcd is away, the deadlines are extended of a node that was confirmed, and of one that started without etcd.
func TestFenceIsExtendedWhileStoreIsAway(t *testing.T) {
	s := start(t)
	p := testkit.NewProxy(t, s.Address)
	r, reported := s.fenced("servers/ams/a", true)
	r.Client = dial(t, p.Address)
	run(t, s.register(r).Run)
	p.Swallow()
	other, later := s.fenced("servers/fra/a", true)
	other.Client = r.Client
	l := etcd.NewLease(other)
	l.Assume()
	run(t, l.Run)
	for end := time.Now().Add(3 * ttl / 2); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if !reported.ahead() || !later.ahead() {
			t.Fatalf("the deadline has passed of a process that runs: confirmed %v, started without etcd %v", reported.ahead(), later.ahead())
		}
	}
	p.Heal()
	testkit.WaitFor(t, "registered", func() bool { return s.get("servers/fra/a") != nil && later.ahead() })
}

// A process that was stopped finds its connection to etcd dead, and a successor in its place: the two never have a deadline at
// the same time, however long it takes to notice. In a soak, the connection does not even end.
func TestFenceOfStoppedProcess(t *testing.T) {
	s := start(t)
	p := testkit.NewProxy(t, s.Address)
	r, reported := s.fenced("servers/ams/a", true)
	r.Client = dial(t, p.Address)
	l := s.register(r) // and stopped: nothing renews it
	next, other := s.fenced("servers/ams/a", true)
	run(t, s.register(next).Run)
	p.Swallow()
	ctx, cancel := context.WithTimeout(context.Background(), 2*testkit.Timeout)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	time.Sleep(100 * time.Millisecond) // it has called
	healSlowly(p)
	for {
		select {
		case err := <-ended:
			wantTaken(t, err, "servers/ams/a")
			return
		case <-time.After(5 * time.Millisecond):
			if reported.ahead() && other.ahead() {
				t.Fatal("both have a deadline")
			}
		}
	}
}

// A node that finds another's registration in its place has no deadline any more.
func TestFenceEndsWithAnotherInPlace(t *testing.T) {
	s := start(t)
	r, reported := s.fenced("servers/ams/a", true)
	l := s.register(r)
	lease, err := s.client.Grant(s.ctx(), 60)
	if err == nil {
		_, err = s.client.Put(s.ctx(), prefix+"servers/ams/a", "{}", clientv3.WithLease(lease.ID))
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(s.ctx()) }()
	select {
	case err := <-ended:
		wantTaken(t, err, "servers/ams/a")
	case <-time.After(testkit.Timeout):
		t.Fatal("Run goes on")
	}
	if reported.ahead() {
		t.Error("it has a deadline beside another node")
	}
}
