package journal_test

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
)

// phases counts the events of each request by phase, without duplicates.
func phases(t *testing.T, dir string) (begins, ends map[string]int, crashed int) {
	t.Helper()
	begins, ends = map[string]int{}, map[string]int{}
	events, _ := read(t, dir)
	for _, e := range events {
		switch e.Phase {
		case analytics.PhaseBegin:
			begins[e.RequestID]++
		case analytics.PhaseEnd:
			ends[e.RequestID]++
		}
		if e.Outcome == analytics.OutcomeCrashed {
			crashed++
			if !e.Partial || e.Model != "m" || e.Account != "a" {
				t.Errorf("crashed end differs from its begin: %+v", e)
			}
		}
	}
	return begins, ends, crashed
}

func TestRestartEndsOpenBegins(t *testing.T) {
	dir := t.TempDir()
	c := journal.Config{Dir: dir, SegmentBytes: 4 << 10, MaxBytes: 64 << 10}
	l := open(t, c)
	l.Append(inference("early", analytics.PhaseBegin)) // in a segment that is not the newest
	for i := range 40 {
		l.Append(inference(fmt.Sprintf("r%d", i), analytics.PhaseBegin))
		l.Append(inference(fmt.Sprintf("r%d", i), analytics.PhaseEnd))
	}
	l.Append(inference("late", analytics.PhaseBegin))
	if n := len(files(t, dir, "*.log")); n < 3 {
		t.Fatalf("%d segments, want some", n)
	}
	closeLog(t, l) // which does not end open begins

	l = open(t, c)
	if s := l.Stats(); s.Crashed != 2 || s.Appended != 2 || s.OpenBegins != 0 || s.Torn != 0 {
		t.Errorf("stats after the restart: %+v", s)
	}
	_, ends, crashed := phases(t, dir)
	if len(ends) != 42 || crashed != 2 || ends["early"] != 1 || ends["late"] != 1 {
		t.Errorf("%d requests ended, %d crashed, early %d, late %d; want 42, 2, 1, 1", len(ends), crashed, ends["early"], ends["late"])
	}
	closeLog(t, l)
	l = open(t, c)
	if s := l.Stats(); s.Crashed != 0 {
		t.Errorf("a second restart ended %d more", s.Crashed)
	}
	if _, ends, crashed := phases(t, dir); len(ends) != 42 || crashed != 2 {
		t.Errorf("after a second restart %d requests ended and %d crashed, want 42 and 2", len(ends), crashed)
	}
}

func TestTornLastLine(t *testing.T) {
	f := func(cut int) {
		t.Helper()
		dir := t.TempDir()
		l := open(t, journal.Config{Dir: dir})
		l.Append(inference("r1", analytics.PhaseBegin))
		l.Append(inference("r1", analytics.PhaseEnd))
		l.Append(inference("r2", analytics.PhaseBegin))
		l.Append(inference("r2", analytics.PhaseEnd))
		closeLog(t, l)
		path := files(t, dir, "1.log")[0]
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		last := bytes.LastIndexByte(data[:len(data)-1], '\n') + 1
		if err := os.Truncate(path, int64(max(last, len(data)-cut))); err != nil {
			t.Fatal(err)
		}
		l = open(t, journal.Config{Dir: dir})
		if s := l.Stats(); s.Crashed != 1 || s.Torn > 1 {
			t.Errorf("cut by %d: stats %+v", cut, s)
		}
		l.Append(inference("r3", analytics.PhaseEnd))
		_, ends, crashed := phases(t, dir)
		if len(ends) != 3 || ends["r1"] != 1 || ends["r2"] != 1 || ends["r3"] != 1 || crashed != 1 {
			t.Errorf("cut by %d: ends %v, %d crashed", cut, ends, crashed)
		}
	}
	f(1) // only the newline is missing
	f(2)
	f(100)
	f(1 << 20) // the line is missing
}

func TestUnfinishedSegmentIsIgnored(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	l.Append(inference("r1", analytics.PhaseBegin))
	closeLog(t, l)
	unfinished := strings.TrimSuffix(files(t, dir, "1.log")[0], "1.log") + "2.log.new"
	if err := os.WriteFile(unfinished, []byte("half of a li"), 0o600); err != nil {
		t.Fatal(err)
	}
	l = open(t, journal.Config{Dir: dir})
	if s := l.Stats(); s.Crashed != 1 || s.Torn != 0 {
		t.Errorf("stats %+v", s)
	}
	if left := files(t, dir, "2.log.new"); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestDropOfAnEarlierRunIsCounted(t *testing.T) {
	dir := t.TempDir()
	c := journal.Config{Dir: dir, SegmentBytes: 4 << 10, MaxBytes: 64 << 10}
	l := open(t, c)
	const requests = 150
	for i := range requests {
		l.Append(inference(fmt.Sprintf("r%d", i), analytics.PhaseEnd))
	}
	closeLog(t, l)
	c.MaxBytes = 20 << 10 // smaller than before
	l = open(t, c)
	got, _ := read(t, dir)
	if s := l.Stats(); s.Dropped.Total() == 0 || int(s.Dropped.Total())+len(got) != requests || s.Bytes > c.MaxBytes {
		t.Errorf("%d events on disk of %d; %+v", len(got), requests, s)
	}
}

// On a disk that takes no more data each event is counted; once it does, events are kept again.
func TestDiskErrorsAreCounted(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir, SegmentBytes: 1 << 10, MaxBytes: 1 << 20})
	l.Append(inference("r", analytics.PhaseBegin))
	node := strings.TrimSuffix(files(t, dir, "1.log")[0], "/1.log")
	if err := os.Rename(node, node+".away"); err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // the open segment takes a few; no new one can be started
		l.Append(inference(fmt.Sprintf("r%d", i), analytics.PhaseEnd))
	}
	s := l.Stats()
	if s.Errors == 0 || s.Errors != s.Dropped.Total() || s.Dropped.Total() >= 20 {
		t.Errorf("stats %+v", s)
	}
	if err := os.Rename(node+".away", node); err != nil {
		t.Fatal(err)
	}
	l.Append(inference("r", analytics.PhaseEnd))
	got, _ := read(t, dir)
	if after := l.Stats(); after.Dropped != s.Dropped || uint64(len(got)) != after.Appended {
		t.Errorf("%d events on disk; before %+v, after %+v", len(got), s, after)
	}
	closeLog(t, l)
	if again := open(t, journal.Config{Dir: dir}).Stats(); again.Crashed != 0 {
		t.Errorf("%d requests ended as crashed, want 0", again.Crashed)
	}
}

// A partial write is undone, so that the next line is readable.
func TestPartialWriteIsUndone(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	lift := fileLimit(t, uint64(len(lineOf(t, inference("r1", analytics.PhaseEnd)))+100)) // less than a window, so lines are written
	l.Append(inference("r1", analytics.PhaseEnd))
	l.Append(inference("r2", analytics.PhaseEnd))
	lift()
	if s := l.Stats(); s.Errors != 1 || s.Dropped.Total() != 1 {
		t.Errorf("stats %+v", s)
	}
	l.Append(inference("r3", analytics.PhaseEnd))
	got, bad := read(t, dir)
	if len(got) != 2 || bad != 0 || got[1].RequestID != "r3" {
		t.Errorf("read %d events and %d bad lines, want r1 and r3 and none", len(got), bad)
	}
}

const killVariable = "JOURNAL_TEST_KILL_DIR"

// TestAppendUntilKilled is the process that TestEventsSurviveAKill kills. It appends as fast as it can, and prints each
// request after Append returned for its begin ("+") and for its end ("-"). Every second request is an entry's, and every
// fourth is refused.
func TestAppendUntilKilled(t *testing.T) {
	dir := os.Getenv(killVariable)
	if dir == "" {
		return
	}
	l := open(t, journal.Config{Dir: dir, SegmentBytes: 8 << 10, MaxBytes: 64 << 20})
	name := func(i int) string { return fmt.Sprintf("%d-%d", os.Getpid(), i) }
	event := func(i int, phase analytics.Phase) *analytics.Event {
		switch {
		case i%2 == 0:
			return inference(name(i), phase)
		case i%4 == 1:
			return request(name(i), phase, analytics.OutcomeCompleted)
		}
		return request(name(i), phase, analytics.OutcomeRefused)
	}
	const inFlight = 16
	for i := 0; ; i++ {
		l.Append(event(i, analytics.PhaseBegin))
		fmt.Printf("+%s\n", name(i))
		if i >= inFlight {
			l.Append(event(i-inFlight, analytics.PhaseEnd))
			fmt.Printf("-%s\n", name(i-inFlight))
		}
	}
}

// Appended events survive kill -9, and requests that were open get one end.
func TestEventsSurviveAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begun, ended := map[string]bool{}, map[string]bool{}
	for range 20 {
		victim := exec.Command(os.Args[0], "-test.run=^TestAppendUntilKilled$")
		victim.Env = append(os.Environ(), killVariable+"="+dir)
		output, err := victim.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(output)
		var timer *time.Timer
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				break // it is dead; an incomplete line does not count
			}
			if timer == nil { // it runs
				timer = time.AfterFunc(rand.N(100*time.Millisecond), func() { _ = victim.Process.Signal(syscall.SIGKILL) })
			}
			request := strings.TrimSpace(line[1:])
			switch line[0] {
			case '+':
				begun[request] = true
			case '-':
				ended[request] = true
			}
		}
		_ = victim.Wait()
	}
	closeLog(t, open(t, journal.Config{Dir: dir}))
	if len(ended) == 0 {
		t.Fatal("the processes were killed before they appended anything")
	}
	begins, ends, crashed := phases(t, dir)
	for request := range begun {
		if ends[request] != 1 { // the begins of requests are not visible
			t.Errorf("%s has begun and has %d ends, want 1", request, ends[request])
		}
	}
	for request := range ended {
		if ends[request] == 0 {
			t.Errorf("end of %s is lost", request)
		}
	}
	for request := range begins {
		if ends[request] != 1 {
			t.Errorf("%s has %d ends, want 1", request, ends[request])
		}
	}
	if crashed == 0 {
		t.Error("no request was ended as crashed")
	}
	t.Logf("%d requests, %d crashed, %d segments", len(begins), crashed, len(files(t, dir, "*.log")))
}
