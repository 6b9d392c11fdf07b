package etcd_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/internal/testkit"
)

// A watcher has an empty table before it runs, and does not run without a client.
func TestWatcherBeforeRun(t *testing.T) {
	w := etcd.NewWatcher(etcd.Config{})
	if w.Table() == nil || len(w.Table().Models()) != 0 {
		t.Errorf("table %+v", w.Table())
	}
	if err := w.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "needs a Client and a Prefix") {
		t.Errorf("Run without a client: %v", err)
	}
}

// The table has the documents in etcd, and each change, with the revision of the store.
func TestTableFollowsStore(t *testing.T) {
	s := start(t)
	s.put("models/a", "retry: {errors: 1}")
	s.put("defaults", "model: {retry: {errors: 7}}")
	s.put("models/b", "{}")
	w, _ := watch(t, etcd.Config{Client: s.client})
	ready(t, w)
	if a, b := retryErrors(w, "a"), retryErrors(w, "b"); a != 1 || b != 7 {
		t.Fatalf("loaded %d and %d", a, b)
	}
	s.put("models/a", "retry: {errors: 2}")
	becomes(t, w, "a", 2)
	s.put("models/c", "retry: {errors: 3}")
	becomes(t, w, "c", 3)
	s.put("defaults", "{}")
	becomes(t, w, "b", 3)
	s.remove("models/a")
	becomes(t, w, "a", -1)
	last := s.put("models/d", "{}")
	becomes(t, w, "d", 3)
	if state := w.State(); w.Table().Revision != last || state.Revision != last || state.Age > testkit.Timeout || len(state.Rejected) != 0 {
		t.Errorf("state %+v, table of %d, want %d", state, w.Table().Revision, last)
	}
}

// Only the configured kinds and the defaults are in the table.
func TestOnlyConfiguredKinds(t *testing.T) {
	s := start(t)
	s.put("defaults", "model: {retry: {errors: 5}}")
	for _, key := range []string{"models/a", "models/b", "pools/a", "endpoints/ams/e", "endpoints/ams-2/e", "endpoints/fra/e", "unknown/x"} {
		s.put(key, "{url: 'http://h', pool: p}")
	}
	s.put("models/a", "{}")
	w, _ := watch(t, etcd.Config{Client: s.client, Kinds: []string{"models/a", "endpoints/ams/"}})
	ready(t, w)
	table := w.Table()
	if retryErrors(w, "a") != 5 || len(table.Models()) != 1 || len(table.EndpointsOf("ams")) != 1 || len(table.EndpointsOf("ams-2")) != 0 || len(table.Rejected) != 0 {
		t.Errorf("table %+v", table)
	}
	s.put("endpoints/ams-2/f", "{url: 'http://f', pool: p}")
	s.put("models/b", "{}")
	s.put("models/a", "retry: {errors: 6}")
	becomes(t, w, "a", 6)
	if table := w.Table(); len(table.EndpointsOf("ams-2")) != 0 || len(table.Models()) != 1 {
		t.Errorf("table %+v", table)
	}
}

// A list of several pages and many changes are seen as a whole.
func TestManyDocuments(t *testing.T) {
	s := start(t)
	const n = 100
	for i := range n {
		s.put(fmt.Sprintf("models/m%d", i), "retry: {errors: 1}")
	}
	w, _ := watch(t, etcd.Config{Client: s.client})
	ready(t, w)
	if got := len(w.Table().Models()); got != n {
		t.Fatalf("%d models, want %d", got, n)
	}
	for i := range n {
		s.put(fmt.Sprintf("models/m%d", i), "retry: {errors: 2}")
	}
	becomes(t, w, fmt.Sprintf("m%d", n-1), 2)
	for i := range n {
		if got := retryErrors(w, fmt.Sprintf("m%d", i)); got != 2 {
			t.Errorf("m%d has %d", i, got)
		}
	}
}

// Of a document that turns bad, the last good version stays in force; the rejection is logged and in the state.
func TestBadDocument(t *testing.T) {
	s := start(t)
	s.put("models/a", "retry: {errors: 1}")
	var log logbook
	w, _ := watch(t, etcd.Config{Client: s.client, Logger: log.logger()})
	ready(t, w)
	bad := s.put("models/a", "retry: {errors: -1}")
	s.put("models/b", "retry: {errors: 2}")
	becomes(t, w, "b", 2)
	if got := retryErrors(w, "a"); got != 1 {
		t.Errorf("a has %d, want its last good version", got)
	}
	rejected := w.State().Rejected
	if len(rejected) != 1 || rejected[0].Key != "models/a" || rejected[0].Field != "retry.errors" || rejected[0].Revision != bad || !rejected[0].LastGood {
		t.Errorf("rejected %+v", rejected)
	}
	line := fmt.Sprintf("key=models/a revision=%d field=retry.errors value=-1 error=\"must be at least 0\"", bad)
	if log.count(line) != 1 {
		t.Errorf("the log does not have once %s", line)
	}
	s.put("models/a", "retry: {errors: 3}")
	becomes(t, w, "a", 3)
	if rejected := w.State().Rejected; len(rejected) != 0 {
		t.Errorf("rejected %+v", rejected)
	}
}

// Changes, deletions and a compaction while the watcher has no connection are seen afterwards.
func TestCompactionDuringOutage(t *testing.T) {
	s := start(t)
	s.put("models/a", "retry: {errors: 1}")
	s.put("models/gone", "{}")
	p := testkit.NewProxy(t, s.Address)
	var log logbook
	w, _ := watch(t, etcd.Config{Client: dial(t, p.Address), Logger: log.logger()})
	ready(t, w)

	p.Swallow()
	s.remove("models/gone")
	for i := range 10 {
		s.put("models/a", fmt.Sprintf("retry: {errors: %d}", i))
	}
	last := s.put("models/a", "retry: {errors: 11}")
	if _, err := s.client.Compact(s.ctx(), last, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if retryErrors(w, "a") != 1 || retryErrors(w, "gone") != 3 {
		t.Error("the last good table is not in force")
	}
	p.Heal()
	becomes(t, w, "a", 11)
	becomes(t, w, "gone", -1)
	if log.count("required revision has been compacted") != 1 {
		t.Error("the watch did not meet the compaction")
	}
}

// The last good table stays in force while etcd is away.
func TestEtcdRestarts(t *testing.T) {
	s := start(t)
	s.put("models/a", "retry: {errors: 1}")
	w, _ := watch(t, etcd.Config{Client: dial(t, s.Address), WatchTimeout: silence})
	ready(t, w)
	s.Stop()
	testkit.WaitFor(t, "the age to rise", func() bool { return w.State().Age > silence })
	if retryErrors(w, "a") != 1 {
		t.Error("the last good table is not in force")
	}
	s.Restart(t)
	s.put("models/a", "retry: {errors: 2}")
	becomes(t, w, "a", 2)
	testkit.WaitFor(t, "the age to fall", func() bool { return w.State().Age < silence })
}

// A conflict is logged when it begins, and again when it comes back.
func TestConflictsAreLogged(t *testing.T) {
	s := start(t)
	s.put("models/a", "aliases: [x]")
	s.put("models/b", "aliases: [x]")
	var log logbook
	w, _ := watch(t, etcd.Config{Client: s.client, Logger: log.logger()})
	ready(t, w)
	f := func(times, conflicts int) {
		t.Helper()
		line := "what=alias value=x winner=models/a loser=models/b"
		if got := log.count(line); got != times || len(w.State().Conflicts) != conflicts {
			t.Errorf("logged %d times, want %d; conflicts %+v", got, times, w.State().Conflicts)
		}
	}
	f(1, 1)
	s.put("models/c", "retry: {errors: 2}")
	becomes(t, w, "c", 2)
	f(1, 1)
	s.put("models/b", "retry: {errors: 4}")
	becomes(t, w, "b", 4)
	f(1, 0)
	s.put("models/b", "{aliases: [x], retry: {errors: 5}}")
	becomes(t, w, "b", 5)
	f(2, 1)
}

// When another store with lower revisions is at the same address, the documents are gone that it lacks. If it was empty when the watcher
// looked first, they are gone when that is confirmed.
func TestOlderStore(t *testing.T) {
	s := start(t)
	for i := range 10 {
		s.put("models/a", fmt.Sprintf("retry: {errors: %d}", i))
	}
	s.put("models/gone", "{}")
	w, _ := watch(t, etcd.Config{Client: dial(t, s.Address), WatchTimeout: silence})
	ready(t, w)
	before := w.State().Revision
	s.Stop()
	s.Replace(t)
	s.confirm(s.put("models/a", "retry: {errors: 12}"))
	becomes(t, w, "a", 12)
	becomes(t, w, "gone", -1)
	if after := w.State().Revision; after >= before || w.Table().Revision >= before {
		t.Errorf("revision %d after %d", after, before)
	}
}

// A watch over a connection that swallows everything times out, by the watcher's own clock; a quiet watch does not.
func TestWatchTimeout(t *testing.T) {
	s := start(t)
	s.put("models/a", "retry: {errors: 1}")
	p := testkit.NewProxy(t, s.Address)
	var log logbook
	w, stop := watch(t, etcd.Config{Client: dial(t, p.Address), Logger: log.logger(), WatchTimeout: silence})
	ready(t, w)
	outages, lists := log.count("etcd does not answer"), log.count("following etcd") // outages may be 1 on a slow machine
	for answers, last := 0, w.State().Age; answers < 4; {                            // to requests for progress, of which there are three in each timeout
		time.Sleep(5 * time.Millisecond)
		age := w.State().Age
		if age < last {
			answers++
		}
		if last = age; log.count("etcd watch ended") != 0 {
			t.Fatal("a quiet watch was taken for a dead one")
		}
	}
	p.Swallow()
	s.put("models/a", "retry: {errors: 2}")
	testkit.WaitFor(t, "the watch to time out", func() bool { return log.count("no message within the watch timeout") == 1 })
	testkit.WaitFor(t, "the outage to be logged", func() bool { return log.count("etcd does not answer") > outages })
	if retryErrors(w, "a") != 1 || w.State().Age < silence/2 {
		t.Errorf("state %+v", w.State())
	}
	p.Heal()
	becomes(t, w, "a", 2)
	testkit.WaitFor(t, "the end of the outage to be logged", func() bool { return log.count("following etcd") > lists })
	if log.count("etcd does not answer") != outages+1 {
		t.Error("the outage is logged more than once")
	}
	p.Swallow()
	stop() // also while nothing answers
}

// A watch whose packets vanish is noticed within three intervals, and the changes that it missed are in force five seconds after
// packets pass again, whatever a reconnection was doing at that moment; in a soak with the settings of a node.
func TestRecoveryFromBlackHole(t *testing.T) {
	t.Parallel()
	f := func(outage time.Duration) {
		t.Run(outage.String(), func(t *testing.T) {
			s := start(t)
			s.put("models/a", "retry: {errors: 1}")
			p := testkit.NewProxy(t, s.Address)
			var log logbook
			c := etcd.Config{Client: dial(t, p.Address), Logger: log.logger(), Prefix: prefix}
			interval := 5 * time.Second
			if !testkit.Soak() {
				c.WatchTimeout, interval = silence, silence/3
			}
			w := etcd.NewWatcher(c)
			run(t, w.Run)
			ready(t, w)
			p.Swallow()
			s.put("models/a", "retry: {errors: 2}")
			testkit.Within(t, 3*interval+250*time.Millisecond, "the watch to time out", func() bool { return log.count("no message within the watch timeout") == 1 })
			time.Sleep(outage)
			healSlowly(p)
			testkit.Within(t, 5*time.Second, "the missed change", func() bool { return retryErrors(w, "a") == 2 })
		})
	}
	f(0)
	f(700 * time.Millisecond)
	if testkit.Soak() {
		for i := range 12 {
			f(time.Second + time.Duration(i)*1100*time.Millisecond)
			f(time.Minute + time.Duration(i)*1100*time.Millisecond) // so long that every back-off is at its longest
		}
	}
}

// A node starts from its cache while etcd is away, and knows the last good versions in it once etcd is back.
func TestStartFromCache(t *testing.T) {
	s := start(t)
	cache := filepath.Join(t.TempDir(), "fleet.json")
	s.put("models/a", "retry: {errors: 1}")
	s.put("models/b", "retry: {errors: 1}")
	w, stop := watch(t, etcd.Config{Client: s.client, Cache: cache})
	ready(t, w)
	last := s.put("models/a", "retry: {errors: 2}")
	becomes(t, w, "a", 2)
	s.put("models/b", "retry: {errors: -2}")
	testkit.WaitFor(t, "b is rejected", func() bool { return len(w.State().Rejected) == 1 })
	stop()
	s.Stop()
	if info, err := os.Stat(cache); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("cache %v, %v", info, err)
	}

	var log logbook
	w, stop = watch(t, etcd.Config{Client: dial(t, s.Address), Cache: cache, Logger: log.logger(), WatchTimeout: silence})
	ready(t, w)
	if a, b := retryErrors(w, "a"), retryErrors(w, "b"); a != 2 || b != 1 || log.count("starting from the saved documents") != 1 {
		t.Errorf("loaded %d and %d", a, b)
	}
	if state := w.State(); state.Revision < last || state.Age <= 0 {
		t.Errorf("state %+v, want revision %d", state, last)
	}

	// etcd comes back, with the bad version of b: its last good one is still known.
	s.Restart(t)
	s.put("models/a", "retry: {errors: 3}")
	becomes(t, w, "a", 3)
	if rejected := w.State().Rejected; len(rejected) != 1 || retryErrors(w, "b") != 1 {
		t.Errorf("b has %d, rejected %+v", retryErrors(w, "b"), rejected)
	}
	stop()

	// While etcd answers, documents of the cache that etcd lacks are not in force, but last good versions are.
	s.remove("models/a")
	w, _ = watch(t, etcd.Config{Client: s.client, Cache: cache})
	ready(t, w)
	if a, b := retryErrors(w, "a"), retryErrors(w, "b"); a != -1 || b != 1 || len(w.State().Rejected) != 1 {
		t.Errorf("loaded %d and %d", a, b)
	}
}

// A change is saved soon, also if etcd goes away right after it and the node is killed then.
func TestCacheIsWrittenDuringOutage(t *testing.T) {
	s := start(t)
	s.put("models/a", "retry: {errors: 1}")
	cache := filepath.Join(t.TempDir(), "fleet.json")
	p := testkit.NewProxy(t, s.Address)
	w, _ := watch(t, etcd.Config{Client: dial(t, p.Address), Cache: cache, WatchTimeout: silence / 3})
	ready(t, w)
	s.put("models/a", "retry: {errors: 2}")
	becomes(t, w, "a", 2)
	p.Swallow()
	saved := base64.StdEncoding.EncodeToString([]byte("retry: {errors: 2}"))
	testkit.WaitFor(t, "the change to be saved", func() bool {
		text, err := os.ReadFile(cache)
		return err == nil && strings.Contains(string(text), saved)
	})
}

// A damaged file, and one of another prefix, is not used; the node starts without.
func TestUnusableCache(t *testing.T) {
	s := start(t)
	s.put("models/a", "{}")
	cache := filepath.Join(t.TempDir(), "fleet.json")
	_, stop := watch(t, etcd.Config{Client: s.client, Cache: cache})
	testkit.WaitFor(t, "the file", func() bool { _, err := os.Stat(cache); return err == nil })
	stop()
	good, err := os.ReadFile(cache)
	if err != nil {
		t.Fatal(err)
	}
	f := func(name, prefix string, content []byte) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "fleet.json")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		var log logbook
		w, stop := watch(t, etcd.Config{Client: s.client, Cache: path, Prefix: prefix, Logger: log.logger()})
		defer stop()
		ready(t, w)
		if log.count("cannot use the saved documents") != 1 {
			t.Errorf("%s: nothing is logged", name)
		}
	}
	f("cut", prefix, good[:len(good)-10])
	f("empty", prefix, nil)
	f("changed", prefix, []byte(strings.Replace(string(good), "models", "Models", 1)))
	f("of another prefix", "/other/", good)
}

// An empty store makes an empty table.
func TestEmptyStore(t *testing.T) {
	s := start(t)
	w, _ := watch(t, etcd.Config{Client: s.client})
	ready(t, w)
	if len(w.Table().Models()) != 0 || w.State().Revision == 0 {
		t.Errorf("state %+v", w.State())
	}
	s.put("models/a", "retry: {errors: 1}")
	becomes(t, w, "a", 1)
}
