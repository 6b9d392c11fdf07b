package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/internal/testkit"
)

// ttl is so long that a slow machine does not let leases expire. A call may take a third of it.
const ttl = 6 * time.Second

func (s *store) registration(key string) etcd.Registration {
	return etcd.Registration{
		Client: s.client, Prefix: prefix, Key: key, TTL: ttl,
		Value: []byte(`{"address":"10.0.0.1:8443","boot":"b1"}`),
	}
}

func (s *store) register(r etcd.Registration) *etcd.Lease {
	s.t.Helper()
	l, err := s.tryRegister(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// tryRegister retries while etcd is slow, as a node does.
func (s *store) tryRegister(r etcd.Registration) (*etcd.Lease, error) {
	for ctx := s.ctx(); ; {
		l, err := etcd.Register(ctx, r)
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return l, err
		}
	}
}

// get returns the value of a key, or nil.
func (s *store) get(key string) *mvccpb.KeyValue {
	s.t.Helper()
	answer, err := s.client.Get(s.ctx(), prefix+key)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(answer.Kvs) == 0 {
		return nil
	}
	return answer.Kvs[0]
}

func (s *store) revoke(id int64) {
	s.t.Helper()
	if _, err := s.client.Revoke(s.ctx(), clientv3.LeaseID(id)); err != nil {
		s.t.Fatal(err)
	}
}

// A registration is renewed for as long as Run runs, is updated in place, and is removed with its lease at the end.
func TestRegistrationIsKept(t *testing.T) {
	s := start(t)
	r := s.registration("servers/ams/a")
	l := s.register(r)
	first := s.get("servers/ams/a")
	if first == nil || string(first.Value) != `{"address":"10.0.0.1:8443","boot":"b1"}` || first.Lease == 0 {
		t.Fatalf("registered %+v", first)
	}
	stop := run(t, l.Run)
	s.awaitRenewals(first.Lease, 5)
	if kv := s.get("servers/ams/a"); kv == nil || kv.CreateRevision != first.CreateRevision || kv.ModRevision != first.ModRevision {
		t.Errorf("after five renewals: %+v", kv)
	}
	if err := l.Update(s.ctx(), []byte("state: draining")); err != nil {
		t.Error(err)
	}
	if kv := s.get("servers/ams/a"); kv == nil || string(kv.Value) != "state: draining" || kv.Lease != first.Lease {
		t.Errorf("updated %+v", kv)
	}
	stop()
	if kv := s.get("servers/ams/a"); kv != nil {
		t.Errorf("after the end: %+v", kv)
	}
	leases, err := s.client.Leases(s.ctx())
	if err != nil || len(leases.Leases) != 0 {
		t.Errorf("leases %+v, %v", leases, err)
	}
}

// awaitRenewals waits until a lease was renewed so many times: five times in each TTL.
func (s *store) awaitRenewals(lease int64, times int) {
	s.t.Helper()
	left, seen := int64(0), time.Now()
	testkit.WaitFor(s.t, "renewals", func() bool {
		asked := time.Now()
		answer, err := s.client.TimeToLive(s.ctx(), clientv3.LeaseID(lease))
		if err != nil || answer.TTL <= 0 {
			s.t.Fatalf("the lease: %+v, %v", answer, err)
		}
		if float64(answer.TTL) > float64(left+1)-asked.Sub(seen).Seconds() { // what is left is rounded down
			times--
			left, seen = answer.TTL, time.Now()
		}
		return times < 0
	})
}

// A registration that is not renewed expires.
func TestRegistrationExpires(t *testing.T) {
	s := start(t)
	s.register(s.registration("entries/a"))
	testkit.WaitFor(t, "the key to expire", func() bool { return s.get("entries/a") == nil })
}

// A lost lease, a deleted key and an overwritten key are restored.
func TestRegistrationIsRestored(t *testing.T) {
	s := start(t)
	l := s.register(s.registration("servers/ams/a"))
	first := s.get("servers/ams/a")
	run(t, l.Run)
	same := func(kv *mvccpb.KeyValue) bool { return kv != nil && string(kv.Value) == string(first.Value) }

	s.revoke(first.Lease)
	testkit.WaitFor(t, "a registration with another lease", func() bool {
		kv := s.get("servers/ams/a")
		return same(kv) && kv.Lease != first.Lease
	})
	second := s.get("servers/ams/a")

	s.remove("servers/ams/a")
	testkit.WaitFor(t, "the key to be put again", func() bool { return same(s.get("servers/ams/a")) })

	s.put("servers/ams/a", "by hand")
	testkit.WaitFor(t, "the key to be overwritten", func() bool { return same(s.get("servers/ams/a")) })
	if kv := s.get("servers/ams/a"); kv.Lease != second.Lease {
		t.Errorf("lease %x, want %x", kv.Lease, second.Lease)
	}
	leases, err := s.client.Leases(s.ctx())
	if err != nil || len(leases.Leases) != 1 {
		t.Errorf("leases %+v, %v", leases, err)
	}
}

// overwriter calls before each time that a transaction is given what to do if its conditions hold.
type overwriter struct {
	clientv3.KV
	before func()
}

// Txn returns a transaction that calls before.
func (o overwriter) Txn(ctx context.Context) clientv3.Txn {
	return overwriterTxn{o.KV.Txn(ctx), o.before}
}

type overwriterTxn struct {
	clientv3.Txn
	before func()
}

func (t overwriterTxn) If(c ...clientv3.Cmp) clientv3.Txn {
	return overwriterTxn{t.Txn.If(c...), t.before}
}
func (t overwriterTxn) Then(o ...clientv3.Op) clientv3.Txn {
	t.before()
	return t.Txn.Then(o...)
}

// A key that changes again while its registration is restored is restored all the same.
func TestRegistrationIsRestoredWhileKeyChanges(t *testing.T) {
	s := start(t)
	r := s.registration("servers/ams/a")
	r.Client = dial(t, s.Address)
	l := s.register(r)
	s.put(r.Key, "by hand")
	changes := 0
	r.Client.KV = overwriter{r.Client.KV, func() {
		if changes++; changes == 1 {
			s.put(r.Key, "by hand again")
		}
	}}
	if err := l.Update(s.ctx(), r.Value); err != nil {
		t.Fatal(err)
	}
	if kv := s.get(r.Key); kv == nil || string(kv.Value) != string(r.Value) || kv.Lease == 0 || changes < 2 {
		t.Errorf("after %d changes: %+v", changes, kv)
	}
}

func wantTaken(t *testing.T, err error, holder string, texts ...string) {
	t.Helper()
	var taken *etcd.TakenError
	if !errors.As(err, &taken) || taken.Holder != holder {
		t.Fatalf("got %v, want a TakenError by %s", err, holder)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not say %q", err, text)
		}
	}
}

// Several servers of a colo are registered.
func TestSeveralServers(t *testing.T) {
	s := start(t)
	for _, key := range []string{"servers/ams/a", "servers/ams/b", "servers/ams-2/a"} {
		run(t, s.register(s.registration(key)).Run)
	}
	for _, key := range []string{"servers/ams/a", "servers/ams/b", "servers/ams-2/a"} {
		if s.get(key) == nil {
			t.Errorf("%s is not registered", key)
		}
	}
}

// A name is refused while a node of that name lives.
func TestSameName(t *testing.T) {
	s := start(t)
	run(t, s.register(s.registration("entries/a")).Run)
	_, err := s.tryRegister(s.registration("entries/a"))
	wantTaken(t, err, "entries/a", "another running node has this name", "-node")
	s.register(s.registration("entries/b"))
}

// Renewals prove that the other node lives, sooner than the end of its lease could.
func TestRenewalsProveLife(t *testing.T) {
	s := start(t)
	r := s.registration("entries/a")
	run(t, s.register(r).Run)
	for attempt := 1; ; attempt++ { // a busy machine may take longer
		began := time.Now()
		_, err := s.tryRegister(r)
		wantTaken(t, err, "entries/a")
		if took := time.Since(began); took <= ttl*3/2 {
			return
		} else if attempt == 3 {
			t.Fatalf("took %v, as if no renewal had been noticed", took)
		}
	}
}

// When the lease of a server that was killed has expired, a server of its name gets its place.
func TestRegisterAfterKill(t *testing.T) {
	s := start(t)
	r := s.registration("servers/ams/a")
	s.register(r) // and never renewed
	killed := s.get("servers/ams/a")
	r.Value = []byte(`{"address":"10.0.0.1:8443","boot":"b2"}`)
	s.register(r)
	if kv := s.get("servers/ams/a"); kv == nil || string(kv.Value) != string(r.Value) || kv.Lease == killed.Lease {
		t.Errorf("registered %+v", kv)
	}
}

// Of two nodes that wait for the same dead one, one gets its place, and the other an error that names the first.
func TestTwoSuccessors(t *testing.T) {
	s := start(t)
	r := s.registration("servers/ams/a")
	s.register(r)
	errs := make(chan error)
	for _, boot := range []string{"b2", "b3"} {
		successor := r
		successor.Value = fmt.Appendf(nil, `{"address":"10.0.0.1:8443","boot":%q}`, boot)
		go func() {
			_, err := s.tryRegister(successor)
			errs <- err
		}()
	}
	one, two := <-errs, <-errs
	if (one == nil) == (two == nil) {
		t.Fatalf("%v and %v", one, two)
	}
	winner := "b2"
	if strings.Contains(string(s.get("servers/ams/a").Value), "b3") {
		winner = "b3"
	}
	wantTaken(t, errors.Join(one, two), "servers/ams/a", `boot "`+winner+`"`)
}

// A key that an operator put has no lease and never expires; the error says how to delete it.
func TestKeyWithoutLease(t *testing.T) {
	s := start(t)
	s.put("servers/ams/a", "{}")
	_, err := s.tryRegister(s.registration("servers/ams/a"))
	wantTaken(t, err, "servers/ams/a", "etcdctl del /test/v1/servers/ams/a")
}

// Run ends when another node has taken the place while it could not renew.
func TestPlaceLost(t *testing.T) {
	s := start(t)
	p := testkit.NewProxy(t, s.Address)
	r := s.registration("servers/ams/a")
	r.Client = dial(t, p.Address)
	l := s.register(r)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(s.ctx()) }()
	p.Swallow()
	other := s.registration("servers/ams/a")
	other.Value = []byte(`{"address":"10.0.0.2:8443","boot":"b2"}`)
	run(t, s.register(other).Run)
	p.Heal()
	select {
	case err := <-ended:
		wantTaken(t, err, "servers/ams/a", `boot "b2"`)
	case <-time.After(testkit.Timeout):
		t.Fatal("Run goes on")
	}
	if kv := s.get("servers/ams/a"); kv == nil || string(kv.Value) != string(other.Value) {
		t.Errorf("registered %+v", kv)
	}
}

// A server that was stopped so long that another one has its place notices that at once: it would go on granting.
func TestPlaceLostIsNoticedAtOnce(t *testing.T) {
	s := start(t)
	r := s.registration("servers/ams/a")
	l := s.register(r)
	s.revoke(s.get("servers/ams/a").Lease)
	other := r
	other.TTL = time.Minute // so its renewals would take long
	s.register(other)
	wantTaken(t, l.Run(s.ctx()), "servers/ams/a")
}

// A registration from before ours that is back since the store was restored is waited for.
func TestOldRegistrationIsBack(t *testing.T) {
	s := start(t)
	l := s.register(s.registration("servers/ams/a"))
	ours := s.get("servers/ams/a")
	lease, err := s.client.Grant(s.ctx(), 5)
	if err == nil {
		_, err = s.client.Put(s.ctx(), prefix+"servers/ams/a", "{}", clientv3.WithLease(lease.ID))
	}
	if err != nil {
		t.Fatal(err)
	}
	s.revoke(ours.Lease)
	run(t, l.Run)
	testkit.WaitFor(t, "another registration", func() bool {
		kv := s.get("servers/ams/a")
		return kv != nil && string(kv.Value) == string(ours.Value) && kv.Lease != ours.Lease
	})
}

// Over a connection that swallows everything, nothing hangs: neither registering, nor updating, nor leaving.
func TestLeaseBehindBlackHole(t *testing.T) {
	s := start(t)
	p := testkit.NewProxy(t, s.Address)
	r := s.registration("entries/a")
	r.Client = dial(t, p.Address)
	var log logbook
	r.Logger = log.logger()
	l := s.register(r)
	stop := run(t, l.Run)
	p.Swallow()
	testkit.WaitFor(t, "the failure to be logged", func() bool { return log.count("cannot renew the registration") == 1 })
	if err := l.Update(s.ctx(), []byte("new")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Update: %v", err)
	}
	if _, err := etcd.Register(s.ctx(), r); err == nil || errors.As(err, new(*etcd.TakenError)) {
		t.Errorf("Register: %v", err)
	}
	p.Heal()
	testkit.WaitFor(t, "the update", func() bool { kv := s.get("entries/a"); return kv != nil && string(kv.Value) == "new" })
	p.Swallow()
	stop()
}

// A node that starts while etcd is away registers later.
func TestRegisterAfterOutage(t *testing.T) {
	s := start(t)
	s.Stop()
	r := s.registration("entries/a")
	r.Client = dial(t, s.Address)
	l := etcd.NewLease(r)
	run(t, l.Run)
	if err := l.Update(s.ctx(), []byte("new")); err == nil {
		t.Error("an update without etcd succeeds")
	}
	s.Restart(t)
	testkit.WaitFor(t, "the registration", func() bool { kv := s.get("entries/a"); return kv != nil && string(kv.Value) == "new" })
}

// A document that etcd does not take when it is updated counts as stored as soon as Run has put it, and no longer once the lease is given up.
func TestUpdateIsStoredLater(t *testing.T) {
	s := start(t)
	l := etcd.NewLease(s.registration("entries/edge-1"))
	if err := l.Update(s.ctx(), []byte(`{"state":"draining"}`)); err == nil || l.Stored() {
		t.Errorf("before it is registered: %v, stored: %v", err, l.Stored())
	}
	stop := run(t, l.Run)
	testkit.WaitFor(t, "the document to be stored", l.Stored)
	if got := s.get("entries/edge-1"); got == nil || string(got.Value) != `{"state":"draining"}` {
		t.Errorf("stored: %v", got)
	}
	if err := l.Update(s.ctx(), []byte(`{"state":"active"}`)); err != nil || !l.Stored() {
		t.Errorf("an update: %v, stored: %v", err, l.Stored())
	}
	stop()
	if l.Stored() {
		t.Error("stored after the end of the registration")
	}
}
