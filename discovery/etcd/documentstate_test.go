package etcd

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
)

// stateTest is a ledger with a store of its own making and a clock.
type stateTest struct {
	*documentState
	t        *testing.T
	log      *bytes.Buffer
	now      time.Time
	revision int64
}

func newStateTest(t *testing.T) *stateTest {
	var log bytes.Buffer
	b := &stateTest{t: t, log: &log, now: time.Unix(1000, 0)}
	b.documentState = newDocumentState(slog.New(slog.NewTextHandler(&log, nil)))
	return b
}

func (b *stateTest) write(key, value string, leased bool) int64 {
	b.revision++
	b.put(Stored{Key: key, Value: []byte(value), Revision: b.revision, Leased: leased}, b.now)
	return b.revision
}

func (b *stateTest) erase(keys ...string) int64 {
	b.revision++
	for _, key := range keys {
		b.remove(key, b.revision, b.now)
	}
	return b.revision
}

func (b *stateTest) after(d time.Duration) *fleet.Table {
	b.now = b.now.Add(d)
	return b.table(b.now)
}

// models puts n models and returns their keys.
func (b *stateTest) models(n int) []string {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf("models/m%03d", i))
		b.write(keys[i], "{}", false)
	}
	b.after(0)
	return keys
}

func (b *stateTest) confirm(revision int64) {
	b.write("deletions", fmt.Sprintf("confirmed: %d", revision), false)
}

func (b *stateTest) want(what string, got, want []string) {
	b.t.Helper()
	if !slices.Equal(got, want) {
		b.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (b *stateTest) wantLogged(text string, times int) {
	b.t.Helper()
	if got := strings.Count(b.log.String(), text); got != times {
		b.t.Errorf("told %d times %q, want %d, in:\n%s", got, text, times, b.log)
	}
}

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
		each.wantLogged("too many documents were deleted", min(wantHeld, 1)*min(deleted-firstHeld(there)+1, toldMost))
	}
	f(12, 9, 0)
	f(12, 10, 10)
	f(20, 10, 0)
	f(20, 11, 11)
	f(20, 20, 20)
	f(9, 9, 0)
	f(10, 10, 10)
}

// firstHeld is which deletion, of so many documents, is the first too many.
func firstHeld(there int) int { return max(minHeldBack, there/2+1) }

// What was deleted more than a minute ago is no part of it.
func TestMassDeletionWindow(t *testing.T) {
	f := func(pause time.Duration, want int) {
		t.Helper()
		b := newStateTest(t)
		keys := b.models(20)
		b.erase(keys[:10]...)
		if table := b.after(0); len(table.Models()) != 10 {
			t.Errorf("%d models after half was deleted", len(table.Models()))
		}
		b.after(pause)
		b.erase(keys[10])
		b.want(pause.String(), b.after(0).PendingDeletions, keys[:want])
	}
	f(holdWindow, 11)
	f(holdWindow+time.Millisecond, 0)
}

// Each kind is counted for itself; documents with a lease are neither counted nor held; nor are those that never were good.
func TestMassDeletionCounts(t *testing.T) {
	b := newStateTest(t)
	var all []string
	for i := range 6 {
		for _, kind := range []string{"models/", "pools/"} {
			all = append(all, fmt.Sprintf("%sm%d", kind, i))
			b.write(all[len(all)-1], "{}", false)
		}
	}
	for i := range 20 {
		all = append(all, fmt.Sprintf("accounts/a%d", i), fmt.Sprintf("endpoints/ams/e%d", i), fmt.Sprintf("entries/e%d", i))
		b.write(fmt.Sprintf("accounts/a%d", i), "x: 1", false)
		b.write(fmt.Sprintf("endpoints/ams/e%d", i), fmt.Sprintf("{url: 'http://h%d', pool: p, concurrency: 0}", i), true)
		b.write(fmt.Sprintf("entries/e%d", i), "address: 'h:1'", true)
	}
	b.after(0)
	b.erase(all...)
	table := b.after(0)
	if len(table.PendingDeletions) > 0 || len(b.docs.Known()) > 0 {
		t.Errorf("held %q, known %q", table.PendingDeletions, b.docs.Known())
	}

	// Leased ones do not make the others fewer than half.
	var static []string
	for i := range 12 {
		static = append(static, fmt.Sprintf("endpoints/ams/s%02d", i))
		b.write(static[i], fmt.Sprintf("{url: 'http://s%d', pool: p}", i), false)
	}
	for i := range 20 {
		b.write(fmt.Sprintf("endpoints/ams/e%d", i), fmt.Sprintf("{url: 'http://h%d', pool: p}", i), true)
	}
	b.after(2 * holdWindow)
	b.erase(static[:10]...)
	b.want("static endpoints", b.after(0).PendingDeletions, static[:10])
}

// The last good version is kept of a document that was bad when it was deleted.
func TestMassDeletionOfBadDocuments(t *testing.T) {
	b := newStateTest(t)
	keys := b.models(10)
	for _, key := range keys {
		b.write(key, "x: 1", false)
	}
	b.after(0)
	b.erase(keys...)
	if table := b.after(0); len(table.Models()) != 10 || len(table.Rejected) != 0 || len(table.PendingDeletions) != 10 {
		t.Errorf("%d models, rejected %v, held %q", len(table.Models()), table.Rejected, table.PendingDeletions)
	}
}

func TestPutAgain(t *testing.T) {
	b := newStateTest(t)
	keys := b.models(20)
	b.erase(keys[:11]...)
	b.after(0)
	b.write(keys[0], "{}", false) // the same as before
	b.write(keys[1], "retry: {errors: 9}", false)
	b.write(keys[2], "x: 1", false) // bad
	table := b.after(0)
	b.want("held", table.PendingDeletions, keys[3:11])
	if m, _ := table.Model("m001"); m.Retry.Errors != 9 || len(table.Models()) != 20 || len(table.Rejected) != 1 || !table.Rejected[0].LastGood {
		t.Errorf("%d models, %+v, rejected %+v", len(table.Models()), m, table.Rejected)
	}
	// What is there again may be deleted again.
	b.now = b.now.Add(2 * holdWindow)
	b.erase(keys[:2]...)
	b.want("held", b.after(0).PendingDeletions, keys[3:11])
	if _, ok := b.table(b.now).Model("m000"); ok {
		t.Error("m000 is still there")
	}
}

func TestConfirmed(t *testing.T) {
	b := newStateTest(t)
	keys := b.models(40)
	first := b.erase(keys[:21]...)
	b.confirm(first - 1)
	b.want("before it", b.after(0).PendingDeletions, keys[:21])
	b.confirm(first)
	if table := b.after(0); len(table.PendingDeletions) > 0 || len(table.Models()) != 19 {
		t.Errorf("held %q, %d models", table.PendingDeletions, len(table.Models()))
	}
	b.wantLogged("deletions that were held back are confirmed", 1)

	// What is deleted later is not covered, whatever number was confirmed.
	b.confirm(1 << 40)
	b.after(0)
	b.erase(keys[21:32]...)
	b.want("later", b.after(0).PendingDeletions, keys[21:32])
	b.confirm(1 << 40)
	if table := b.after(0); len(table.PendingDeletions) > 0 || len(table.Models()) != 8 {
		t.Errorf("held %q, %d models", table.PendingDeletions, len(table.Models()))
	}
}

// A confirmation that comes together with the deletions, or before they are seen.
func TestConfirmedAtOnce(t *testing.T) {
	b := newStateTest(t)
	keys := b.models(20)
	b.revision += 2
	b.confirm(b.revision)
	for _, key := range keys {
		b.remove(key, b.revision-2, b.now)
	}
	if table := b.after(0); len(table.PendingDeletions) > 0 || len(table.Models()) > 0 {
		t.Errorf("held %q, %d models", table.PendingDeletions, len(table.Models()))
	}
	b.wantLogged("too many", 0)
}

// What was confirmed does not count when more is deleted.
func TestConfirmedDoesNotCount(t *testing.T) {
	b := newStateTest(t)
	keys := b.models(20)
	b.confirm(b.erase(keys[:10]...))
	b.after(0)
	b.erase(keys[10])
	if table := b.after(0); len(table.PendingDeletions) > 0 || len(table.Models()) != 9 {
		t.Errorf("held %q, %d models", table.PendingDeletions, len(table.Models()))
	}
}

// One subject has a few lines a minute in the log; then it is said how many were left out.
func TestBoundedLog(t *testing.T) {
	b := newStateTest(t)
	b.write("models/a", "{}", false)
	b.write("models/b", "{}", false)
	for i := range 1000 {
		b.write("models/a", fmt.Sprintf("retry: {errors: -%d}", i+1), false)
		b.write("models/a", "{}", false)
	}
	b.write("models/b", "x: 1", false)
	b.wantLogged("key=models/a", toldMost)
	b.wantLogged("key=models/b", 1)
	b.now = b.now.Add(toldEvery)
	b.write("models/a", "x: 1", false)
	b.wantLogged("key=models/a", toldMost+1)
	b.wantLogged(fmt.Sprintf("lines_left_out=%d", 1000-toldMost), 1)

	// Subjects that are quiet are forgotten.
	for i := range 1000 {
		b.write(fmt.Sprintf("models/n%d", i), "x: 1", false)
	}
	b.now = b.now.Add(2 * toldEvery)
	b.write("models/a", "x: 2", false)
	if got := len(b.limiter.tallies); got > 1 {
		t.Errorf("%d subjects are remembered", got)
	}
}
