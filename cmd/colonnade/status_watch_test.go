package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// counting is a page on which more is granted and refused each time.
func counting() func() string {
	var asked atomic.Int64
	return func() string {
		n := asked.Add(1)
		return fmt.Sprintf(`[{"colo":"ams","node":"n","pool":"p","limit":4,"held":4,"granted":%d,"refused":{"busy":%d,"queue_full":%d},"full_seconds":%d,
			"granting":true,"endpoints":[{"id":"e","state":"up","concurrency":4,"held":4}],"queue":{"discipline":"fair","limit":8}}]`, 100*n, 2*n, 50*n, 1000*n)
	}
}

func TestWatch(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	address := serves(t, counting(), "")
	var out, notes screen
	end := background(t, &out, &notes, "status", "-watch", "-admin", address)
	out.await(t, "refused   100 (")
	if err := end(); err != nil {
		t.Errorf("it ended with %v\n%s", err, notes.String())
	}
	if said := out.String(); strings.Contains(said, "\x1b") || !strings.Contains(said, "refused   50: queue_full 50\n") || strings.Count(said, "p in ams") < 2 {
		t.Errorf("it said\n%s", said)
	}
	out, notes = screen{}, screen{}
	end = background(t, &out, &notes, "status", "-watch", "-json", "-admin", address)
	out.await(t, "\n")
	if err := end(); err != nil {
		t.Error(err)
	}
	var said fleetStatus
	if err := json.Unmarshal([]byte(strings.Split(out.String(), "\n")[0]), &said); err != nil || len(said.Servers) != 1 {
		t.Errorf("%v\n%s", err, out.String())
	}
	// Before there is anything to show.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := &look{asker: newAsker(time.Minute), directory: &directory{}}
	if err := l.watch(ctx, io.Discard); err != nil {
		t.Error(err)
	}
}

func TestPace(t *testing.T) {
	l := &look{}
	began := time.Now()
	f := func(after time.Duration, granted, queueFull, busy uint64, full float64, want string) {
		t.Helper()
		s := &fleetStatus{Servers: []serverStatus{{asked: began.Add(after)}}}
		page := fmt.Sprintf(`[{"pool":"p","granted":%d,"refused":{"queue_full":%d,"busy":%d},"full_seconds":%f}]`, granted, queueFull, busy, full)
		if err := json.Unmarshal([]byte(page), &s.Servers[0].Pools); err != nil {
			t.Fatal(err)
		}
		s.paces = l.pace(s)
		p := s.pools()[0].pace
		if got := p.of(pace.grants) + p.of(pace.refusals) + p.of(pace.busies) + p.full(); got != want {
			t.Errorf("after %v: %q, want %q", after, got, want)
		}
	}
	f(0, 10, 1, 1, 5, "")
	f(2*time.Second, 30, 4, 1, 6, " (10/s) (1.5/s) (0/s), 50% of the time since the last look")
	f(4*time.Second, 3, 4, 1, 6, "") // it was started again
	f(5*time.Second, 4, 4, 2, 60, " (1/s) (0/s) (1/s), 100% of the time since the last look")
	f(5*time.Second, 4, 4, 2, 60, "")
}

// pseudo is a terminal of so many columns and rows; what is written to it arrives at screen.
func pseudo(t *testing.T, columns, rows uint16, screen *screen) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("this system has no /dev/ptmx: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this system has no /dev/pts: %v", err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(screen, master)
	}()
	t.Cleanup(func() {
		slave.Close()
		<-read
	})
	return slave
}

// On a terminal, a watch draws in place, as much as there is room for, and leaves the whole picture and a cursor at the end.
func TestWatchOnATerminal(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	var seen screen
	terminal := pseudo(t, 70, 8, &seen)
	ctx, cancel := context.WithCancel(t.Context())
	root := newRoot()
	root.SetArgs([]string{"status", "--watch", "--admin", serves(t, counting(), "")})
	root.SetOut(terminal)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	seen.await(t, "more lines: -pool and -colo show less")
	seen.await(t, toEnd+fromTop) // a second picture
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	seen.await(t, "\x1b[32mup\x1b[0m")
	said := seen.String()
	inPlace, last, _ := strings.Cut(said, firstScreen)
	if !strings.HasPrefix(said, otherScreen+fromTop) || strings.Count(inPlace, fromTop) < 2 {
		t.Errorf("it begins with %q", said[:min(len(said), 200)])
	}
	for _, frame := range strings.Split(inPlace, fromTop)[1:] {
		if n := strings.Count(frame, "\n"); n > 7 || !strings.HasSuffix(frame, toLineEnd+toEnd) {
			t.Errorf("%d lines in place of 8 rows: %q", n+1, frame)
		}
	}
	if !strings.Contains(last, "queue_full") || strings.Contains(last, "more lines") {
		t.Errorf("it leaves %q", last)
	}
}

func TestTerminal(t *testing.T) {
	var seen screen
	file := pseudo(t, 132, 50, &seen)
	f := func(term, noColor, locale string, want terminal) {
		t.Helper()
		t.Setenv("TERM", term)
		t.Setenv("NO_COLOR", noColor)
		t.Setenv("LC_ALL", locale)
		if got := terminalOf(&output{to: file}); got != want {
			t.Errorf("%q, %q, %q: got %+v, want %+v", term, noColor, locale, got, want)
		}
	}
	f("xterm", "", "C.UTF-8", terminal{is: true, width: 132, height: 50, moves: true, colours: true})
	f("xterm", "1", "en_US.utf8", terminal{is: true, width: 132, height: 50, moves: true})
	f("dumb", "", "C", terminal{is: true, width: 132, height: 50, ascii: true})
	f("", "", "POSIX", terminal{is: true, width: 132, height: 50, ascii: true})
	if got := terminalOf(&strings.Builder{}); got != (terminal{ascii: true}) {
		t.Errorf("got %+v", got)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if got := terminalOf(null); got.is || got.colours {
		t.Errorf("got %+v", got)
	}
}
