package etcd_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
	"colonnade/internal/testkit"
)

// models puts n models and returns their keys, sorted.
func (s *store) models(n int) []string {
	s.t.Helper()
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf("models/m%02d", i))
		s.put(keys[i], "retry: {errors: 1}")
	}
	return keys
}

// removeAll deletes all models at one revision, and returns it.
func (s *store) removeAll() int64 {
	s.t.Helper()
	answer, err := s.client.Delete(s.ctx(), prefix+"models/", clientv3.WithPrefix())
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.Header.Revision
}

func (s *store) confirm(revision int64) { s.put("deletions", fmt.Sprintf("{confirmed: %d}", revision)) }

// settles waits until so many models are in force and these deletions are pending.
func settles(t *testing.T, w *etcd.Watcher, models int, held []string) {
	t.Helper()
	testkit.WaitFor(t, fmt.Sprintf("%d models, %d pending deletions", models, len(held)), func() bool {
		table := w.Table()
		return len(table.Models()) == models && slices.Equal(table.PendingDeletions, held) && slices.Equal(w.State().PendingDeletions, held)
	})
}

// Too many deletions at once are held back, logged with what to do, and carried out when they are confirmed.
func TestMassDeletion(t *testing.T) {
	s := start(t)
	keys := s.models(12)
	var log logbook
	w, _ := watch(t, etcd.Config{Client: s.client, Kinds: []string{"models/"}, Logger: log.logger()})
	ready(t, w)
	at := s.removeAll()
	settles(t, w, 12, keys)
	if log.count("too many documents deleted; holding the deletions back until they are confirmed") != 1 || log.count("kind=models deleted=12 left=0") != 1 || log.count("colonnade config confirm-deletions") != 1 {
		t.Error("not logged, or not what to do")
	}
	s.put(keys[0], "retry: {errors: 2}")
	settles(t, w, 12, keys[1:])
	becomes(t, w, "m00", 2)
	s.confirm(at)
	settles(t, w, 1, nil)
}

// A deletion that is confirmed in the same transaction is not held back, and its author is in the log. The confirmation names its revision, so that
// the document confirms nothing in another store. The author of a change to other kinds makes no table.
func TestDeleteConfirmed(t *testing.T) {
	s := start(t)
	keys := s.models(4)
	var log logbook
	w, _ := watch(t, etcd.Config{Client: s.client, Kinds: []string{"models/"}, Logger: log.logger()})
	ready(t, w)
	found, revision, err := s.writer().DeleteConfirmed(s.ctx(), append(keys[:3:3], "models/none"))
	if err != nil || !slices.Equal(found, keys[:3]) {
		t.Fatalf("deleted %q: %v", found, err)
	}
	settles(t, w, 1, nil)
	if kv := s.get("deletions"); kv == nil || string(kv.Value) != fmt.Sprintf("confirmed: %d\n", revision) {
		t.Errorf("the confirmation is %+v, want one of revision %d", kv, revision)
	}
	testkit.WaitFor(t, "the deletion in the log", func() bool {
		return log.count(fmt.Sprintf(`msg="documents deleted" documents=3 kind=models keys="models/m00, models/m01, models/m02" revision=%d by="alice@laptop: TestDeleteConfirmed"`, revision)) == 1
	})
	if log.count("holding") != 0 {
		t.Errorf("held back meanwhile:\n%s", log.String())
	}
	testkit.WaitFor(t, "the confirmation", func() bool { return w.State().Revision > revision })
	tables := w.State().Tables
	if _, err := s.writer().Apply(s.ctx(), []document.Raw{{Key: "accounts/other", Value: []byte("{}")}}); err != nil {
		t.Fatal(err)
	}
	by := s.get(etcd.AuthorKey).ModRevision
	testkit.WaitFor(t, "the author to be seen", func() bool { return w.State().Revision >= by })
	s.put(keys[3], "retry: {errors: 5}")
	becomes(t, w, "m03", 5)
	if got := w.State().Tables; got > tables+2 {
		t.Errorf("%d tables for one change and one confirmation", got-tables)
	}
	if _, revision, err := s.writer().DeleteConfirmed(s.ctx(), []string{"models/none"}); err != nil || revision != 0 {
		t.Errorf("nothing to delete: confirmed %d, %v", revision, err)
	}
}

// Of many confirmations at once, the last one stays: it covers those before it.
func TestConcurrentConfirmations(t *testing.T) {
	s := start(t)
	ctx, writer := s.ctx(), s.writer()
	var newest atomic.Int64
	var writers sync.WaitGroup
	for _, key := range s.models(16) {
		writers.Go(func() {
			_, revision, err := writer.DeleteConfirmed(ctx, []string{key})
			if err != nil {
				t.Error(err)
			}
			for known := newest.Load(); known < revision && !newest.CompareAndSwap(known, revision); known = newest.Load() {
			}
		})
	}
	writers.Wait()
	if kv, want := s.get("deletions"), fmt.Sprintf("confirmed: %d\n", newest.Load()); kv == nil || string(kv.Value) != want {
		t.Errorf("the confirmation is %+v, want %s", kv, want)
	}
}

// Deletions one by one are held back from the one on that is too many.
func TestMassDeletionOneByOne(t *testing.T) {
	s := start(t)
	keys := s.models(20)
	w, _ := watch(t, etcd.Config{Client: s.client})
	ready(t, w)
	for i, key := range keys[:10] {
		s.remove(key)
		settles(t, w, 19-i, nil)
	}
	s.remove(keys[10])
	settles(t, w, 20, keys[:11])
	s.remove(keys[11])
	settles(t, w, 20, keys[:12])
}

// Deletions that a list finds after an outage are held back, and stay so over a restart, at once or while etcd is away.
func TestMassDeletionWhileAway(t *testing.T) {
	s := start(t)
	keys := s.models(14)
	s.put("models/stays", "{}")
	cache := filepath.Join(t.TempDir(), "fleet.json")
	p := testkit.NewProxy(t, s.Address)
	w, stop := watch(t, etcd.Config{Client: dial(t, p.Address), WatchTimeout: silence, Cache: cache})
	ready(t, w)
	p.Swallow()
	for _, key := range keys {
		s.remove(key)
	}
	testkit.WaitFor(t, "the age to rise", func() bool { return w.State().Age > silence })
	p.Heal()
	settles(t, w, 15, keys)
	stop()

	w, stop = watch(t, etcd.Config{Client: s.client, Cache: cache})
	ready(t, w)
	settles(t, w, 15, keys)
	stop()

	s.Stop()
	w, _ = watch(t, etcd.Config{Client: dial(t, s.Address), WatchTimeout: silence, Cache: cache})
	ready(t, w)
	settles(t, w, 15, keys)
	s.Restart(t)
	s.confirm(s.put("models/new", "{}"))
	settles(t, w, 2, nil)
}

// A node that was away carries out deletions that were confirmed meanwhile, but holds back later ones; and it holds back all if
// the confirmed revision is compacted.
func TestConfirmedWhileAway(t *testing.T) {
	t.Parallel()
	f := func(name string, confirmed, after int, compact bool, models int, wantHeld func(keys []string) []string) {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			keys := s.models(40)
			p := testkit.NewProxy(t, s.Address)
			w, _ := watch(t, etcd.Config{Client: dial(t, p.Address), WatchTimeout: silence})
			ready(t, w)
			p.Swallow()
			for _, key := range keys[:confirmed] {
				s.remove(key)
			}
			s.confirm(s.put("models/x", "{}"))
			for _, key := range keys[confirmed : confirmed+after] {
				s.remove(key)
			}
			last := s.put("models/y", "{}")
			if compact {
				if _, err := s.client.Compact(s.ctx(), last); err != nil {
					t.Fatal(err)
				}
			}
			testkit.WaitFor(t, "the age to rise", func() bool { return w.State().Age > silence })
			p.Heal()
			settles(t, w, models, wantHeld(keys))
		})
	}
	none := func([]string) []string { return nil }
	f("all confirmed", 30, 0, false, 12, none)
	f("some confirmed", 8, 20, false, 34, func(keys []string) []string { return keys[8:28] })
	f("compacted", 30, 0, true, 42, func(keys []string) []string { return keys[:30] })
}

// Pending deletions can be confirmed in another store with lower revisions at the same address, also after a restart.
func TestPendingDeletionsInOlderStore(t *testing.T) {
	t.Parallel()
	f := func(name string, restart bool) {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			keys := s.models(30)
			cache := filepath.Join(t.TempDir(), "fleet.json")
			w, stop := watch(t, etcd.Config{Client: dial(t, s.Address), WatchTimeout: silence, Cache: cache})
			ready(t, w)
			s.removeAll()
			settles(t, w, 30, keys)
			before := w.State().Revision
			s.Stop()
			s.Replace(t)
			s.put("models/stays", "{}")
			settles(t, w, 31, keys)
			if restart {
				stop()
				w, _ = watch(t, etcd.Config{Client: dial(t, s.Address), WatchTimeout: silence, Cache: cache})
				ready(t, w)
				settles(t, w, 31, keys)
			}
			s.confirm(s.put("models/new", "{}"))
			settles(t, w, 2, nil)
			if after := w.State().Revision; after >= before {
				t.Errorf("revision %d after %d: this proves nothing", after, before)
			}
		})
	}
	f("watching", false)
	f("restarted", true)
}

// The endpoints of a registrar do not count as too many: they stay until they are marked dead.
func TestLeasedEndpointsStayUntilMarkedDead(t *testing.T) {
	s := start(t)
	lease, err := s.client.Grant(s.ctx(), 60)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for i := range 12 {
		keys = append(keys, fmt.Sprintf("endpoints/ams/e%02d", i))
		document := fmt.Sprintf("{url: 'http://h%d', pool: p}", i)
		if _, err := s.client.Put(s.ctx(), prefix+keys[i], document, clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
	}
	w, _ := watch(t, etcd.Config{Client: s.client})
	ready(t, w)
	s.revoke(int64(lease.ID))
	remain := func(want ...string) {
		t.Helper()
		testkit.WaitFor(t, fmt.Sprintf("%d endpoints with expired leases", len(want)), func() bool {
			return len(w.Table().EndpointsOf("ams")) == len(want) && slices.Equal(w.Table().ExpiredLeases, want) && slices.Equal(w.State().ExpiredLeases, want)
		})
	}
	remain(keys...)
	if held := w.Table().PendingDeletions; len(held) > 0 {
		t.Errorf("pending %q", held)
	}
	w.MarkDead()
	w.MarkDead(keys[0], "endpoints/ams/none")
	w.MarkDead(keys[1], keys[0])
	remain(keys[2:]...)
}

// An endpoint that was marked dead while etcd was away may live when etcd is back, so the mark has no effect.
func TestMarkedDeadWhileAway(t *testing.T) {
	s := start(t)
	r := s.registration("endpoints/ams/e")
	r.Value = []byte("{url: 'http://h', pool: p}")
	s.register(r)
	p := testkit.NewProxy(t, s.Address)
	var log logbook
	w, _ := watch(t, etcd.Config{Client: dial(t, p.Address), WatchTimeout: silence, Logger: log.logger()})
	ready(t, w)
	testkit.WaitFor(t, "its lease to expire", func() bool { return len(w.Table().ExpiredLeases) == 1 })
	before := log.count("no message within the watch timeout") // not 0 on a slow machine
	p.Swallow()
	testkit.WaitFor(t, "the watch to time out", func() bool { return log.count("no message within the watch timeout") > before })
	w.MarkDead("endpoints/ams/e")
	p.Heal()
	s.put("models/a", "retry: {errors: 2}")
	becomes(t, w, "a", 2)
	if len(w.Table().ExpiredLeases) != 1 {
		t.Error("it is out of force")
	}
	w.MarkDead("endpoints/ams/e")
	testkit.WaitFor(t, "it to go out of force", func() bool { return len(w.Table().EndpointsOf("ams")) == 0 })
}

// A server whose lease was lost stays in the table until it has registered again; a draining one goes.
func TestServerStaysInTable(t *testing.T) {
	s := start(t)
	l := s.registered(s.client)
	w, _ := watch(t, etcd.Config{Client: s.client})
	ready(t, w)
	t.Run("lost", func(t *testing.T) {
		neverWithout(t, w)
		for range 3 {
			lost := s.get(server)
			s.revoke(lost.Lease)
			testkit.WaitFor(t, "it to register again", func() bool { kv := s.get(server); return kv != nil && kv.Lease != lost.Lease })
		}
		s.put("models/a", "retry: {errors: 2}")
		becomes(t, w, "a", 2)
	})
	s.wantRegisteredOnce()
	testkit.WaitFor(t, "the drain to be announced", func() bool {
		return l.Update(s.ctx(), []byte(`{"address":"10.0.0.1:8443","boot":"b1","state":"draining"}`)) == nil
	})
	s.revoke(s.get(server).Lease)
	testkit.WaitFor(t, "it to leave", func() bool { return len(w.Table().Servers("ams")) == 0 })
}

// A document that changes all the time causes few tables and few lines in the log, and its last version is in force.
func TestRapidChangesAreBounded(t *testing.T) {
	s := start(t)
	s.put("models/a", "retry: {errors: 1}")
	var log logbook
	w, _ := watch(t, etcd.Config{Client: s.client, Logger: log.logger()})
	ready(t, w)
	tables, end := 0, make(chan struct{})
	counted := make(chan struct{})
	changed := w.Changed()
	go func() {
		defer close(counted)
		for {
			select {
			case <-changed:
				tables++
				changed = w.Changed()
			case <-end:
				return
			}
		}
	}()
	began := time.Now()
	for i := range 300 {
		s.put("models/a", fmt.Sprintf("retry: {errors: -%d}", i+1))
		s.put("models/a", fmt.Sprintf("retry: {errors: %d}", i%7))
	}
	s.put("models/a", "retry: {errors: 9}")
	becomes(t, w, "a", 9)
	most := int(time.Since(began)/(20*time.Millisecond)) + 2
	close(end)
	<-counted
	if tables > most {
		t.Errorf("%d tables, more than %d", tables, most)
	}
	minutes := int(time.Since(began)/time.Minute) + 1
	if lines := log.count("document rejected"); lines < 1 || lines > 4+4*minutes {
		t.Errorf("%d lines for 300 rejections", lines)
	}
	if rejected := w.State().Rejected; len(rejected) > 0 {
		t.Errorf("rejected %+v", rejected)
	}
}
