package journal_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/internal/testkit"
)

// zerosIn returns the number of zeros in the files of a directory.
func zerosIn(t *testing.T, dir string) (zeros int) {
	t.Helper()
	for _, path := range files(t, dir, "*.log") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		zeros += bytes.Count(data, []byte{0})
	}
	return zeros
}

const killAtOnceVariable = "JOURNAL_TEST_KILL_AT_ONCE_DIR"

// TestAppendAndDie is the process of TestKilledRightAfterAppend. It kills itself after its last Append.
func TestAppendAndDie(t *testing.T) {
	dir := os.Getenv(killAtOnceVariable)
	if dir == "" {
		return
	}
	l := open(t, journal.Config{Dir: dir})
	l.Append(inference("bill", analytics.PhaseBegin))
	l.Append(request("ask", analytics.PhaseBegin, ""))
	l.Append(refusal("no"))
	l.Append(inference("bill", analytics.PhaseEnd))
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// A process that is killed right after Append leaves the event, for a reader at once, and for its next run.
func TestKilledRightAfterAppend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestAppendAndDie$")
	child.Env = append(os.Environ(), killAtOnceVariable+"="+dir)
	if out, err := child.CombinedOutput(); child.ProcessState == nil || child.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the process was not killed: %v\n%s", err, out)
	}
	f := func(want string) {
		t.Helper()
		got, bad := read(t, dir)
		if ids(got) != want || bad != 0 {
			t.Errorf("read %q and %d bad lines, want %q and none", ids(got), bad, want)
		}
	}
	f("bill bill no")
	l := open(t, journal.Config{Dir: dir})
	if s := l.Stats(); s.Crashed != 1 || s.Torn != 0 {
		t.Errorf("stats of the next run: %+v", s)
	}
	closeLog(t, l)
	f("bill bill ask no")
	if n := zerosIn(t, dir); n != 0 {
		t.Errorf("%d zeros are left in the files", n)
	}
}

// Only a segment that grows has zeros behind its last line.
func TestFullAndClosedSegmentsHaveNoZeros(t *testing.T) {
	t.Parallel()
	testkit.NeedsLinux(t, "maps segments")
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir, SegmentBytes: 64 << 10, MaxBytes: 1 << 20})
	for i := range 600 {
		l.Append(inference(fmt.Sprint(i), analytics.PhaseEnd))
	}
	segments := files(t, dir, "*.log")
	if len(segments) < 3 {
		t.Fatalf("%d segments, want some", len(segments))
	}
	newest := fmt.Sprintf("/%d.log", len(segments))
	for _, path := range segments {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(data, []byte{0}); (n > 0) != strings.HasSuffix(path, newest) || n > 4<<10 {
			t.Errorf("%s has %d zeros", path, n)
		}
	}
	closeLog(t, l)
	if n := zerosIn(t, dir); n != 0 {
		t.Errorf("%d zeros are left after Close", n)
	}
}

// A segment that another program cuts or extends while it is mapped does not end the process, and later events are kept.
func TestSegmentChangedByAnotherProgram(t *testing.T) {
	t.Parallel()
	testkit.NeedsLinux(t, "maps segments")
	f := func(name string, change func(path string, size int64) error) {
		t.Helper()
		dir := t.TempDir()
		l := open(t, journal.Config{Dir: dir, SegmentBytes: 1 << 20, MaxBytes: 16 << 20})
		l.Append(inference("first", analytics.PhaseEnd))
		path := files(t, dir, "1.log")[0]
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := change(path, info.Size()); err != nil {
			t.Fatal(err)
		}
		const events = 200
		for i := range events {
			l.Append(inference(fmt.Sprint(i), analytics.PhaseEnd))
		}
		got, _ := read(t, dir)
		if len(got) == 0 || got[len(got)-1].RequestID != fmt.Sprint(events-1) {
			t.Errorf("%s: %d events are left, and not the last", name, len(got))
		}
		if s := l.Stats(); s.Appended != events+1 || s.Errors+s.Dropped.Total() != 0 {
			t.Errorf("%s: stats %+v", name, s)
		}
		if problems := l.Problems(); len(problems) != 1 || !strings.Contains(problems[0].Error(), "another program") {
			t.Errorf("%s: problems %v", name, problems)
		}
		closeLog(t, l)
	}
	f("emptied", func(path string, _ int64) error { return os.Truncate(path, 0) })
	f("cut to one page", func(path string, _ int64) error { return os.Truncate(path, 4096) })
	f("cut at the end", func(path string, size int64) error { return os.Truncate(path, size-1) })
	f("extended", func(path string, size int64) error { return os.Truncate(path, size+100) })
}

// A disk with room for lines, but not for a window, takes lines until it is full.
func TestDiskWithoutRoomForAWindow(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 128)
	l := open(t, journal.Config{Dir: dir})
	const events = 1000
	for i := range events {
		l.Append(inference(fmt.Sprint(i), analytics.PhaseEnd))
	}
	got, bad := read(t, dir)
	s := l.Stats()
	if len(got) < 300 || bad != 0 || uint64(len(got))+s.Dropped.Billing != events || s.Errors != s.Dropped.Billing {
		t.Errorf("%d events on the disk, %d bad lines; %+v", len(got), bad, s)
	}
	closeLog(t, l)
}

// A line that is longer than a window is kept.
func TestLineLongerThanAWindow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	long := inference("long", analytics.PhaseEnd)
	long.Reason = strings.Repeat("x", 600<<10)
	l.Append(inference("a", analytics.PhaseEnd))
	l.Append(long)
	l.Append(inference("b", analytics.PhaseEnd))
	if got, bad := read(t, dir); ids(got) != "a long b" || bad != 0 {
		t.Errorf("read %q, %d bad lines", ids(got), bad)
	}
}

// A machine that loses power may leave zeros between lines, since pages reach the disk in any order. Lines behind them are
// read once the segment does not grow any more.
func TestZerosBetweenLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "events", "ams-1")
	if err := os.MkdirAll(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	zeros := strings.Repeat("\x00", 5000)
	appendTo(t, filepath.Join(folder, "1.log"), lineOf(t, at("a", 1))+zeros+lineOf(t, at("b", 2))+zeros+"ine\n"+lineOf(t, at("c", 3))+zeros)
	f := func(want string, wantBad int) {
		t.Helper()
		if got, bad := read(t, dir); ids(got) != want || bad != wantBad {
			t.Errorf("read %q, %d bad lines, want %q and %d", ids(got), bad, want, wantBad)
		}
	}
	f("a", 0)
	tail := newTail(dir)
	wantLast(t, tail, 9, "a")
	l := open(t, journal.Config{Dir: dir})
	if s := l.Stats(); s.Torn != 2 {
		t.Errorf("%d bad lines in the earlier run, want 2", s.Torn)
	}
	l.Append(at("d", 4))
	f("a b c d", 2)
	wantNext(t, tail, "b c d")
	wantBad(t, tail, 2)
}

// A tail that follows a segment notices that the node was set up anew, also if its first segment is as long as the one before.
func TestTailOfANodeThatWasSetUpAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	tail := newTail(dir)
	l.Append(at("first event", 1))
	wantLast(t, tail, 9, "first event")
	closeLog(t, l)
	if err := os.RemoveAll(filepath.Join(dir, "events")); err != nil {
		t.Fatal(err)
	}
	l = open(t, journal.Config{Dir: dir})
	l.Append(at("a", 2))
	l.Append(at("b", 3))
	wantNext(t, tail, "a b")
	wantBad(t, tail, 0)
}
