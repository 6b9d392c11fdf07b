package etcd_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/homes"
	"colonnade/internal/testkit"
)

// Of processes that put one engine at the same time, exactly one sees its own entry in the common order without another's.
func TestOneOfSeveralClaimersIsFirst(t *testing.T) {
	s := start(t)
	var all []*coloServer
	for _, node := range []string{"a", "b", "c"} {
		c, _ := s.joined(node, s.client)
		testkit.WaitFor(t, "the first list", func() bool { _, revision := c.view(); return revision > 0 })
		all = append(all, c)
	}
	var wait sync.WaitGroup
	revisions := make([]int64, len(all))
	for i, c := range all {
		wait.Go(func() { revisions[i] = c.put(map[string]int{u1: 0}, nil) })
	}
	wait.Wait()
	first := 0
	for i, c := range all {
		testkit.WaitFor(t, "the last put", func() bool { _, seen := c.view(); return seen >= slices.Max(revisions) })
		c.mu.Lock()
		upTo := slices.IndexFunc(c.changes, func(change homes.Change) bool { return change.Revision == revisions[i] })
		if upTo < 0 {
			t.Fatalf("%s has not seen its own put at %d: %+v", c.self, revisions[i], c.changes)
		}
		records, _ := viewOf(c.changes[:upTo+1])
		c.mu.Unlock()
		owners := 0
		for _, r := range records {
			owners += len(r.Owns)
		}
		if owners == 1 {
			first++
		}
	}
	if first != 1 {
		t.Errorf("%d of three processes saw no other owner at their own put", first)
	}
}

// The changes of one transaction are one change, and a put of held requests leaves the other key as it is.
func TestChangesOfRecords(t *testing.T) {
	s := start(t)
	a, _ := s.joined("a", s.client)
	b, leaveB := s.joined("b", s.client)
	for _, c := range []*coloServer{a, b} {
		testkit.WaitFor(t, "the first list", func() bool { _, revision := c.view(); return revision > 0 })
	}
	a.put(map[string]int{u1: 4}, map[string]int{u2: 9})
	owns := s.get("owners/ams/a/b1")
	a.put(map[string]int{u1: 4}, map[string]int{u2: 8})
	if again := s.get("owners/ams/a/b1"); again.ModRevision != owns.ModRevision {
		t.Error("the key of what it owns was put again")
	}
	last := s.get("owners/ams/a/b1/held").ModRevision
	if revision := a.put(map[string]int{u1: 4}, map[string]int{u2: 8}); revision != last {
		t.Errorf("an unchanged record was put, at %d after %d", revision, last)
	}
	b.sees(a.self, map[string]int{u1: 4}, map[string]int{u2: 8})
	leaveB()
	a.sees(b.self, nil, nil)

	_, err := s.client.Txn(s.ctx()).Then(
		clientv3.OpPut(prefix+"owners/ams/x/1", `{"version":1,"put":1,"address":"x:1","owns":{}}`), clientv3.OpPut(prefix+"owners/ams/x/1/held", `{}`),
		clientv3.OpPut(prefix+"owners/ams/y/1", `{"version":1,"put":1,"address":"y:1","owns":{}}`), clientv3.OpPut(prefix+"owners/ams/y/1/held", `{}`),
	).Commit()
	if err != nil {
		t.Fatal(err)
	}
	a.sees(homes.Process{Node: "y", Boot: "1"}, map[string]int{}, map[string]int{})
	a.mu.Lock()
	defer a.mu.Unlock()
	newest := a.changes[len(a.changes)-1]
	if newest.Listed || newest.Restored || len(newest.Put) != 2 || newest.Put[0].Revision != newest.Revision || newest.Put[0].Address != "x:1" {
		t.Errorf("the last change is %+v", newest)
	}
	for i, change := range a.changes[1:] {
		if change.Listed || change.Revision <= a.changes[i].Revision {
			t.Errorf("change %d is %+v after %+v", i+1, change, a.changes[i])
		}
	}
}

// A record that cannot be read, or was put by hand, has a problem and what can be read of it, in a list and in a change.
func TestUnreadableRecords(t *testing.T) {
	s := start(t)
	damage := func(suffix string) {
		s.put("owners/ams/bad/"+suffix, `{"version":9,"owns":{"`+u1+`":1}`)
		s.put("owners/ams/by-hand-"+suffix, `{"`+u2+`":2}`)
	}
	damage("1")
	c := s.server("a", s.client)
	run(t, c.Run)
	f := func(node, boot, url string) {
		t.Helper()
		testkit.WaitFor(t, "the record of "+node, func() bool {
			records, _ := c.view()
			r, there := records[homes.Process{Node: node, Boot: boot}]
			_, owns := r.Owns[url]
			return there && owns && r.Problem != ""
		})
	}
	f("bad", "1", u1)
	f("by-hand-1", "", u2)
	damage("2")
	f("bad", "2", u1)
	f("by-hand-2", "", u2)

	records, _ := c.view()
	for _, p := range []homes.Process{{Node: "bad", Boot: "2"}, {Node: "by-hand-1"}} {
		if done, err := c.Replace(s.ctx(), records[p], nil); !done || err != nil {
			t.Errorf("%s was not removed: %v", p, err)
		}
		c.sees(p, nil, nil)
	}
}

// Changes and a compaction while the watch is cut are seen afterwards, as one list.
func TestRecordsAfterCompaction(t *testing.T) {
	s := start(t)
	p := testkit.NewProxy(t, s.Address)
	a, _ := s.joined("a", s.client)
	b := s.server("b", dial(t, p.Address))
	run(t, b.Run)
	a.put(map[string]int{u1: 0}, nil)
	b.sees(a.self, map[string]int{u1: 0}, map[string]int{})
	p.Swallow()
	s.put("owners/ams/x/1", "{}")
	s.remove("owners/ams/x/1")
	revision := a.put(map[string]int{u2: 0}, nil)
	if _, err := s.client.Compact(s.ctx(), revision); err != nil {
		t.Fatal(err)
	}
	p.Heal()
	b.sees(a.self, map[string]int{u2: 0}, map[string]int{})
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := b.changes[len(b.changes)-1]; !last.Listed || last.Restored {
		t.Errorf("the last change is %+v", last)
	}
}

// A watch that is silent is noticed by the process's own clock.
func TestSilentWatchOfRecords(t *testing.T) {
	s := start(t)
	p := testkit.NewProxy(t, s.Address)
	var log logbook
	c := s.serverWith("a", etcd.RecordsConfig{Client: dial(t, p.Address), WatchTimeout: 300 * time.Millisecond, Logger: log.logger()})
	run(t, c.Run)
	lists := func() (n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, change := range c.changes {
			if change.Listed {
				n++
			}
		}
		return n
	}
	testkit.WaitFor(t, "a list", func() bool { return lists() > 0 })
	silences := log.count("no message within the watch timeout") // not 0 on a slow machine
	p.Swallow()
	testkit.WaitFor(t, "the silence to be noticed", func() bool { return log.count("no message within the watch timeout") > silences })
	before := lists()
	p.Heal()
	testkit.WaitFor(t, "another list", func() bool { return lists() > before })
}

// After the store was restored from an old copy, that is noticed within a renewal, and the process registers again.
func TestRecordsOfRestoredStore(t *testing.T) {
	s, members := startProcesses(t, 1)
	member := members[0]
	config := etcd.RecordsConfig{Client: dial(t, member.Address), WatchTimeout: silence}
	c, _ := s.joinedWith("a", config)
	b := s.serverWith("b", config) // it has no registration, and so no renewal that could notice
	run(t, b.Run)
	c.put(map[string]int{u1: 0}, nil)
	member.Kill(t)
	earlier := member.Copy(t)
	member.Restart(t)
	_, registered := c.registrations()
	for i := range 20 {
		testkit.WaitFor(t, "a put", func() bool {
			_, err := c.Put(s.ctx(), registered, map[string]int{u2: i}, nil)
			return err == nil
		})
	}
	b.sees(c.self, map[string]int{u2: 19}, map[string]int{})
	before, _ := c.registrations()
	member.Kill(t)
	member.Restore(t, earlier)
	restored := time.Now()
	testkit.WaitFor(t, "another registration", func() bool { n, _ := c.registrations(); return n > before })
	if took := time.Since(restored); testkit.Soak() && took > 2*ttl/5 {
		t.Errorf("noticed after %v", took)
	}
	for _, server := range []*coloServer{c, b} {
		testkit.WaitFor(t, "the restored store", func() bool {
			server.mu.Lock()
			defer server.mu.Unlock()
			return slices.ContainsFunc(server.changes, func(change homes.Change) bool { return change.Restored && change.Listed })
		})
	}
	c.sees(c.self, map[string]int{}, map[string]int{})
}

// A process whose predecessor saw a later revision starts with a list of a restored store, and learns that first.
func TestRecordsOfStoreRestoredBeforeStart(t *testing.T) {
	s := start(t)
	var restored atomic.Int64
	c := s.serverWith("a", etcd.RecordsConfig{Client: s.client, WatchTimeout: testkit.Timeout, Seen: 1 << 40, OnRestored: func() { restored.Add(1) }})
	s.register(c.r)
	if restored.Load() != 1 {
		t.Errorf("a store that was restored is reported %d times", restored.Load())
	}
	run(t, c.Run)
	testkit.WaitFor(t, "a list", func() bool { _, revision := c.view(); return revision > 0 })
	c.mu.Lock()
	defer c.mu.Unlock()
	if first := c.changes[0]; !first.Listed || !first.Restored || restored.Load() != 1 {
		t.Errorf("the first change is %+v, reported %d times", first, restored.Load())
	}
}
