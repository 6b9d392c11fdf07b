package process

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is a place for output.
type buffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// child is a shell script that runs.
type child struct {
	*Process
	t           *testing.T
	out, errors buffer
}

func start(t *testing.T, script string) *child {
	t.Helper()
	return startWith(t, script, "")
}

func startWith(t *testing.T, script, killCommand string) *child {
	t.Helper()
	c := &child{t: t}
	var err error
	c.Process, err = Start(Config{Command: []string{"sh", "-c", script}, KillCommand: killCommand, Prefix: "engine | ", Stdout: &c.out, Stderr: &c.errors})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Kill()
	})
	return c
}

// end waits for the end of everything that was started, and returns how the script has ended.
func (c *child) end() Exit {
	<-c.Ended()
	return c.Exit()
}

// await waits until the script has written a text.
func (c *child) await(text string) {
	c.t.Helper()
	testkit.WaitFor(c.t, "the output "+text, func() bool { return strings.Contains(c.out.String(), text) })
}

// helper returns the process that the script has written after "helper ".
func (c *child) helper() int {
	c.t.Helper()
	c.await("helper ")
	_, after, _ := strings.Cut(c.out.String(), "helper ")
	number, _, _ := strings.Cut(after, "\n")
	pid, err := strconv.Atoi(number)
	if err != nil {
		c.t.Fatalf("%q: %v", c.out.String(), err)
	}
	return pid
}

// isGone reports whether a process has ended, also if its parent has not noticed.
func isGone(pid int) bool {
	out, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	state := strings.TrimSpace(string(out))
	return state == "" || strings.HasPrefix(state, "Z")
}

func TestOutputHasAPrefix(t *testing.T) {
	t.Parallel()
	c := start(t, `printf 'one\r\ntwo\n\nload 1%%\rload 2%%\r'; printf 'oh\n' >&2; printf 'no end'`)
	if c.end() != (Exit{}) {
		t.Errorf("%v", c.end())
	}
	if got, want := c.out.String(), "engine | one\nengine | two\nengine | \nengine | load 1%\nengine | load 2%\nengine | no end\n"; got != want {
		t.Errorf("output %q", got)
	}
	if got := c.errors.String(); got != "engine | oh\n" {
		t.Errorf("errors %q", got)
	}
}

// The beginning of a line is written although its end does not come, and its end is no line of its own.
func TestOutputWithoutALineEndIsShown(t *testing.T) {
	t.Parallel()
	c := start(t, `printf 'loading'; exec sleep 1000`)
	c.await("engine | loading\n")
	o := output{prefix: []byte("> ")}
	out := o.take(nil, []byte("a"))
	out = o.flush(out)
	out = o.take(out, []byte("\nb\n"))
	if string(out) != "> a\n> b\n" {
		t.Errorf("%q", out)
	}
}

func TestLongLinesAreDivided(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLine)
	f := func(text string, want ...string) {
		t.Helper()
		for _, step := range []int{1, 7, maxLine - 1, len(text) + 1} {
			o := output{}
			var out []byte
			for rest := text; rest != ""; {
				n := min(step, len(rest))
				out = o.take(out, []byte(rest[:n]))
				rest = rest[n:]
			}
			if got := string(o.flush(out)); got != strings.Join(want, "\n")+"\n" {
				t.Errorf("%d bytes in steps of %d: %d bytes in %d lines", len(text), step, len(got), strings.Count(got, "\n"))
			}
		}
	}
	f(long[1:]+"\n", long[1:])
	f(long+"yy\nz", long, "yy", "z")
	f(long+long+long+"\n", long, long, long)
}

// Whatever a program writes, in whatever pieces: its lines are written one by one, without a loss, and none is too long.
func FuzzOutput(f *testing.F) {
	for _, seed := range []string{"", "a\nb", "a\r\nb\r", "\r\n\r\n", "\n\r", strings.Repeat("long", maxLine), "\xff\x00\n"} {
		f.Add([]byte(seed), uint16(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, step uint16) {
		o := output{prefix: []byte("> ")}
		var out []byte
		for rest := text; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			out = o.take(out, rest[:n])
			rest = rest[n:]
		}
		out = o.flush(out)
		var got []byte
		for line := range bytes.Lines(out) {
			content, ok := bytes.CutPrefix(line, []byte("> "))
			if !ok || len(content) > maxLine+1 {
				t.Fatalf("line of %d bytes: %.80q", len(line), line)
			}
			got = append(got, content[:len(content)-1]...)
		}
		if plain := bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\n"), nil), []byte("\r"), nil); !bytes.Equal(got, plain) {
			t.Fatalf("%q became %q", text, out)
		}
	})
}

func TestExitStatusIsThatOfTheEngine(t *testing.T) {
	t.Parallel()
	f := func(script string, want Exit, words string) {
		t.Helper()
		if got := start(t, script).end(); got != want || got.String() != words {
			t.Errorf("%s: %+v, %s", script, got, got)
		}
	}
	f("exit 0", Exit{}, "exit status 0")
	f("exit 3", Exit{Status: 3}, "exit status 3")
	f("kill -SEGV $$", Exit{Status: 139, Signal: syscall.SIGSEGV}, "signal: segmentation fault")
}

func TestCommandThatCannotBeRunIsNamed(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(command string, status int, want string) {
		t.Helper()
		_, err := Start(Config{Command: []string{command}, Stdout: &buffer{}, Stderr: &buffer{}})
		failed := (*StartError)(nil)
		if !errors.As(err, &failed) || failed.Status != status || !strings.Contains(err.Error(), strconv.Quote(command)+": "+want) {
			t.Errorf("%s: %v", command, err)
		}
	}
	f("no-such-engine", StatusNotFound, "executable file not found in $PATH")
	f("/no/such/engine", StatusNotFound, "no such file or directory")
	f(plain, StatusNotExecutable, "permission denied")
}

// A signal to the group of the parent, such as Ctrl-C, does not reach the engine, and the engine's group ends as a whole.
func TestStopEndsTheGroup(t *testing.T) {
	t.Parallel()
	c := start(t, `sleep 1000 & echo helper $!; wait`)
	helper := c.helper()
	if group, err := syscall.Getpgid(c.PID()); err != nil || group != c.PID() {
		t.Errorf("group %d of process %d, %v", group, c.PID(), err)
	}
	if err := c.Stop(testkit.Timeout); err != nil {
		t.Error(err)
	}
	if exit := c.end(); exit.Signal != syscall.SIGTERM || exit.Status != 143 {
		t.Errorf("%+v", exit)
	}
	if !isGone(helper) {
		t.Errorf("process %d is left", helper)
	}
}

// An engine that crashes leaves no helper behind, which would hold the memory of a GPU.
func TestCrashEndsTheGroup(t *testing.T) {
	t.Parallel()
	c := start(t, `(trap '' TERM; sleep 1000) & echo helper $!; exit 7`)
	if exit := c.end(); exit.Status != 7 {
		t.Errorf("%+v", exit)
	}
	if helper := c.helper(); !isGone(helper) {
		t.Errorf("process %d is left", helper)
	}
}

// A helper that ends after the engine has the time of Stop for it, and its output is not lost.
func TestHelpersHaveTheTimeOfStop(t *testing.T) {
	t.Parallel()
	c := start(t, `(trap 'sleep 0.2; echo saved; exit' TERM; echo ready; while :; do sleep 0.05; done) & trap 'exit 4' TERM; wait`)
	c.await("ready")
	if err := c.Stop(testkit.Timeout); err != nil {
		t.Error(err)
	}
	if exit := c.end(); exit.Status != 4 || !strings.Contains(c.out.String(), "saved") {
		t.Errorf("%+v, %q", exit, c.out.String())
	}
}

func TestEngineThatIgnoresSIGTERMIsKilled(t *testing.T) {
	t.Parallel()
	c := start(t, `trap '' TERM; echo ready; while :; do sleep 0.05; done`)
	c.await("ready")
	if err := c.Stop(50 * time.Millisecond); err != nil {
		t.Error(err)
	}
	if exit := c.end(); exit.Signal != syscall.SIGKILL || exit.Status != 137 {
		t.Errorf("%+v", exit)
	}
}

// A process that has left the group keeps the engine's output open. That does not delay the end of the engine for long.
func TestOutputThatIsHeldOpenIsGivenUp(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("the command setsid is missing")
	}
	c := start(t, `setsid sh -c 'echo helper $$; exec sleep 1000' & sleep 0.3; exit 5`)
	helper := c.helper()
	defer func() { _ = syscall.Kill(helper, syscall.SIGKILL) }()
	select {
	case <-c.Ended():
	case <-time.After(testkit.Timeout):
		t.Fatal("the engine has not ended")
	}
	if exit := c.end(); exit.Status != 5 {
		t.Errorf("%+v", exit)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	var b Backoff
	f := func(healthy, want time.Duration) {
		t.Helper()
		if got := b.Next(healthy); got != want {
			t.Errorf("after %v of health: %v, want %v", healthy, got, want)
		}
	}
	for _, want := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		f(time.Minute, time.Duration(want)*time.Second)
	}
	f(HealthyAfter, time.Second)
	f(0, 2*time.Second)
}

// A command that stands for the client of a container leaves the container behind when it is killed: the kill command ends that.
func TestKillCommand(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("needs setsid of util-linux")
	}
	f := func(what string, end func(*child)) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "container")
		c := startWith(t, "trap '' TERM; setsid sleep 1000 >/dev/null 2>&1 & echo $! > "+file+".new; mv "+file+".new "+file+"; while :; do sleep 0.05; done", "kill -9 $(cat "+file+")")
		var pid int
		testkit.WaitFor(t, "the container", func() bool {
			text, err := os.ReadFile(file)
			pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			return err == nil && pid > 0
		})
		end(c)
		<-c.Ended()
		testkit.WaitFor(t, "the end of the container after "+what, func() bool { return !runs(pid) })
	}
	f("a stop", func(c *child) { _ = c.Stop(100 * time.Millisecond) })
	f("an abort", func(c *child) { c.Abort() })
	f("a kill by others", func(c *child) {
		_ = syscall.Kill(c.PID(), syscall.SIGKILL)
		_ = syscall.Kill(-c.PID(), syscall.SIGKILL)
	})

	c := startWith(t, "sleep 1000", "echo nothing there; exit 3")
	c.Abort()
	<-c.Ended()
	if got := c.errors.String(); got != "engine | the kill command has failed: exit status 3: nothing there\n" {
		t.Errorf("got %q", got)
	}
}

// A kill command that does not end is ended with all that it has started, and one that leaves a process behind is not waited for.
func TestKillCommandIsBounded(t *testing.T) {
	t.Parallel()
	f := func(command string, timeout time.Duration, ended bool, want string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "pid")
		var said buffer
		done := make(chan struct{})
		go func() {
			defer close(done)
			runKillCommand(Config{KillCommand: "sleep 1000 & echo $! > " + file + "; " + command, Stderr: &said}, timeout)
		}()
		select {
		case <-done:
		case <-time.After(testkit.Timeout):
			t.Fatal("the kill command has not ended")
		}
		text, _ := os.ReadFile(file)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if ended {
			testkit.WaitFor(t, "the end of what the command has started", func() bool { return !runs(pid) })
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
		if said.String() != want {
			t.Errorf("said %q, want %q", said.String(), want)
		}
	}
	f("wait; true", time.Second, true, "the kill command has failed: it has not ended within 1s: \n")
	f("true", testkit.Timeout, false, "")
}

// runs reports whether a process runs: one that its parent has not waited for does not.
func runs(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, state, _ := strings.Cut(string(text), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}
