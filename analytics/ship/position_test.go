package ship_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/analytics/journal"
	"colonnade/analytics/ship"
	"colonnade/internal/testkit"
)

// Two processes do not ship under one name, and a position that cannot be read is an error that names the file.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	openJournal(t, journal.Config{Dir: dir})
	first := open(t, config(dir), &sink{})
	if _, err := ship.Open(config(dir), &sink{}); !errors.Is(err, ship.ErrInUse) {
		t.Errorf("a second shipper: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	path := positionPath(dir)
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ship.Open(config(dir), &sink{}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged position: %v", err)
	}
}

// A position that cannot be saved is reported, and events go on.
func TestPositionThatCannotBeSaved(t *testing.T) {
	dir := t.TempDir()
	l := openJournal(t, journal.Config{Dir: dir})
	appendEvents(l, 0, 5)
	s := open(t, config(dir), &sink{})
	end := run(t, s)
	testkit.WaitFor(t, "the first events", func() bool { return s.Stats().Shipped == 5 })
	below := filepath.Join(dir, "ship", "ams-1")
	if err := os.RemoveAll(below); err != nil {
		t.Fatal(err)
	}
	appendEvents(l, 5, 10)
	testkit.WaitFor(t, "an unsaved position", func() bool { stats := s.Stats(); return stats.Unsaved != "" && stats.Shipped == 10 })
	if err := os.MkdirAll(below, 0o750); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, "a saved position without another event", func() bool { return s.Stats().Unsaved == "" })
	appendEvents(l, 10, 15)
	testkit.WaitFor(t, "further events", func() bool { stats := s.Stats(); return stats.Unsaved == "" && stats.Shipped == 15 })
	end()
}

// Events that cannot be read hold back no others, and are not blamed on the sink.
func TestEventsThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	l := openJournal(t, journal.Config{Dir: dir})
	appendEvents(l, 0, 5) // of which 0 and 3 are refusals
	found, err := filepath.Glob(filepath.Join(dir, "events", "ams-1", "refused-*.log"))
	if err != nil || len(found) != 1 {
		t.Fatalf("segments of refusals: %q, %v", found, err)
	}
	segment := found[0]
	if err := errors.Join(os.Rename(segment, segment+".away"), os.Mkdir(segment, 0o700)); err != nil { // a test that runs as root may read everything else
		t.Fatal(err)
	}
	to := &sink{}
	s := open(t, config(dir), to)
	end := run(t, s)
	testkit.WaitFor(t, "the events that can be read", func() bool { return s.Stats().Shipped == 3 })
	testkit.WaitFor(t, "the error", func() bool { return strings.Contains(s.Stats().Unreadable, segment) })
	if stats := s.Stats(); stats.Failing != "" || stats.Failures > 0 || stats.Shipped != 3 {
		t.Errorf("the sink is blamed: %+v", stats)
	}
	if err := errors.Join(os.Remove(segment), os.Rename(segment+".away", segment)); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, "all events", func() bool { stats := s.Stats(); return stats.Shipped == 5 && stats.Unreadable == "" })
	end()
	if got := fmt.Sprint(to.taken()); got != "[1 2 4 0 3]" {
		t.Errorf("the sink has %s", got)
	}
}

// syncing is a sink that has events in memory until it is flushed.
type syncing struct {
	sink
	fails  bool
	synced atomic.Int64 // events
	calls  atomic.Int64 // of Sync
}

func (s *syncing) Sync() error {
	s.calls.Add(1)
	taken := len(s.taken())
	if s.fails && taken > 0 {
		return errors.New("the disk is broken")
	}
	s.synced.Store(int64(taken))
	return nil
}

func positionPath(dir string) string { return filepath.Join(dir, "ship", "ams-1", "test.json") }
func recentPath(dir string) string   { return filepath.Join(dir, "ship", "ams-1", "test.recent") }

// position returns how many events are before the position in a file; 0 without one.
func position(t *testing.T, path string) (events int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	var p struct{ Cursor journal.Cursor }
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		t.Error(err)
	}
	return p.Cursor.Billing.Finals + p.Cursor.Requests.Finals + p.Cursor.Refusals.Finals
}

// The position that counts after a loss of power is never ahead of what the sink has flushed, follows it without further events, and costs
// no flush for each batch.
func TestPositionFollowsTheFlush(t *testing.T) {
	dir, to := t.TempDir(), &syncing{}
	l := openJournal(t, journal.Config{Dir: dir})
	check := func() {
		if durable, synced := position(t, positionPath(dir)), int(to.synced.Load()); durable > synced {
			t.Errorf("the position is behind %d events, and %d were flushed", durable, synced)
		}
	}
	to.send = func(*ship.Batch) error { check(); return nil }
	began := time.Now()
	end := run(t, open(t, config(dir), to))
	for i := range 3 {
		appendEvents(l, 100*i, 100*i+100)
		testkit.WaitFor(t, "a durable position", func() bool { check(); return position(t, positionPath(dir)) == 100*i+100 })
	}
	end()
	check()
	wantTaken(t, &to.sink, numbers(0, 300))
	if calls, most := to.calls.Load(), int64(time.Since(began)/time.Second)+2; calls > most { // with those of Open and Close
		t.Errorf("%d flushes for %d batches, want one a second, at most %d", calls, len(to.ids), most)
	}
}

// After a loss of power, events are sent again from the durable position; after a kill, from the one behind the last batch.
func TestPositionAfterALossOfPower(t *testing.T) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Skip("this system has no id of its boot: ", err)
	}
	dir := t.TempDir()
	l := openJournal(t, journal.Config{Dir: dir})
	appendEvents(l, 0, 20)
	shipOnce(t, config(dir), &syncing{})
	durable := read(t, positionPath(dir))
	appendEvents(l, 20, 50)
	shipOnce(t, config(dir), &syncing{})
	recent := read(t, recentPath(dir))
	for id, want := range map[string]int{strings.TrimSpace(string(boot)): 50, "another": 20, "": 20} {
		for path, text := range map[string]string{positionPath(dir): durable, recentPath(dir): strings.Replace(recent, strings.TrimSpace(string(boot)), id, 1)} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		again := &syncing{}
		shipOnce(t, config(dir), again)
		wantTaken(t, &again.sink, numbers(want, 50))
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A process that is killed continues behind its last batch, also one that has not flushed since; one without its first position begins anew.
func TestPositionAfterAKill(t *testing.T) {
	if _, err := os.Stat("/proc/sys/kernel/random/boot_id"); err != nil {
		t.Skip("this system has no id of its boot: ", err)
	}
	dir, killed := t.TempDir(), t.TempDir()
	l := openJournal(t, journal.Config{Dir: dir})
	end := run(t, open(t, config(dir), &syncing{}))
	for i := range 3 {
		appendEvents(l, 100*i, 100*i+100)
		testkit.WaitFor(t, "the position", func() bool { return position(t, recentPath(dir)) == 100*i+100 })
	}
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	end()
	again := &syncing{}
	shipOnce(t, config(killed), again)
	wantTaken(t, &again.sink, nil)
	if err := os.Remove(positionPath(killed)); err != nil {
		t.Fatal(err)
	}
	again = &syncing{}
	shipOnce(t, config(killed), again)
	wantTaken(t, &again.sink, numbers(0, 300))
}

// Events of which a flush has failed are sent again by the next process.
func TestFailedFlush(t *testing.T) {
	dir := t.TempDir()
	l := openJournal(t, journal.Config{Dir: dir})
	appendEvents(l, 0, 20)
	shipOnce(t, config(dir), &syncing{})
	appendEvents(l, 20, 50)
	s := open(t, config(dir), &syncing{fails: true})
	end := run(t, s)
	testkit.WaitFor(t, "the problem", func() bool { return strings.Contains(s.Stats().Unsaved, "the disk is broken") })
	appendEvents(l, 50, 60)
	testkit.WaitFor(t, "further events", func() bool { return s.Stats().Shipped == 40 })
	appendEvents(l, 60, 70)
	testkit.WaitFor(t, "a batch after the position was saved again", func() bool { return s.Stats().Shipped == 50 })
	if durable, recent := position(t, positionPath(dir)), position(t, recentPath(dir)); durable != 20 || recent != 0 {
		t.Errorf("a process that is killed now continues behind %d or %d events, want 20 and no other", durable, recent)
	}
	end()
	again := &syncing{}
	shipOnce(t, config(dir), again)
	wantTaken(t, &again.sink, numbers(20, 70))
}
