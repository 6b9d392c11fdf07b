package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/homes"
	"colonnade/internal/testkit"
)

// lateKV answers transactions with a timeout while it is late, and commits them when they are released.
type lateKV struct {
	clientv3.KV
	mu      sync.Mutex // guards the fields below
	late    bool
	pending []func() (*clientv3.TxnResponse, error)
}

// Txn returns a transaction that may be late.
func (l *lateKV) Txn(ctx context.Context) clientv3.Txn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.late {
		return l.KV.Txn(ctx)
	}
	return &lateTxn{l.KV.Txn(context.WithoutCancel(ctx)), l}
}

type lateTxn struct {
	clientv3.Txn
	kv *lateKV
}

func (t *lateTxn) If(c ...clientv3.Cmp) clientv3.Txn  { t.Txn = t.Txn.If(c...); return t }
func (t *lateTxn) Then(o ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Then(o...); return t }
func (t *lateTxn) Else(o ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(o...); return t }
func (t *lateTxn) Commit() (*clientv3.TxnResponse, error) {
	t.kv.mu.Lock()
	defer t.kv.mu.Unlock()
	t.kv.pending = append(t.kv.pending, t.Txn.Commit)
	return nil, context.DeadlineExceeded
}

func (l *lateKV) setLate(late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = late
}

// release commits the late transactions, and returns how many took place.
func (l *lateKV) release(t *testing.T) (done int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, commit := range l.pending {
		answer, err := commit()
		if err != nil {
			t.Fatal(err)
		}
		if answer.Succeeded {
			done++
		}
	}
	l.pending = nil
	return done
}

// A put that was not answered and takes place later never undoes a later one; if it takes place first, the later one follows.
func TestLatePutNeverUndoesLaterOne(t *testing.T) {
	s := start(t)
	client := dial(t, s.Address)
	kv := &lateKV{KV: client.KV}
	client.KV = kv
	c := s.server("a", client)
	s.register(c.r) // and no renewals, which would be late too
	run(t, c.Run)
	fails := func(owns map[string]int) {
		t.Helper()
		kv.setLate(true)
		defer kv.setLate(false)
		_, registered := c.registrations()
		if _, err := c.Put(s.ctx(), registered, owns, nil); err == nil || errors.Is(err, etcd.ErrRecordLost) || errors.Is(err, etcd.ErrNotRegistered) {
			t.Fatalf("Put: %v", err)
		}
	}
	c.put(map[string]int{u1: 1}, nil)

	fails(map[string]int{u2: 2})
	c.put(map[string]int{u1: 1}, nil) // what is known to stand, but only another revision excludes the late one
	if done := kv.release(t); done != 0 {
		t.Error("a put took place after a later one that stands")
	}
	s.wantStored(c.self, map[string]int{u1: 1}, nil)

	fails(map[string]int{u2: 3})
	fails(map[string]int{u2: 4}) // which reads first, without an answer
	if done := kv.release(t); done != 2 {
		t.Errorf("%d of a put and a read took place", done)
	}
	c.put(map[string]int{u1: 5}, map[string]int{u2: 1})
	s.wantStored(c.self, map[string]int{u1: 5}, map[string]int{u2: 1})

	fails(map[string]int{u2: 6})
	s.revoke(s.get("servers/ams/a").Lease)
	if _, err := c.Put(s.ctx(), c.registered[0], map[string]int{u1: 5}, nil); !errors.Is(err, etcd.ErrNotRegistered) {
		t.Errorf("Put without a registration: %v", err)
	}
	if done := kv.release(t); done != 0 {
		t.Error("a put took place although the process is not registered")
	}
}

// A renewal between a late put and the next one finds the record in order.
func TestRenewalAcceptsUnansweredPut(t *testing.T) {
	s := start(t)
	client := dial(t, s.Address)
	kv := &lateKV{KV: client.KV}
	client.KV = kv
	c := s.server("a", client)
	l := s.register(c.r)
	kv.setLate(true)
	if _, err := c.Put(s.ctx(), c.registered[0], map[string]int{u1: 1}, nil); err == nil {
		t.Fatal("Put succeeds")
	}
	kv.setLate(false)
	kv.release(t)
	confirmed := l.ConfirmedAt()
	stop := run(t, l.Run)
	testkit.WaitFor(t, "a renewal", func() bool { return l.ConfirmedAt().After(confirmed) })
	if n, _ := c.registrations(); n != 1 {
		t.Errorf("registered %d times", n)
	}
	c.put(map[string]int{u1: 1}, map[string]int{u2: 1})
	s.wantStored(c.self, map[string]int{u1: 1}, map[string]int{u2: 1})
	stop()
}

// A put that was computed before a registration is refused, and one whose record was deleted by hand says so.
func TestPutIsRefused(t *testing.T) {
	s := start(t)
	c := s.server("a", s.client)
	if _, err := c.Put(s.ctx(), 0, nil, nil); !errors.Is(err, etcd.ErrNotRegistered) {
		t.Errorf("Put before the registration: %v", err)
	}
	s.register(c.r)
	_, registered := c.registrations()
	if _, err := c.Put(s.ctx(), registered-1, nil, nil); !errors.Is(err, etcd.ErrNotRegistered) {
		t.Errorf("Put of before the registration: %v", err)
	}
	s.remove("owners/ams/a/b1")
	for range 2 {
		if _, err := c.Put(s.ctx(), registered, map[string]int{u1: 1}, nil); !errors.Is(err, etcd.ErrRecordLost) {
			t.Errorf("Put over a record that was deleted: %v", err)
		}
	}
}

// A record that etcd might not take is refused, with an error that says so.
func TestTooLargeRecordIsRefused(t *testing.T) {
	s := start(t)
	c, _ := s.joined("a", s.client)
	owns := map[string]int{}
	for i := range 1000 {
		owns[fmt.Sprintf("http://engine-%d.example.com:8000/and/a/path", i)] = 16
	}
	c.put(owns, nil)
	if size := len(s.get("owners/ams/a/b1").Value); size > 64<<10 {
		t.Errorf("the record of 1000 engines has %d bytes", size)
	}
	owns["http://"+strings.Repeat("x", 1<<20)] = 1
	_, registered := c.registrations()
	if _, err := c.Put(s.ctx(), registered, owns, nil); err == nil || !strings.Contains(err.Error(), "more than 1048576") {
		t.Errorf("Put: %v", err)
	}
}

// A record is replaced only while its process is not registered, and only if it is unchanged.
func TestReplace(t *testing.T) {
	s := start(t)
	a, leaveA := s.joined("a", s.client)
	b, _ := s.joined("b", s.client)
	a.put(map[string]int{u1: 0}, map[string]int{u2: 1})
	b.sees(a.self, map[string]int{u1: 0}, map[string]int{u2: 1})
	seen := func() homes.Record {
		records, _ := b.view()
		return records[a.self]
	}
	replace := func(old homes.Record, next *homes.Record, want bool) {
		t.Helper()
		if done, err := b.Replace(s.ctx(), old, next); done != want || err != nil {
			t.Errorf("Replace = %v, %v; want %v", done, err, want)
		}
	}
	old := seen()
	replace(old, nil, false) // it is registered
	a.hold(u1, 2)
	leaveA()
	replace(old, nil, false) // it has changed
	b.sees(a.self, map[string]int{}, map[string]int{u1: 2})
	next := seen()
	next.Held = map[string]int{u1: 1}
	replace(seen(), &next, true)
	b.sees(a.self, map[string]int{}, map[string]int{u1: 1})
	s.put("servers/ams/a", "by hand")
	if done, err := b.Replace(s.ctx(), seen(), nil); done || err == nil {
		t.Errorf("Replace beside a registration that cannot be read = %v, %v", done, err)
	}
	s.put("servers/ams/a", "{address: 'h:1', boot: b1}")
	replace(seen(), nil, false)
	s.put("servers/ams/a", "{address: 'h:1', boot: b2}") // its successor
	replace(seen(), nil, true)
	b.sees(a.self, nil, nil)
	replace(old, &old, false) // there is none
	if _, there := s.stored(a.self); there {
		t.Error("the record is there again")
	}
}

// A process that registers between the look at its registration and the transaction keeps its record.
func TestReplaceLosesAgainstRegistration(t *testing.T) {
	s := start(t)
	a, leaveA := s.joined("a", s.client)
	a.hold(u1, 2)
	leaveA()
	client := dial(t, s.Address)
	b := s.server("b", client)
	calls := 0
	client.KV = overwriter{client.KV, func() {
		if calls++; calls == 2 {
			s.put("servers/ams/a", "{address: 'h:1', boot: b1}")
		}
	}}
	old, _ := s.stored(a.self)
	if done, err := b.Replace(s.ctx(), old, nil); done || err != nil || calls != 2 {
		t.Errorf("Replace = %v, %v, with %d calls", done, err, calls)
	}
	s.wantStored(a.self, nil, map[string]int{u1: 2})
}
