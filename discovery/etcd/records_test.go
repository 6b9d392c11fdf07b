package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/homes"
	"colonnade/internal/testkit"
)

const (
	u1 = "http://10.0.0.7:8000"
	u2 = "http://10.0.0.8:8000"
)

// coloServer is one process of the colo ams with its record, as a test sees it.
type coloServer struct {
	*etcd.Records
	s        *store
	self     homes.Process
	r        etcd.Registration
	deadline deadline

	mu         sync.Mutex // guards the fields below
	held       map[string]int
	changes    []homes.Change
	registered []int64
	early      bool // there was a deadline when OnRegistered was called
}

// server returns a process that is not registered yet and follows nothing.
func (s *store) server(node string, client *clientv3.Client) *coloServer {
	return s.serverWith(node, etcd.RecordsConfig{Client: client, WatchTimeout: testkit.Timeout})
}

func (s *store) serverWith(node string, config etcd.RecordsConfig) *coloServer {
	const boot = "b1"
	c := &coloServer{s: s, self: homes.Process{Node: node, Boot: boot}, held: map[string]int{}}
	config.Prefix, config.Colo, config.Self = prefix, "ams", c.self
	config.Address = func() string { return "10.0.0.1:8443" }
	config.Held, config.Observe, config.OnRegistered = c.heldNow, c.observe, c.onRegistered
	c.Records = etcd.NewRecords(config)
	c.r = s.registration("servers/ams/" + node)
	c.r.Client, c.r.Records = config.Client, c.Records
	c.r.Value = fmt.Appendf(nil, `{"address":"10.0.0.1:8443","boot":%q}`, boot)
	c.r.Fence = etcd.Fence{SetDeadline: c.deadline.set}
	return c
}

// joined returns a process that is registered and follows the records.
func (s *store) joined(node string, client *clientv3.Client) (c *coloServer, leave func()) {
	s.t.Helper()
	return s.joinedWith(node, etcd.RecordsConfig{Client: client, WatchTimeout: testkit.Timeout})
}

func (s *store) joinedWith(node string, config etcd.RecordsConfig) (c *coloServer, leave func()) {
	s.t.Helper()
	c = s.serverWith(node, config)
	leave = run(s.t, s.register(c.r).Run)
	run(s.t, c.Run)
	return c, leave
}

func (c *coloServer) heldNow() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.held)
}

func (c *coloServer) hold(url string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[url] = n
}

func (c *coloServer) observe(change homes.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes = append(c.changes, change)
}

func (c *coloServer) onRegistered(revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.registered = append(c.registered, revision)
	c.early = c.early || c.deadline.ahead()
}

// registrations returns how often the process was registered, and the last revision.
func (c *coloServer) registrations() (n int, last int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n = len(c.registered); n > 0 {
		last = c.registered[n-1]
	}
	return n, last
}

// put puts the record of a registered process.
func (c *coloServer) put(owns, held map[string]int) int64 {
	c.s.t.Helper()
	_, registered := c.registrations()
	revision, err := c.Put(c.s.ctx(), registered, owns, held)
	if err != nil {
		c.s.t.Fatal(err)
	}
	return revision
}

// view returns the records that the process has seen, and the revision of the last change.
func (c *coloServer) view() (records map[homes.Process]homes.Record, revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return viewOf(c.changes)
}

func viewOf(changes []homes.Change) (records map[homes.Process]homes.Record, revision int64) {
	records = map[homes.Process]homes.Record{}
	for _, change := range changes {
		if change.Listed {
			clear(records)
		}
		for _, r := range change.Put {
			records[r.Process] = r
		}
		for _, p := range change.Deleted {
			delete(records, p)
		}
		revision = change.Revision
	}
	return records, revision
}

// sees waits until the record of a process has these engines and requests in the view; nil owns = there is no record.
func (c *coloServer) sees(p homes.Process, owns, held map[string]int) {
	c.s.t.Helper()
	testkit.WaitFor(c.s.t, fmt.Sprintf("%s to see that %s owns %v, holds %v", c.self, p, owns, held), func() bool {
		records, _ := c.view()
		r, there := records[p]
		return there == (owns != nil) && maps.Equal(r.Owns, owns) && maps.Equal(r.Held, held)
	})
}

// stored returns the record of a process as it stands in the store.
func (s *store) stored(p homes.Process) (r homes.Record, there bool) {
	s.t.Helper()
	owns, held := s.get("owners/ams/"+p.String()), s.get("owners/ams/"+p.String()+"/held")
	if owns == nil || held == nil {
		return homes.Record{}, owns != nil || held != nil
	}
	r = homes.ParseRecord(p, owns.Value, held.Value)
	r.Revision = max(owns.ModRevision, held.ModRevision)
	return r, true
}

func (s *store) wantStored(p homes.Process, owns, held map[string]int) homes.Record {
	s.t.Helper()
	r, there := s.stored(p)
	if !there || r.Problem != "" || !maps.Equal(r.Owns, owns) || !maps.Equal(r.Held, held) {
		s.t.Errorf("the record of %s is %+v, want one that owns %v and holds %v", p, r, owns, held)
	}
	return r
}

// Registering puts a record that owns nothing and holds what is in flight, and reports it before there is a deadline. So does
// registering again, over the record of before.
func TestRegistrationPutsRecord(t *testing.T) {
	s := start(t)
	c := s.server("a", s.client)
	c.hold(u2, 3)
	l := s.register(c.r)
	first := s.wantStored(c.self, nil, map[string]int{u2: 3})
	n, registered := c.registrations()
	if n != 1 || registered != first.Revision || s.get("servers/ams/a").ModRevision != first.Revision {
		t.Errorf("registered %d times, at revision %d; the record has %d", n, registered, first.Revision)
	}
	run(t, l.Run)
	if again := c.put(map[string]int{u1: 8}, nil); again <= first.Revision {
		t.Errorf("put at revision %d after %d", again, first.Revision)
	}
	s.wantStored(c.self, map[string]int{u1: 8}, nil)
	if l.ConfirmedAt().IsZero() {
		t.Error("never confirmed")
	}

	again := func(how string, lose func()) {
		t.Helper()
		before, _ := c.registrations()
		c.put(map[string]int{u1: 8}, nil)
		c.hold(u1, before)
		lose()
		_ = l.Update(s.ctx(), c.r.Value) // it fails, or notices sooner than the next renewal
		testkit.WaitFor(t, "another registration: "+how, func() bool { n, _ := c.registrations(); return n > before && c.deadline.ahead() })
		s.wantStored(c.self, nil, map[string]int{u1: before, u2: 3})
	}
	again("the lease was lost", func() { s.revoke(s.get("servers/ams/a").Lease) })
	again("the key was deleted", func() { s.remove("servers/ams/a") })
	again("the record was deleted", func() { s.remove("owners/ams/a/b1") })
	again("what it holds was deleted", func() { s.remove("owners/ams/a/b1/held") })
	again("the record was changed", func() { s.put("owners/ams/a/b1", "{}") })
	again("it was forgotten", c.Forget)
	if c.early {
		t.Error("there was a deadline before OnRegistered returned")
	}
	leases, err := s.client.Leases(s.ctx())
	if err != nil || len(leases.Leases) != 1 {
		t.Errorf("leases %+v, %v", leases, err)
	}
}

// At the end the record goes with the registration, unless requests are still held: then it owns nothing.
func TestRecordAtTheEnd(t *testing.T) {
	s := start(t)
	a, leave := s.joined("a", s.client)
	a.put(map[string]int{u1: 0}, nil)
	leave()
	if r, there := s.stored(a.self); there || s.get("servers/ams/a") != nil {
		t.Errorf("left %+v", r)
	}

	b, leave := s.joined("b", s.client)
	b.put(map[string]int{u1: 0}, nil)
	b.hold(u1, 2)
	leave()
	s.wantStored(b.self, nil, map[string]int{u1: 2})
	if s.get("servers/ams/b") != nil {
		t.Error("it is still registered")
	}
	if _, err := b.Put(s.ctx(), 1, nil, nil); !errors.Is(err, etcd.ErrNotRegistered) {
		t.Errorf("Put after the end: %v", err)
	}
}

// lossyKV loses the answer to the next transaction that puts something.
type lossyKV struct {
	clientv3.KV
	loses atomic.Bool
}

// Txn returns a transaction whose answer may be lost.
func (l *lossyKV) Txn(ctx context.Context) clientv3.Txn { return &lossyTxn{l.KV.Txn(ctx), l} }

type lossyTxn struct {
	clientv3.Txn
	kv *lossyKV
}

func (t *lossyTxn) If(c ...clientv3.Cmp) clientv3.Txn  { t.Txn = t.Txn.If(c...); return t }
func (t *lossyTxn) Then(o ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Then(o...); return t }
func (t *lossyTxn) Else(o ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(o...); return t }
func (t *lossyTxn) Commit() (*clientv3.TxnResponse, error) {
	answer, err := t.Txn.Commit()
	if err == nil && answer.Succeeded && len(answer.Responses) > 0 && answer.Responses[0].GetResponsePut() != nil && t.kv.loses.CompareAndSwap(true, false) {
		return nil, context.DeadlineExceeded
	}
	return answer, err
}

// A registration whose answer was lost is made again. The store does not count as restored: nothing new would be owned for a while.
func TestLostAnswerToRegistration(t *testing.T) {
	s := start(t)
	client := dial(t, s.Address)
	kv := &lossyKV{KV: client.KV}
	client.KV = kv
	var restored atomic.Int64
	c, _ := s.joinedWith("a", etcd.RecordsConfig{Client: client, WatchTimeout: testkit.Timeout, OnRestored: func() { restored.Add(1) }})
	c.put(map[string]int{u1: 1}, nil)
	kv.loses.Store(true)
	s.remove("servers/ams/a")
	testkit.WaitFor(t, "another registration", func() bool { n, _ := c.registrations(); return n == 2 })
	testkit.WaitFor(t, "a deadline", c.deadline.ahead)
	c.put(map[string]int{u1: 1}, nil)
	c.sees(c.self, map[string]int{u1: 1}, map[string]int{})
	if kv.loses.Load() || restored.Load() != 0 {
		t.Errorf("the answer is lost: %t; restored %d times", !kv.loses.Load(), restored.Load())
	}
}

// A document that is replaced after its key was deleted registers the process again, and the fence is confirmed at once.
func TestUpdateThatRegistersConfirms(t *testing.T) {
	s := start(t)
	c := s.server("a", s.client)
	c.r.TTL = time.Hour
	l := s.register(c.r)
	run(t, l.Run)
	run(t, c.Run)
	confirmed := l.ConfirmedAt()
	testkit.WaitFor(t, "the first renewal", func() bool { return l.ConfirmedAt().After(confirmed) })
	s.remove("servers/ams/a")
	if err := l.Update(s.ctx(), []byte(`{"address":"10.0.0.2:8443","boot":"b1"}`)); err != nil {
		t.Fatal(err)
	}
	if n, _ := c.registrations(); n != 2 {
		t.Errorf("registered %d times", n)
	}
	testkit.WaitFor(t, "a deadline", c.deadline.ahead)
}

// A process that registers again lists the records again: what followed them may have failed too.
func TestRegistrationListsRecords(t *testing.T) {
	s := start(t)
	c, _ := s.joined("a", s.client)
	lists := func(since int64) (n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, change := range c.changes {
			if change.Listed && change.Revision >= since {
				n++
			}
		}
		return n
	}
	testkit.WaitFor(t, "the first list", func() bool { return lists(0) > 0 })
	s.revoke(s.get("servers/ams/a").Lease)
	testkit.WaitFor(t, "another registration", func() bool { n, _ := c.registrations(); return n == 2 })
	_, registered := c.registrations()
	testkit.WaitFor(t, "another list", func() bool { return lists(registered) > 0 })
}
