package etcd_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/internal/testkit"
)

const (
	workerKey   = "workers/gpu-7"
	endpointKey = "endpoints/ams/gpu-7"
)

func (s *store) has(key, value string) func() bool {
	return func() bool {
		s.t.Helper()
		kv := s.get(key)
		return kv != nil && string(kv.Value) == value
	}
}

// An attached document stands under the lease of the registration, is updated in place, and goes with it.
func TestAttachedIsKept(t *testing.T) {
	s := start(t)
	l := s.register(s.registration(workerKey))
	if err := l.Attach(s.ctx(), endpointKey, []byte("concurrency: 4")); err != nil || !l.Stored() {
		t.Fatalf("%v, stored %v", err, l.Stored())
	}
	lease, first := s.get(workerKey).Lease, s.get(endpointKey)
	if first == nil || first.Lease != lease || string(first.Value) != "concurrency: 4" {
		t.Fatalf("attached %+v, want it under the lease %x", first, lease)
	}
	stop := run(t, l.Run)
	s.awaitRenewals(lease, 3)
	if kv := s.get(endpointKey); kv == nil || kv.ModRevision != first.ModRevision {
		t.Errorf("after three renewals: %+v", kv)
	}
	if err := l.Attach(s.ctx(), endpointKey, []byte("concurrency: 0")); err != nil || !l.Stored() {
		t.Error(err)
	}
	if kv := s.get(endpointKey); kv == nil || string(kv.Value) != "concurrency: 0" || kv.CreateRevision != first.CreateRevision || kv.Lease != lease {
		t.Errorf("updated %+v", kv)
	}
	if err := l.Update(s.ctx(), []byte("state: draining")); err != nil || !l.Stored() {
		t.Error(err)
	}
	stop()
	if s.get(workerKey) != nil || s.get(endpointKey) != nil {
		t.Error("after the end, there are documents")
	}
}

// A document that is attached before the process is registered is put with the registration.
func TestAttachedBeforeRegistration(t *testing.T) {
	s := start(t)
	l := etcd.NewLease(s.registration(workerKey))
	if err := l.Attach(s.ctx(), endpointKey, []byte("early")); err == nil || l.Stored() {
		t.Errorf("attached without a registration: %v", err)
	}
	run(t, l.Run)
	testkit.WaitFor(t, "both documents", func() bool { return l.Stored() && s.has(endpointKey, "early")() })
}

// Both documents are restored after a lost lease, under one other lease; the attached one also when it was deleted or overwritten.
func TestAttachedIsRestored(t *testing.T) {
	s := start(t)
	l := s.register(s.registration(workerKey))
	if err := l.Attach(s.ctx(), endpointKey, []byte("mine")); err != nil {
		t.Fatal(err)
	}
	run(t, l.Run)
	first := s.get(endpointKey).Lease
	s.revoke(first)
	testkit.WaitFor(t, "another lease", func() bool {
		kv := s.get(endpointKey)
		return kv != nil && kv.Lease != first && l.Stored()
	})
	second := s.get(workerKey)
	if kv := s.get(endpointKey); kv.Lease != second.Lease {
		t.Errorf("leases %x and %x, want one", kv.Lease, second.Lease)
	}
	s.remove(endpointKey)
	testkit.WaitFor(t, "the attached document again", s.has(endpointKey, "mine"))
	s.put(endpointKey, "by hand")
	testkit.WaitFor(t, "the attached document over the other", s.has(endpointKey, "mine"))
	if kv := s.get(endpointKey); kv.Lease != second.Lease {
		t.Errorf("it is under the lease %x, want %x", kv.Lease, second.Lease)
	}
	if kv := s.get(workerKey); kv.ModRevision != second.ModRevision {
		t.Error("the registration was put again, too")
	}
	leases, err := s.client.Leases(s.ctx())
	if err != nil || len(leases.Leases) != 1 {
		t.Errorf("leases %+v, %v", leases, err)
	}
}

// The place of an attached document that another living process has is an error, which ends the registration; so is one that was put by hand.
func TestAttachedIsTaken(t *testing.T) {
	s := start(t)
	other := s.register(s.registration("workers/other"))
	if err := other.Attach(s.ctx(), endpointKey, []byte(`{"boot":"b2"}`)); err != nil {
		t.Fatal(err)
	}
	run(t, other.Run)
	s.put("endpoints/ams/by-hand", "{}")
	for i, key := range []string{endpointKey, "endpoints/ams/by-hand"} {
		l := s.register(s.registration([]string{"workers/a", "workers/b"}[i]))
		_ = l.Attach(s.ctx(), key, []byte("mine"))
		ended := make(chan error, 1)
		go func() { ended <- l.Run(s.ctx()) }()
		select {
		case err := <-ended:
			wantTaken(t, err, key)
		case <-time.After(testkit.Timeout):
			t.Fatal("Run goes on")
		}
		if s.get([]string{"workers/a", "workers/b"}[i]) != nil {
			t.Error("the registration stays")
		}
	}
	if !s.has(endpointKey, `{"boot":"b2"}`)() || !s.has("endpoints/ams/by-hand", "{}")() {
		t.Error("the place was taken")
	}
}

// The place of an attached document becomes free when the lease of a killed process expires. The registration is renewed meanwhile.
func TestAttachedAfterKill(t *testing.T) {
	s := start(t)
	killed := s.register(s.registration("workers/killed"))
	if err := killed.Attach(s.ctx(), endpointKey, []byte("old")); err != nil {
		t.Fatal(err)
	}
	l := s.register(s.registration(workerKey))
	if err := l.Attach(s.ctx(), endpointKey, []byte("new")); err != nil || l.Stored() {
		t.Errorf("while another may live: %v, stored %v", err, l.Stored())
	}
	lease := s.get(workerKey).Lease
	run(t, l.Run)
	testkit.WaitFor(t, "the place to be free", s.has(endpointKey, "new"))
	if kv := s.get(workerKey); kv.Lease != lease {
		t.Error("the registration was lost meanwhile")
	}
	testkit.WaitFor(t, "both to be stored", l.Stored)
}

// While etcd does not answer, a change is taken, and put when it does.
func TestAttachedWhileStoreIsAway(t *testing.T) {
	s := start(t)
	p := testkit.NewProxy(t, s.Address)
	r := s.registration(workerKey)
	r.Client = dial(t, p.Address)
	l := s.register(r)
	if err := l.Attach(s.ctx(), endpointKey, []byte("before")); err != nil {
		t.Fatal(err)
	}
	run(t, l.Run)
	p.Swallow()
	ctx, cancel := context.WithTimeout(s.ctx(), time.Second)
	defer cancel()
	if err := l.Attach(ctx, endpointKey, []byte("after")); err == nil || l.Stored() {
		t.Errorf("stored without etcd: %v", err)
	}
	p.Heal()
	testkit.WaitFor(t, "the change", func() bool { return l.Stored() && s.has(endpointKey, "after")() })
}

// A process that turns to another node, which registers it on its behalf, has its place at once. The node before does not take it back.
func TestSameProcessAtAnotherNode(t *testing.T) {
	s := start(t)
	r := s.registration(workerKey)
	r.TTL, r.Same = 20*time.Second, func(value []byte) bool { return string(value) == string(r.Value) }
	first := s.register(r)
	if err := first.Attach(s.ctx(), endpointKey, []byte("first")); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- first.Run(s.ctx()) }()
	second := s.quickly(r)
	if err := second.Attach(s.ctx(), endpointKey, []byte("second")); err != nil || !second.Stored() {
		t.Errorf("%v, stored %v", err, second.Stored())
	}
	run(t, second.Run)
	if err := first.Update(s.ctx(), []byte("late")); err == nil {
		t.Error("the node before writes the document")
	}
	lease := s.get(workerKey).Lease
	select {
	case err := <-ended: // after a fifth of the TTL at most
		wantTaken(t, err, workerKey)
	case <-time.After(testkit.Timeout):
		t.Fatal("the node before goes on")
	}
	if kv := s.get(workerKey); kv == nil || kv.Lease != lease || !s.has(endpointKey, "second")() {
		t.Errorf("the place of the second: %+v", kv)
	}
}

// A registration that is abandoned is left to its lease.
func TestAbandonedRegistration(t *testing.T) {
	s := start(t)
	l := s.register(s.registration(workerKey))
	ctx, abandon := context.WithCancelCause(s.ctx())
	abandon(fmt.Errorf("gone: %w", etcd.ErrAbandon))
	if err := l.Run(ctx); err != nil {
		t.Error(err)
	}
	if s.get(workerKey) == nil {
		t.Error("it was removed")
	}
	testkit.WaitFor(t, "it to expire", func() bool { return s.get(workerKey) == nil })
}
