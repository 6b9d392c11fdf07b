package etcd_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

const server = "servers/ams/a"

// registered keeps a server registered over client until the end of the test.
func (s *store) registered(client *clientv3.Client) *etcd.Lease {
	s.t.Helper()
	r := s.registration(server)
	r.Client = client
	l := s.register(r)
	run(s.t, l.Run)
	return l
}

// wantRegisteredOnce waits until the server is registered, and its lease is the only one there is.
func (s *store) wantRegisteredOnce() {
	s.t.Helper()
	testkit.WaitFor(s.t, "one registration and one lease", func() bool {
		there, err := s.client.Get(s.ctx(), prefix+"servers/", clientv3.WithPrefix())
		if err != nil {
			return false
		}
		leases, err := s.client.Leases(s.ctx())
		return err == nil && len(there.Kvs) == 1 && len(leases.Leases) == 1 && there.Kvs[0].Lease == int64(leases.Leases[0].ID)
	})
}

// neverWithout checks until the end of the test that the table always has a server in ams.
func neverWithout(t *testing.T, w *etcd.Watcher) {
	t.Helper()
	testkit.WaitFor(t, "a server", func() bool { return len(w.Table().Servers("ams")) == 1 })
	end := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			changed := w.Changed()
			if n := len(w.Table().Servers("ams")); n != 1 {
				t.Errorf("%d servers in the table of revision %d", n, w.Table().Revision)
			}
			select {
			case <-changed:
			case <-end:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(end)
		<-ended
	})
}

// Changes, deletions and a compaction while all packets between the node and etcd vanish are seen afterwards.
func TestChangesBehindBlackHole(t *testing.T) {
	s, members := startProcesses(t, 1)
	p := testkit.NewProxy(t, members[0].Address)
	client := dial(t, p.Address)
	s.put("models/a", "retry: {errors: 1}")
	s.put("models/gone", "{}")
	s.registered(client)
	w, _ := watch(t, etcd.Config{Client: client, WatchTimeout: silence})
	ready(t, w)
	neverWithout(t, w)

	p.Swallow()
	s.remove("models/gone")
	last := s.put("models/a", "retry: {errors: 2}")
	if _, err := s.client.Compact(s.ctx(), last, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, "the age to rise", func() bool { return w.State().Age > 2*silence })
	testkit.WaitFor(t, "the lease to expire", func() bool { return s.get(server) == nil })
	p.Heal()
	becomes(t, w, "a", 2)
	becomes(t, w, "gone", -1)
	s.wantRegisteredOnce()
}

// A store whose process is stopped keeps its connections and answers nothing; the watch times out.
func TestStoppedStore(t *testing.T) {
	s, members := startProcesses(t, 1)
	s.put("models/a", "retry: {errors: 1}")
	s.registered(dial(t, members[0].Address))
	var log logbook
	w, _ := watch(t, etcd.Config{Client: dial(t, members[0].Address), WatchTimeout: silence, Logger: log.logger()})
	ready(t, w)
	neverWithout(t, w)

	timeouts, outages := log.count("no message within the watch timeout"), log.count("etcd does not answer") // not 0 on a slow machine
	members[0].Pause(t)
	testkit.WaitFor(t, "the watch to time out", func() bool { return log.count("no message within the watch timeout") == timeouts+1 })
	testkit.WaitFor(t, "the outage to be logged", func() bool { return log.count("etcd does not answer") == outages+1 })
	if retryErrors(w, "a") != 1 {
		t.Error("the last good table is not in force")
	}
	members[0].Resume(t)
	s.put("models/a", "retry: {errors: 2}")
	becomes(t, w, "a", 2)
	s.wantRegisteredOnce()
}

// Changes are seen, and the server stays registered, while the leader of a cluster of three is killed and comes back.
func TestLeaderIsKilled(t *testing.T) {
	s, members := startProcesses(t, 3)
	addresses := []string{members[0].Address, members[1].Address, members[2].Address}
	s.put("models/a", "retry: {errors: 1}")
	s.put("models/gone", "{}")
	s.registered(dial(t, addresses...))
	w, _ := watch(t, etcd.Config{Client: dial(t, addresses...), WatchTimeout: silence})
	ready(t, w)
	neverWithout(t, w)

	leader := members[slices.IndexFunc(members, func(m *etcdtest.Process) bool { return m.Leads(t) })]
	leader.Kill(t)
	testkit.WaitFor(t, "a new leader", func() bool {
		ctx, cancel := context.WithTimeout(s.ctx(), time.Second) // a dead leader never answers
		defer cancel()
		_, err := s.client.Put(ctx, prefix+"models/a", "retry: {errors: 2}")
		return err == nil
	})
	s.remove("models/gone")
	becomes(t, w, "a", 2)
	becomes(t, w, "gone", -1)
	s.wantRegisteredOnce()
	leader.Restart(t)
	s.put("models/a", "retry: {errors: 3}")
	becomes(t, w, "a", 3)
	s.wantRegisteredOnce()
}

// After the store was restored from an old copy, documents that were put later are gone, those that were deleted later are
// back, and the server is registered although the copy has only its old lease.
func TestStoreRestored(t *testing.T) {
	s, members := startProcesses(t, 1)
	member := members[0]
	s.put("models/a", "retry: {errors: 1}")
	s.put("models/deleted-later", "retry: {errors: 4}")
	s.registered(dial(t, member.Address))
	w, _ := watch(t, etcd.Config{Client: dial(t, member.Address), WatchTimeout: silence})
	ready(t, w)
	neverWithout(t, w)

	member.Kill(t)
	earlier := member.Copy(t)
	member.Restart(t)
	first := s.get(server)
	s.revoke(first.Lease)
	testkit.WaitFor(t, "another registration", func() bool { kv := s.get(server); return kv != nil && kv.Lease != first.Lease })
	s.remove("models/deleted-later")
	s.put("models/put-later", "{}")
	for i := range 20 {
		s.put("models/a", fmt.Sprintf("retry: {errors: %d}", 2+i%2))
	}
	becomes(t, w, "a", 3)
	becomes(t, w, "put-later", 3)
	becomes(t, w, "deleted-later", -1)
	before := w.State().Revision

	member.Kill(t)
	member.Restore(t, earlier)
	becomes(t, w, "a", 1)
	becomes(t, w, "put-later", -1)
	becomes(t, w, "deleted-later", 4)
	if after := w.State().Revision; after >= before {
		t.Errorf("revision %d after %d", after, before)
	}
	s.wantRegisteredOnce()
	s.put("models/a", "retry: {errors: 9}")
	becomes(t, w, "a", 9)
}
