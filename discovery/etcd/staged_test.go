package etcd_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
	"colonnade/internal/testkit"
)

const (
	canary    = "entries/edge-1"
	stagedTTL = 15 * time.Second
)

var entryKinds = []string{"models/", "entries/"}

// withCanary returns a store with two models and an entry that is registered.
func withCanary(t *testing.T) *store {
	t.Helper()
	s := start(t)
	s.put("models/a", "retry: {errors: 1}")
	s.put("models/c", "retry: {errors: 3}")
	s.put(canary, "{address: '127.0.0.1:1', state: active}")
	return s
}

// watchCanary runs the watcher of the entry on which changes are staged.
func (s *store) watchCanary(log *logbook) *etcd.Watcher {
	s.t.Helper()
	w, _ := watch(s.t, etcd.Config{Client: s.client, Kinds: entryKinds, Staged: etcd.StagedKey(canary), Logger: log.logger()})
	ready(s.t, w)
	return w
}

func raw(key, value string) document.Raw { return document.Raw{Key: key, Value: []byte(value)} }

// stage stages a change on the entry.
func (s *store) stage(e etcd.Edit) *etcd.Stage {
	s.t.Helper()
	stage, err := s.writer().Stage(s.ctx(), canary, e, stagedTTL)
	if err != nil {
		s.t.Fatal(err)
	}
	return stage
}

// putStaged puts the value of a staged change under a lease that outlives the test.
func (s *store) putStaged(value string) {
	s.t.Helper()
	lease, err := s.client.Grant(s.ctx(), 600)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.client.Put(s.ctx(), prefix+etcd.StagedKey(canary), value, clientv3.WithLease(lease.ID)); err != nil {
		s.t.Fatal(err)
	}
}

// A staged change is in force at its node alone, deletions without being held back, and everything of it is taken back with it.
func TestStagedChange(t *testing.T) {
	s := withCanary(t)
	var log logbook
	w := s.watchCanary(&log)
	other, _ := watch(t, etcd.Config{Client: s.client, Kinds: entryKinds, Staged: etcd.StagedKey("entries/edge-2")})
	all, _ := watch(t, etcd.Config{Client: s.client})
	ready(t, other)
	ready(t, all)
	stage := s.stage(etcd.Edit{Put: []document.Raw{raw("models/a", "retry: {errors: 9}"), raw("models/b", "{}"), raw("pools/p", "{}")}, Delete: []string{"models/c"}})
	becomes(t, w, "a", 9)
	becomes(t, w, "c", -1)
	state := w.State()
	if staged := state.Staged; staged == nil || staged.Revision != stage.Revision || !strings.HasPrefix(staged.By, "alice@laptop: ") || staged.Problem != "" ||
		!slices.Equal(staged.Documents, []string{"models/a", "models/b", "models/c"}) || !slices.Equal(staged.Unread, []string{"pools/p"}) || staged.Deletions != 1 {
		t.Errorf("staged %+v", staged)
	}
	if len(state.PendingDeletions) > 0 || retryErrors(w, "b") < 0 {
		t.Errorf("held back %v, model b has %d", state.PendingDeletions, retryErrors(w, "b"))
	}
	s.put("models/d", "retry: {errors: 4}") // a change of all, which the others see after the staged one
	for _, follower := range []*etcd.Watcher{w, other, all} {
		becomes(t, follower, "d", 4)
	}
	for _, follower := range []*etcd.Watcher{other, all} {
		if retryErrors(follower, "a") != 1 || retryErrors(follower, "c") != 3 || follower.State().Staged != nil || len(follower.State().Rejected) > 0 {
			t.Errorf("another node has %d and %d, %+v", retryErrors(follower, "a"), retryErrors(follower, "c"), follower.State())
		}
	}
	if retryErrors(w, "a") != 9 || retryErrors(w, "c") != -1 {
		t.Errorf("the change of another document has ended the staged one: %d, %d", retryErrors(w, "a"), retryErrors(w, "c"))
	}
	if err := stage.Withdraw(s.ctx()); err != nil {
		t.Error(err)
	}
	becomes(t, w, "a", 1)
	becomes(t, w, "b", -1)
	becomes(t, w, "c", 3)
	if w.State().Staged != nil || !strings.Contains(log.String(), "staged change in force") || !strings.Contains(log.String(), "staged change withdrawn") {
		t.Errorf("staged %+v, log:\n%s", w.State().Staged, log.String())
	}
}

// A staged document that is not valid is rejected as any other: the version of all nodes stays in force, and the rejection goes with the change.
func TestStagedDocumentRejected(t *testing.T) {
	s := withCanary(t)
	s.put("models/bad", "bananas: 1")
	var log logbook
	w := s.watchCanary(&log)
	s.putStaged(`{"user":"bob","ttl_seconds":60,"put":[{"key":"models/a","value":"apples: 1"},{"key":"models/bad","value":"retry: {errors: 6}"},
		{"key":"models/c","value":"retry: {errors: 8}"}]}`)
	becomes(t, w, "c", 8)
	rejected := w.State().Rejected
	if len(rejected) != 1 || rejected[0].Key != "models/a" || !rejected[0].LastGood || retryErrors(w, "a") != 1 || retryErrors(w, "bad") != 6 {
		t.Errorf("rejected %+v, models have %d and %d", rejected, retryErrors(w, "a"), retryErrors(w, "bad"))
	}
	if line := log.String(); !strings.Contains(line, "staged=true") || !strings.Contains(line, "by=bob") {
		t.Errorf("log:\n%s", line)
	}
	s.remove(etcd.StagedKey(canary))
	becomes(t, w, "c", 3)
	if rejected := w.State().Rejected; len(rejected) != 1 || rejected[0].Key != "models/bad" || retryErrors(w, "bad") != -1 {
		t.Errorf("rejected %+v, model bad has %d", rejected, retryErrors(w, "bad"))
	}
}

// A node says why it does not take up a staged change that no command of ours has put.
func TestStagedChangeNotInForce(t *testing.T) {
	s := withCanary(t)
	w := s.watchCanary(&logbook{})
	problem := func(want string) {
		t.Helper()
		testkit.WaitFor(t, "the problem "+want, func() bool {
			staged := w.State().Staged
			return staged != nil && strings.Contains(staged.Problem, want)
		})
		if retryErrors(w, "a") != 1 || len(w.State().Rejected) > 0 {
			t.Errorf("model a has %d, rejected %v", retryErrors(w, "a"), w.State().Rejected)
		}
	}
	good := `{"ttl_seconds":60,"put":[{"key":"models/a","value":"retry: {errors: 9}"}]}`
	s.put(etcd.StagedKey(canary), good)
	problem("no lease")
	s.putStaged("retry: {errors: 9}")
	problem("no JSON")
	s.putStaged(strings.Replace(good, "60", "3600", 1))
	problem("ttl_seconds is 3600")
	s.putStaged(strings.Replace(good, "models/a", "entries/edge-2", 1))
	problem("entries/edge-2 cannot be staged")
	s.putStaged(good)
	becomes(t, w, "a", 9)
}

// A node that starts without etcd has no staged change, although it stopped with one.
func TestStagedChangeIsNotSaved(t *testing.T) {
	s := withCanary(t)
	c := etcd.Config{Client: s.client, Kinds: entryKinds, Staged: etcd.StagedKey(canary), Cache: filepath.Join(t.TempDir(), "table")}
	w, stop := watch(t, c)
	ready(t, w)
	s.stage(etcd.Edit{Put: []document.Raw{raw("models/a", "retry: {errors: 9}")}, Delete: []string{"models/c"}})
	becomes(t, w, "a", 9)
	stop() // saves the file
	s.Stop()
	c.WatchTimeout = silence
	again, _ := watch(t, c)
	ready(t, again)
	if retryErrors(again, "a") != 1 || retryErrors(again, "c") != 3 || again.State().Staged != nil {
		t.Errorf("started with %d and %d, %+v", retryErrors(again, "a"), retryErrors(again, "c"), again.State().Staged)
	}
}

// A node that hears nothing from etcd for as long as the lease lasts withdraws the staged change by its own clock, and takes it up again when
// etcd answers and still has it. As long as etcd answers, the change stays, also if nothing else changes.
func TestStagedChangeWithoutEtcd(t *testing.T) {
	s := withCanary(t)
	proxy := testkit.NewProxy(t, s.Address)
	w, _ := watch(t, etcd.Config{Client: dial(t, proxy.Address), Kinds: entryKinds, Staged: etcd.StagedKey(canary)})
	ready(t, w)
	connected := s.watchCanary(&logbook{})
	s.putStaged(`{"ttl_seconds":1,"put":[{"key":"models/a","value":"retry: {errors: 9}"}]}`)
	becomes(t, w, "a", 9)
	becomes(t, connected, "a", 9)
	tables := connected.State().Tables
	proxy.Swallow()
	becomes(t, w, "a", 1)
	if w.State().Staged != nil {
		t.Errorf("staged %+v", w.State().Staged)
	}
	if n := connected.State().Tables; retryErrors(connected, "a") != 9 || n != tables {
		t.Errorf("with etcd, model a has %d, and %d tables were built meanwhile", retryErrors(connected, "a"), n-tables)
	}
	proxy.Heal()
	becomes(t, w, "a", 9)
}

// One change at a time is staged on a node, and only on one that is registered.
func TestStageOnce(t *testing.T) {
	s := withCanary(t)
	e := etcd.Edit{Put: []document.Raw{raw("models/a", "{}")}}
	first := s.stage(e)
	bob := s.writer()
	bob.Author.User = "bob"
	var taken *etcd.AlreadyStagedError
	if _, err := bob.Stage(s.ctx(), canary, e, stagedTTL); !errors.As(err, &taken) || taken.By.User != "alice" || !strings.Contains(err.Error(), "alice@laptop: "+t.Name()) {
		t.Errorf("second: %v", err)
	}
	if _, err := bob.Stage(s.ctx(), "entries/none", e, stagedTTL); !errors.Is(err, etcd.ErrNoNode) {
		t.Errorf("a node that is not there: %v", err)
	}
	if err := first.Withdraw(s.ctx()); err != nil {
		t.Error(err)
	}
	second, err := bob.Stage(s.ctx(), canary, e, stagedTTL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.ctx())
	cancel()
	if err := second.Keep(ctx); err != nil {
		t.Errorf("Keep that was ended: %v", err)
	}
	leases, err := s.client.Leases(s.ctx())
	if err != nil || len(leases.Leases) != 1 {
		t.Errorf("leases %+v, %v: those of changes that were not staged must be gone", leases, err)
	}
}

// A change is too large to be staged if all nodes could not take it up as one.
func TestStageTooLarge(t *testing.T) {
	s := withCanary(t)
	var many etcd.Edit
	for i := range etcd.MaxTransaction + 1 {
		many.Put = append(many.Put, raw("models/m"+strings.Repeat("x", i), "{}"))
	}
	if _, err := s.writer().Stage(s.ctx(), canary, many, stagedTTL); err == nil || !strings.Contains(err.Error(), "101 documents") {
		t.Errorf("many: %v", err)
	}
	large := etcd.Edit{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		large.Put = append(large.Put, raw("models/"+name, "{} # "+strings.Repeat("x", 60<<10)))
	}
	if _, err := s.writer().Stage(s.ctx(), canary, large, stagedTTL); err == nil || !strings.Contains(err.Error(), "only 512 KiB can be staged") {
		t.Errorf("large: %v", err)
	}
}

// The commit of a staged change takes its place in one transaction, so the node has it throughout.
func TestCommitStaged(t *testing.T) {
	s := withCanary(t)
	w := s.watchCanary(&logbook{})
	snapshot, err := s.writer().Snapshot(s.ctx())
	if err != nil {
		t.Fatal(err)
	}
	e := etcd.Edit{Put: []document.Raw{raw("models/a", "retry: {errors: 9}")}}
	e.Stage = s.stage(e)
	becomes(t, w, "a", 9)
	done, err := s.writer().Commit(s.ctx(), snapshot, e)
	if err != nil || len(done) != 1 || len(done[0].Documents) != 1 {
		t.Fatalf("commit: %+v, %v", done, err)
	}
	if staged, _, err := etcd.List(s.ctx(), s.client, prefix, "staged/"); err != nil || len(staged) > 0 {
		t.Fatalf("still staged: %v, %v", staged, err)
	}
	for w.State().Staged != nil {
		changed := w.Changed()
		if retryErrors(w, "a") != 9 {
			t.Fatalf("model a has %d in between", retryErrors(w, "a"))
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Millisecond): // it was the last table
		}
	}
	if retryErrors(w, "a") != 9 {
		t.Errorf("model a has %d", retryErrors(w, "a"))
	}
	if docs, _, err := etcd.List(s.ctx(), s.client, prefix, ""); err != nil || len(docs) != 3 {
		t.Errorf("documents %v, %v", docs, err)
	}
}

// A staged change that is gone, or documents that others have changed since, are not committed, and the errors tell which it was.
func TestCommitStagedLate(t *testing.T) {
	s := withCanary(t)
	e := etcd.Edit{Put: []document.Raw{raw("models/a", "retry: {errors: 9}")}}
	e.Stage = s.stage(e)
	before, err := s.writer().Snapshot(s.ctx())
	if err != nil {
		t.Fatal(err)
	}
	s.put("models/c", "retry: {errors: 7}")
	if _, err := s.writer().Commit(s.ctx(), before, e); !errors.Is(err, etcd.ErrChanged) {
		t.Errorf("after a change of others: %v", err)
	}
	now, err := s.writer().Snapshot(s.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Stage.Withdraw(s.ctx()); err != nil {
		t.Error(err)
	}
	if _, err := s.writer().Commit(s.ctx(), now, e); !errors.Is(err, etcd.ErrStageLost) {
		t.Errorf("after the lease has ended: %v", err)
	}
	short, err := s.writer().Stage(s.ctx(), canary, etcd.Edit{Put: e.Put}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := short.Withdraw(s.ctx()); err != nil {
		t.Error(err)
	}
	if err := short.Keep(s.ctx()); !errors.Is(err, etcd.ErrStageLost) {
		t.Errorf("Keep of a lease that has ended: %v", err)
	}
}

// Of a list of everything, staged changes are no part.
func TestListWithoutStaged(t *testing.T) {
	s := withCanary(t)
	s.stage(etcd.Edit{Put: []document.Raw{raw("models/a", "{}")}})
	s.put("zebra", "after the folder of staged changes")
	docs, _, err := etcd.List(s.ctx(), s.client, prefix, "")
	var keys []string
	for _, d := range docs {
		keys = append(keys, d.Key)
	}
	if want := []string{canary, "models/a", "models/c", "zebra"}; err != nil || !slices.Equal(keys, want) {
		t.Errorf("list %v, %v; want %v", keys, err, want)
	}
	if staged, _, err := etcd.List(s.ctx(), s.client, prefix, "staged/"); err != nil || len(staged) != 1 {
		t.Errorf("staged %v, %v", staged, err)
	}
}
