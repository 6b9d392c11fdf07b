package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/internal/testkit"
)

// damaged opens a log whose earlier run left one segment with these bytes, and appends one event. It returns what can then
// be read.
func damaged(t *testing.T, data []byte) (ends map[string]int, begins map[string]int, s journal.Stats) {
	t.Helper()
	dir := t.TempDir()
	node := filepath.Join(dir, "events", "ams-1")
	if err := os.MkdirAll(node, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(node, "1.log"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, journal.Config{Dir: dir})
	l.Append(inference("after", analytics.PhaseEnd))
	s = l.Stats()
	closeLog(t, l)
	begins, ends, _ = phases(t, dir)
	return ends, begins, s
}

// segmentOf returns a segment in which the requests r0, r1, … have ended, except the last, and the offset of the last
// lines of it.
func segmentOf(t *testing.T, requests, lines int) (data []byte, tail int) {
	t.Helper()
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	for i := range requests {
		l.Append(inference(fmt.Sprintf("r%d", i), analytics.PhaseBegin))
		if i < requests-1 {
			l.Append(inference(fmt.Sprintf("r%d", i), analytics.PhaseEnd))
		}
	}
	closeLog(t, l)
	data, err := os.ReadFile(files(t, dir, "1.log")[0])
	if err != nil {
		t.Fatal(err)
	}
	tail = len(data) - 1
	for range lines {
		tail = bytes.LastIndexByte(data[:tail], '\n')
	}
	return data, tail + 1
}

// A segment may be cut at any byte of its last lines (outside a soak, at each fifth from a random one): the events before are read, each begin has one end, and later
// events are kept.
func TestCutAtEveryByte(t *testing.T) {
	t.Parallel()
	const requests = 6
	data, tail := segmentOf(t, requests, 4)
	step := testkit.AtScale(5, 1)
	for cut := tail + rand.IntN(step); cut <= len(data); cut += step {
		ends, begins, s := damaged(t, data[:cut])
		whole := bytes.Count(data[:cut], []byte{'\n'})
		if got := len(begins); got != (whole+1)/2 {
			t.Fatalf("cut at %d of %d: %d begins are left, want %d", cut, len(data), got, (whole+1)/2)
		}
		for r := range begins {
			if ends[r] != 1 {
				t.Fatalf("cut at %d of %d: %s has %d ends", cut, len(data), r, ends[r])
			}
		}
		if ends["after"] != 1 || len(ends) != len(begins)+1 || s.Torn > 1 {
			t.Fatalf("cut at %d of %d: ends %v, stats %+v", cut, len(data), ends, s)
		}
	}
}

// Any flipped bit is noticed; the other lines are read, and each begin that is left has one end.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	const requests = 6
	data, tail := segmentOf(t, requests, 4)
	step := testkit.AtScale(5, 1)
	for at := tail + rand.IntN(step); at < len(data); at += step {
		flipped := bytes.Clone(data)
		flipped[at] ^= 1 << (at % 8)
		ends, begins, s := damaged(t, flipped)
		// A lost newline costs two lines, and a new one cuts a line in two.
		if len(begins) < requests-1 || s.Torn > 2 {
			t.Fatalf("bit of byte %d: %d begins are left, stats %+v", at, len(begins), s)
		}
		for r := range begins {
			if ends[r] != 1 {
				t.Fatalf("bit of byte %d: %s has %d ends", at, r, ends[r])
			}
		}
		if ends["after"] != 1 {
			t.Fatalf("bit of byte %d: ends %v", at, ends)
		}
	}
}

// fileLimit bounds the size of files that this process writes, until the returned function is called.
func fileLimit(t *testing.T, n uint64) (lift func()) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	set := func(l syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
	}
	set(syscall.Rlimit{Cur: n, Max: old.Max})
	return func() { set(old) }
}

const fullDiskVariable = "JOURNAL_TEST_FULL_DISK"

// TestRestartOnFullDisk runs TestInFullDisk in a process of its own, since the bound applies to all files of a process.
func TestRestartOnFullDisk(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=^TestInFullDisk$", "-test.v")
	child.Env = append(os.Environ(), fullDiskVariable+"="+t.TempDir())
	if out, err := child.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestInFullDisk")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// A node starts on a full disk, and ends the open requests of the earlier run once there is room.
func TestInFullDisk(t *testing.T) {
	dir := os.Getenv(fullDiskVariable)
	if dir == "" {
		return
	}
	l := open(t, journal.Config{Dir: dir})
	l.Append(inference("bill", analytics.PhaseBegin))
	l.Append(request("request", analytics.PhaseBegin, ""))
	closeLog(t, l)
	for range 2 { // also repeatedly
		lift := fileLimit(t, 10)
		l, err := journal.Open(journal.Config{Dir: dir, Node: "ams-1"})
		if err != nil {
			lift()
			t.Fatal(err)
		}
		l.Append(inference("lost", analytics.PhaseEnd))
		l.Append(request("more", analytics.PhaseBegin, ""))
		l.Append(request("more", analytics.PhaseEnd, analytics.OutcomeCompleted))
		lift()
		if s := l.Stats(); s.Crashed != 0 || s.OpenBegins != 2 || s.Dropped.Total() != 2 || s.Errors != 4 {
			t.Errorf("stats on a full disk: %+v", s)
		}
		closeLog(t, l)
	}
	l = open(t, journal.Config{Dir: dir})
	if s := l.Stats(); s.Crashed != 2 || s.OpenBegins != 0 {
		t.Errorf("stats with room: %+v", s)
	}
	closeLog(t, l)

	// Room comes while the node runs.
	l = open(t, journal.Config{Dir: dir})
	l.Append(inference("bill 2", analytics.PhaseBegin))
	l.Append(request("request 2", analytics.PhaseBegin, ""))
	closeLog(t, l)
	lift := fileLimit(t, 10)
	l, err := journal.Open(journal.Config{Dir: dir, Node: "ams-1"})
	lift()
	if err != nil {
		t.Fatal(err)
	}
	l.Append(request("new", analytics.PhaseBegin, "")) // starts a segment of begins
	l.Append(inference("after", analytics.PhaseEnd))
	if s := l.Stats(); s.Crashed != 2 || s.OpenBegins != 1 {
		t.Errorf("stats once there is room: %+v", s)
	}
	l.Append(request("new", analytics.PhaseEnd, analytics.OutcomeCompleted))
	closeLog(t, l)
	closeLog(t, open(t, journal.Config{Dir: dir}))
	if got := outcomes(t, dir); got[analytics.OutcomeCrashed] != 4 || got[analytics.OutcomeCompleted] != 2 {
		t.Errorf("ends: %v", got)
	}
}

// On a file system that is really full, every event is kept or counted, lines are complete, and new room is used.
func TestFullFileSystem(t *testing.T) {
	dir := smallDisk(t, 64)
	l, err := journal.Open(journal.Config{Dir: dir, Node: "ams-1", SegmentBytes: 8 << 10, MaxBytes: 1 << 20}) // more than the file system has
	if err != nil {
		t.Fatal(err)
	}
	const requests = 500
	for i := range requests {
		l.Append(inference(fmt.Sprintf("r%d", i), analytics.PhaseEnd))
	}
	full := l.Stats()
	got, bad := read(t, dir)
	if full.Errors == 0 || full.Dropped.Total() != full.Errors || uint64(len(got))+full.Dropped.Total() != requests || bad != 0 {
		t.Errorf("%d events on disk of %d, %d bad lines; %+v", len(got), requests, bad, full)
	}
	if err := errors.Join(os.Remove(files(t, dir, "1.log")[0]), os.Remove(files(t, dir, "2.log")[0])); err != nil {
		t.Fatal(err)
	}
	l.Append(inference("after", analytics.PhaseEnd))
	if s := l.Stats(); s.Dropped != full.Dropped {
		t.Errorf("there is room, and an event was dropped: %+v", s)
	}
	got, bad = read(t, dir)
	if got[len(got)-1].RequestID != "after" || bad != 0 {
		t.Errorf("last event is of %s; %d bad lines", got[len(got)-1].RequestID, bad)
	}
	closeLog(t, l)
}
