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

// registered keeps a server registered until the test's end, over client, and checks then that it is so exactly once.
func (s *store) registered(client *clientv3.Client) *etcd.Lease {
	s.t.Helper()
	r := s.registration(server)
	r.Client, r.Exclusive = client, true
	l := s.register(r)
	run(s.t, l.Run)
	return l
}

// wantRegisteredOnce waits until the server is registered, and its lease is the only one there is.
func (s *store) wantRegisteredOnce() {
	s.t.Helper()
	testkit.WaitFor(s.t, "registered exactly once", func() bool {
		there, err := s.client.Get(s.ctx(), prefix+"servers/", clientv3.WithPrefix())
		if err != nil {
			return false
		}
		leases, err := s.client.Leases(s.ctx())
		return err == nil && len(there.Kvs) == 1 && len(leases.Leases) == 1 && there.Kvs[0].Lease == int64(leases.Leases[0].ID)
	})
}

// neverWithout checks until the test's end that the table always has a server in ams.
func neverWithout(t *testing.T, w *etcd.Watcher) {
	t.Helper()
	testkit.WaitFor(t, "a server is there", func() bool { return len(w.Table().Servers("ams")) == 1 })
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

// Changes, deletes and a compaction while all packets between the node and etcd vanish.
func TestProcessBehindBlackHole(t *testing.T) {
	s, members := startProcesses(t, 1)
	p := newProxy(t, members[0].Address)
	client := p.client(t)
	s.put("models/a", "retry: {errors: 1}")
	s.put("models/gone", "{}")
	s.registered(client)
	w, _ := watch(t, etcd.Config{Client: client, WatchTimeout: silence})
	ready(t, w)
	neverWithout(t, w)

	p.swallow()
	s.remove("models/gone")
	last := s.put("models/a", "retry: {errors: 2}")
	if _, err := s.client.Compact(s.ctx(), last, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, "the age rises", func() bool { return w.State().Age > 2*silence })
	testkit.WaitFor(t, "the lease runs out", func() bool { return s.get(server) == nil })
	p.heal()
	becomes(t, w, "a", 2)
	becomes(t, w, "gone", -1)
	s.wantRegisteredOnce()
}

// A store that is stopped says nothing and keeps its connections.
func TestProcessPaused(t *testing.T) {
	s, members := startProcesses(t, 1)
	s.put("models/a", "retry: {errors: 1}")
	s.registered(dial(t, members[0].Address))
	var log logbook
	w, _ := watch(t, etcd.Config{Client: dial(t, members[0].Address), WatchTimeout: silence, Logger: log.logger()})
	ready(t, w)
	neverWithout(t, w)

	silent, away := log.count("the watch has gone silent"), log.count("etcd does not answer") // on a slow machine, for once
	members[0].Pause(t)
	testkit.WaitFor(t, "the silence is noticed", func() bool { return log.count("the watch has gone silent") == silent+1 })
	testkit.WaitFor(t, "the outage is told", func() bool { return log.count("etcd does not answer") == away+1 })
	if retryErrors(w, "a") != 1 {
		t.Error("the last good table is not in force")
	}
	members[0].Resume(t)
	s.put("models/a", "retry: {errors: 2}")
	becomes(t, w, "a", 2)
	s.wantRegisteredOnce()
}

// The leader of a cluster of three is killed, and then comes back.
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
	testkit.WaitFor(t, "there is a new leader", func() bool {
		ctx, cancel := context.WithTimeout(s.ctx(), time.Second) // what was asked of a dead leader is never answered
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

// The store is restored from a copy of an earlier day: what was put later is gone, what was deleted later is back, and the
// server is registered though the store knows only a lease that it had long ago.
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
	testkit.WaitFor(t, "registered anew", func() bool { kv := s.get(server); return kv != nil && kv.Lease != first.Lease })
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
