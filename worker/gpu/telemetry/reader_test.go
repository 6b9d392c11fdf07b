package telemetry

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"colonnade/internal/nvmltest"
	"colonnade/internal/testkit"
	"colonnade/worker/gpu"
)

// said is what a reader has passed on: a line, or why there are none.
type said struct {
	line gpu.Line
	none string
}

// read runs a reader until the test ends.
func read(t *testing.T, r *reader) chan said {
	t.Helper()
	all := make(chan said, 1000)
	r.line = func(l gpu.Line) { all <- said{line: l} }
	r.none = func(reason string) { all <- said{none: reason} }
	if r.pause == nil {
		r.pause = func(int) time.Duration { return 10 * time.Millisecond }
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		r.run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return all
}

func next(t *testing.T, all chan said, what string, is func(said) bool) said {
	t.Helper()
	late := time.After(testkit.Timeout)
	for {
		select {
		case s := <-all:
			if is(s) {
				return s
			}
		case <-late:
			t.Fatalf("no %s", what)
		}
	}
}

func isReading(s said) bool { return s.line.Reading != nil && s.line.Reading.None == "" }
func isReason(s said) bool  { return s.none != "" }

// A driver that hangs costs its child, and is read again once it answers.
func TestReaderOutlivesAHungDriver(t *testing.T) {
	m := nvmltest.NewMachine(t, nvmltest.H200)
	all := read(t, &reader{program: nvmltest.Program(t), library: nvmltest.Library(t), interval: 10 * time.Millisecond})
	next(t, all, "reading", isReading)
	m.Add("hang nvmlDeviceGetTemperature x")
	if s := next(t, all, "reason", isReason); !strings.Contains(s.none, "the driver of the GPUs does not answer") {
		t.Errorf("%q", s.none)
	}
	m.Remove("hang ")
	next(t, all, "reading after the driver has hung", isReading)
}

// A call that ends the process costs the child only.
func TestReaderOutlivesACrash(t *testing.T) {
	m := nvmltest.NewMachine(t, nvmltest.H200)
	all := read(t, &reader{program: nvmltest.Program(t), library: nvmltest.Library(t), interval: 10 * time.Millisecond})
	next(t, all, "reading", isReading)
	m.Add("die nvmlDeviceGetTemperature x")
	if s := next(t, all, "reason", isReason); !strings.HasPrefix(s.none, "colonnade-gpus has ended: ") {
		t.Errorf("%q", s.none)
	}
	m.Remove("die ")
	next(t, all, "reading after the crash", isReading)
}

// script returns a program that runs a shell script.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "colonnade-gpus")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// Whatever the program does, the reader says why nothing is known.
func TestReasons(t *testing.T) {
	f := func(program, want string) {
		t.Helper()
		all := read(t, &reader{program: program, interval: 10 * time.Millisecond})
		if s := next(t, all, want, isReason); !strings.Contains(s.none, want) {
			t.Errorf("%q, want %q", s.none, want)
		}
	}
	f("/nowhere/colonnade-gpus", "colonnade-gpus cannot be started: fork/exec /nowhere/colonnade-gpus: no such file")
	f(script(t, "echo some words; echo 'symbol lookup error: nvmlInit' >&2; exit 127"), "has written a line that is not understood")
	f(script(t, "echo 'symbol lookup error: nvmlInit' >&2; exit 127"), "colonnade-gpus has ended: exit status 127: symbol lookup error: nvmlInit")
	f(script(t, "exit 0"), "colonnade-gpus has ended: exit status 0")
	f(script(t, "head -c 2000000 /dev/zero | tr '\\0' x"), "colonnade-gpus has ended")
	f(script(t, `echo '{"reading":{},"event":{}}'; sleep 100`), "needs either a reading or an event")
	f(script(t, "sleep 1000"), "the driver of the GPUs does not answer") // from the start
	t.Setenv("PATH", t.TempDir())
	f("", "colonnade-gpus is neither beside this program nor in PATH")
}

// A reason that the program gives itself is passed on as it is. The program ends, and is asked again later.
func TestNoneOfTheProgram(t *testing.T) {
	failures := make(chan int, 100)
	all := read(t, &reader{program: nvmltest.Program(t), library: "none.so", interval: time.Second, pause: func(n int) time.Duration {
		failures <- n
		return 10 * time.Millisecond
	}})
	for want := 1; want <= 2; want++ {
		s := next(t, all, "line", func(said) bool { return true })
		if s.line.Reading == nil || !strings.HasPrefix(s.line.Reading.None, "no driver of NVIDIA") {
			t.Errorf("%+v", s)
		}
		if n := <-failures; n != want {
			t.Errorf("failure %d, want %d", n, want)
		}
	}
}

func TestPauses(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 7: time.Minute, 1000: time.Minute} {
		if got := pauseAfter(failures); got != want {
			t.Errorf("%d failures: %v, want %v", failures, got, want)
		}
	}
}
