package etcd

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
)

// stateTest is a documentState with a store and a clock that the test controls.
type stateTest struct {
	*documentState
	t        *testing.T
	log      *bytes.Buffer
	now      time.Time
	revision int64
	store    map[string]Stored
}

func newStateTest(t *testing.T) *stateTest {
	var log bytes.Buffer
	s := &stateTest{t: t, log: &log, now: time.Unix(1000, 0), store: map[string]Stored{}}
	s.documentState = newDocumentState(slog.New(slog.NewTextHandler(&log, nil)))
	return s
}

func (s *stateTest) write(key, value string, leased bool) int64 {
	s.revision++
	s.beginRevision(s.revision, s.now)
	d := Stored{Key: key, Value: []byte(value), Revision: s.revision, Created: s.revision, Leased: leased}
	if old, there := s.store[key]; there {
		d.Created = old.Created
	}
	s.store[key] = d
	s.put(d, s.now)
	return s.revision
}

func (s *stateTest) erase(keys ...string) int64 {
	s.revision++
	s.beginRevision(s.revision, s.now)
	for _, key := range keys {
		s.remove(key, s.revision, s.now)
		delete(s.store, key)
	}
	return s.revision
}

func (s *stateTest) after(d time.Duration) *fleet.Table {
	s.now = s.now.Add(d)
	return s.table(s.now)
}

// models puts n models and returns their keys.
func (s *stateTest) models(n int) []string {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf("models/m%03d", i))
		s.write(keys[i], "{}", false)
	}
	s.after(0)
	return keys
}

func (s *stateTest) confirm(revision int64) {
	s.write("deletions", fmt.Sprintf("confirmed: %d", revision), false)
}

func (s *stateTest) want(what string, got, want []string) {
	s.t.Helper()
	if !slices.Equal(got, want) {
		s.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (s *stateTest) wantLogged(text string, times int) {
	s.t.Helper()
	if got := strings.Count(s.log.String(), text); got != times {
		s.t.Errorf("logged %d times %q, want %d, in:\n%s", got, text, times, s.log)
	}
}

// Deletions are held back from the third on, if they are more than half of a kind; at once or one by one.
func TestMassDeletionThresholds(t *testing.T) {
	f := func(there, deleted, wantHeld int) {
		t.Helper()
		atOnce := newStateTest(t)
		keys := atOnce.models(there)
		atOnce.erase(keys[:deleted]...)
		table := atOnce.after(time.Millisecond)
		atOnce.want(fmt.Sprintf("%d of %d at once", deleted, there), table.PendingDeletions, keys[:wantHeld])
		if got := len(table.Models()); got != there-deleted+wantHeld {
			t.Errorf("%d of %d at once: %d are in force", deleted, there, got)
		}

		each := newStateTest(t)
		each.models(there)
		for _, key := range keys[:deleted] {
			each.erase(key)
			table = each.after(time.Second)
		}
		each.want(fmt.Sprintf("%d of %d one by one", deleted, there), table.PendingDeletions, keys[:wantHeld])
		if got := len(table.Models()); got != there-deleted+wantHeld {
			t.Errorf("%d of %d one by one: %d are in force", deleted, there, got)
		}
		each.wantLogged("too many documents deleted", min(wantHeld, 1)*min(deleted-firstHeld(there)+1, logBurst))
	}
	f(12, 6, 0)
	f(12, 7, 7)
	f(12, 10, 10)
	f(20, 10, 0)
	f(20, 11, 11)
	f(20, 20, 20)
	f(9, 4, 0)
	f(9, 9, 9)
	f(10, 10, 10)
	f(3, 2, 0)
	f(3, 3, 3)
	f(4, 3, 3)
	f(5, 2, 0)
	f(5, 3, 3)
}

// firstHeld returns which deletion, of so many documents, is the first too many.
func firstHeld(there int) int { return max(minHeldBack, there/2+1) }

// Deletions count for a minute.
func TestMassDeletionWindow(t *testing.T) {
	f := func(pause time.Duration, want int) {
		t.Helper()
		s := newStateTest(t)
		keys := s.models(20)
		s.erase(keys[:10]...)
		if table := s.after(0); len(table.Models()) != 10 {
			t.Errorf("%d models after half was deleted", len(table.Models()))
		}
		s.after(pause)
		s.erase(keys[10])
		s.want(pause.String(), s.after(0).PendingDeletions, keys[:want])
	}
	f(holdWindow, 11)
	f(holdWindow+time.Millisecond, 0)
}

// Flows are documents of operators like all others.
func TestMassDeletionOfFlows(t *testing.T) {
	s := newStateTest(t)
	var keys []string
	for i := range 10 {
		keys = append(keys, fmt.Sprintf("flows/m%d", i))
		s.write(keys[i], "regions: {weur: {ams: 1}}", false)
	}
	s.after(0)
	s.erase(keys...)
	table := s.after(0)
	s.want("flows", table.PendingDeletions, keys)
	if _, ok := table.Flow("m0"); !ok {
		t.Error("a flow is gone before its deletion is confirmed")
	}
	s.confirm(s.revision)
	if _, ok := s.after(0).Flow("m0"); ok {
		t.Error("a flow is there after its deletion was confirmed")
	}
}

// Kinds are counted apart; documents with a lease, and those that never were good, are neither counted nor held back.
func TestMassDeletionCountsOperatorsDocumentsByKind(t *testing.T) {
	s := newStateTest(t)
	var all []string
	for i := range 3 { // two of three are none too many
		for _, kind := range []string{"models/", "pools/"} {
			key := fmt.Sprintf("%sm%d", kind, i)
			s.write(key, "{}", false)
			if i > 0 {
				all = append(all, key)
			}
		}
	}
	for i := range 20 {
		all = append(all, fmt.Sprintf("accounts/a%d", i), fmt.Sprintf("endpoints/ams/e%d", i), fmt.Sprintf("entries/e%d", i))
		s.write(fmt.Sprintf("accounts/a%d", i), "x: 1", false)
		s.write(fmt.Sprintf("endpoints/ams/e%d", i), fmt.Sprintf("{url: 'http://h%d', pool: p, concurrency: 0}", i), true)
		s.write(fmt.Sprintf("entries/e%d", i), "address: 'h:1'", true)
	}
	s.after(0)
	s.erase(all...)
	table := s.after(0)
	if known := s.docs.Known(); len(table.PendingDeletions) > 0 || !slices.Equal(known, []string{"models/m0", "pools/m0"}) {
		t.Errorf("pending %q, known %q", table.PendingDeletions, known)
	}

	// Leased ones do not make the others fewer than half.
	var static []string
	for i := range 12 {
		static = append(static, fmt.Sprintf("endpoints/ams/s%02d", i))
		s.write(static[i], fmt.Sprintf("{url: 'http://s%d', pool: p}", i), false)
	}
	for i := range 20 {
		s.write(fmt.Sprintf("endpoints/ams/e%d", i), fmt.Sprintf("{url: 'http://h%d', pool: p}", i), true)
	}
	s.after(2 * holdWindow)
	s.erase(static[:10]...)
	s.want("static endpoints", s.after(0).PendingDeletions, static[:10])
}

// Of a document that was bad when it was deleted, the last good version is held back.
func TestMassDeletionOfBadDocuments(t *testing.T) {
	s := newStateTest(t)
	keys := s.models(10)
	for _, key := range keys {
		s.write(key, "x: 1", false)
	}
	s.after(0)
	s.erase(keys...)
	if table := s.after(0); len(table.Models()) != 10 || len(table.Rejected) != 0 || len(table.PendingDeletions) != 10 {
		t.Errorf("%d models, rejected %v, pending %q", len(table.Models()), table.Rejected, table.PendingDeletions)
	}
}

// A document that is put again is no pending deletion any more, even if it is bad, and may be deleted again.
func TestPutAgainEndsPendingDeletion(t *testing.T) {
	s := newStateTest(t)
	keys := s.models(20)
	s.erase(keys[:11]...)
	s.after(0)
	s.write(keys[0], "{}", false) // the same as before
	s.write(keys[1], "retry: {errors: 9}", false)
	s.write(keys[2], "x: 1", false) // bad
	table := s.after(0)
	s.want("pending", table.PendingDeletions, keys[3:11])
	if m, _ := table.Model("m001"); m.Retry.Errors != 9 || len(table.Models()) != 20 || len(table.Rejected) != 1 || !table.Rejected[0].LastGood {
		t.Errorf("%d models, %+v, rejected %+v", len(table.Models()), m, table.Rejected)
	}
	// A document that is there again may be deleted again.
	s.now = s.now.Add(2 * holdWindow)
	s.erase(keys[:2]...)
	s.want("pending", s.after(0).PendingDeletions, keys[3:11])
	if _, ok := s.table(s.now).Model("m000"); ok {
		t.Error("m000 is still there")
	}
}

// A confirmation covers the deletions up to its revision, and none that is noticed after it was put.
func TestConfirmationCoversDeletionsBeforeIt(t *testing.T) {
	s := newStateTest(t)
	keys := s.models(40)
	first := s.erase(keys[:21]...)
	s.confirm(first - 1)
	s.want("before it", s.after(0).PendingDeletions, keys[:21])
	s.confirm(first)
	if table := s.after(0); len(table.PendingDeletions) > 0 || len(table.Models()) != 19 {
		t.Errorf("pending %q, %d models", table.PendingDeletions, len(table.Models()))
	}
	s.wantLogged("pending deletions confirmed", 1)

	// Later deletions are not covered, whatever number was confirmed.
	s.confirm(1 << 40)
	s.after(0)
	s.erase(keys[21:32]...)
	s.want("later", s.after(0).PendingDeletions, keys[21:32])
	s.confirm(1 << 40)
	if table := s.after(0); len(table.PendingDeletions) > 0 || len(table.Models()) != 8 {
		t.Errorf("pending %q, %d models", table.PendingDeletions, len(table.Models()))
	}
}

// Deletions that are confirmed before they are noticed are never held back.
func TestConfirmationSeenBeforeDeletions(t *testing.T) {
	s := newStateTest(t)
	keys := s.models(20)
	s.revision += 2
	s.confirm(s.revision)
	for _, key := range keys {
		s.remove(key, s.revision-2, s.now)
	}
	if table := s.after(0); len(table.PendingDeletions) > 0 || len(table.Models()) > 0 {
		t.Errorf("pending %q, %d models", table.PendingDeletions, len(table.Models()))
	}
	s.wantLogged("too many", 0)
}

// Confirmed deletions do not count when more documents are deleted.
func TestConfirmedDeletionsDoNotCount(t *testing.T) {
	s := newStateTest(t)
	keys := s.models(20)
	s.confirm(s.erase(keys[:10]...))
	s.after(0)
	s.erase(keys[10])
	if table := s.after(0); len(table.PendingDeletions) > 0 || len(table.Models()) != 9 {
		t.Errorf("pending %q, %d models", table.PendingDeletions, len(table.Models()))
	}
}

// A document that goes on changing causes few lines in the log, and the next one says how many were suppressed.
func TestLogIsBoundedByDocument(t *testing.T) {
	s := newStateTest(t)
	s.write("models/a", "{}", false)
	s.write("models/b", "{}", false)
	for i := range 1000 {
		s.write("models/a", fmt.Sprintf("retry: {errors: -%d}", i+1), false)
		s.write("models/a", "{}", false)
	}
	s.write("models/b", "x: 1", false)
	s.wantLogged("key=models/a", logBurst)
	s.wantLogged("key=models/b", 1)
	s.now = s.now.Add(logInterval)
	s.write("models/a", "x: 1", false)
	s.wantLogged("key=models/a", logBurst+1)
	s.wantLogged(fmt.Sprintf("lines_suppressed=%d", 1000-logBurst), 1)

	// Quiet documents are forgotten.
	for i := range 1000 {
		s.write(fmt.Sprintf("models/n%d", i), "x: 1", false)
	}
	s.now = s.now.Add(2 * logBurst * logInterval)
	s.write("models/a", "x: 2", false)
	if got := len(s.limiter.subjects); got > 1 {
		t.Errorf("%d subjects are remembered", got)
	}
}

// BenchmarkTableBesideAPIKeys measures a change of a model, or of an API key, and the table after it, beside many API keys.
func BenchmarkTableBesideAPIKeys(b *testing.B) {
	now := time.Unix(1000, 0)
	for _, n := range []int{100, 100_000} {
		before := heapInUse()
		s := newDocumentState(slog.New(slog.DiscardHandler))
		for i := range n {
			value := apiKeyDocument(fmt.Sprintf("a%d", i/10), fmt.Sprintf("k%d", i))
			s.put(Stored{Key: fmt.Sprintf("keys/k%d", i), Value: []byte(value), Revision: 1}, now)
		}
		s.table(now)
		memory := float64(heapInUse()-before) / float64(n)
		for _, key := range []string{"models/m", "keys/k7"} {
			revision := int64(1)
			b.Run(fmt.Sprintf("%s/keys=%d", kindOf(key), n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					revision++
					value := fmt.Sprintf("upstream_name: m%d", revision)
					if key != "models/m" {
						value = apiKeyDocument("acme", fmt.Sprint(revision))
					}
					s.put(Stored{Key: key, Value: []byte(value), Revision: revision}, now)
					s.table(now)
				}
				b.ReportMetric(memory, "B/key")
			})
		}
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
