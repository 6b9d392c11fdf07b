package telemetry

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"colonnade/internal/ctxtime"
	"colonnade/worker/gpu"
)

const (
	programName = "colonnade-gpus"
	silence     = 3               // intervals without a line after which the program counts as hung
	grace       = 2 * time.Second // on top of them, and for a killed program to end
	firstPause  = time.Second     // before the program is started again
	longPause   = time.Minute     // the longest, and the one where there are no GPUs
)

// reader runs colonnade-gpus, and starts it again when it has ended or hangs.
type reader struct {
	program  string
	library  string
	interval time.Duration
	line     func(gpu.Line)
	none     func(reason string) // nothing is known until the next line
	pause    func(int) time.Duration
}

// run runs the program until ctx ends.
func (r *reader) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		seen, reason := r.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if reason != "" {
			r.none(reason)
		}
		if failures++; seen {
			failures = 1
		}
		ctxtime.Sleep(ctx, r.pause(failures))
	}
}

// pauseAfter returns how long to wait after so many failures in a row: 1 s, 2 s, 4 s, up to a minute.
func pauseAfter(failures int) time.Duration {
	return min(firstPause<<min(failures-1, 10), longPause)
}

// once runs the program once. It reports whether the program has said anything about GPUs, and why nothing is known now; "" = the program has
// said so itself.
func (r *reader) once(ctx context.Context) (seen bool, reason string) {
	child, err := r.start()
	if err != nil {
		return false, err.Error()
	}
	defer child.close()
	limit := silence*r.interval + grace
	silent := time.NewTimer(limit)
	defer silent.Stop()
	said := false // that there are no GPUs
	for {
		select {
		case <-ctx.Done():
			_ = child.kill(context.Background())
			return seen, ""
		case <-silent.C:
			return seen, r.hung(ctx, child, limit)
		case text, ok := <-child.lines:
			if !ok {
				return seen, r.ended(ctx, child, said)
			}
			line, err := gpu.ParseLine(text)
			if err != nil {
				return seen, r.broken(ctx, child, err)
			}
			silent.Reset(limit)
			said = line.Reading != nil && line.Reading.None != ""
			seen = seen || !said
			r.line(line)
		}
	}
}

func (r *reader) hung(ctx context.Context, child *child, limit time.Duration) string {
	reason := fmt.Sprintf("the driver of the GPUs does not answer: %s (PID %d) was silent for %v", programName, child.cmd.Process.Pid, limit)
	if child.kill(ctx) {
		return reason
	}
	// A process in a call of the kernel that never returns cannot be killed. A second one would only be added to it.
	r.none(reason + ", and cannot be killed")
	select {
	case <-child.done:
	case <-ctx.Done():
	}
	return reason
}

func (r *reader) broken(ctx context.Context, child *child, err error) string {
	child.kill(ctx)
	return fmt.Sprintf("%s has written a line that is not understood: %v; is it of the same version?", programName, err)
}

func (r *reader) ended(ctx context.Context, child *child, said bool) string {
	child.kill(ctx) // it has closed its output, and may run on
	if said {
		return ""
	}
	return fmt.Sprintf("%s has ended: %v%s", programName, child.state(), child.stderr.last())
}

// child is a running program.
type child struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	lines  chan []byte
	stop   chan struct{} // closed when lines are not read any more
	done   chan struct{} // closed when it has ended
	err    error         // how it has ended, after done
	stderr tail
}

func (r *reader) start() (*child, error) {
	path, err := r.find()
	if err != nil {
		return nil, err
	}
	c := &child{lines: make(chan []byte), stop: make(chan struct{}), done: make(chan struct{})}
	args := []string{"-interval", r.interval.String()}
	if r.library != "" {
		args = append(args, "-library", r.library)
	}
	c.cmd = exec.Command(path, args...)
	c.cmd.Stderr = &c.stderr
	// A signal of the terminal is for the worker, which ends this program last.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := c.cmd.StdinPipe() // it ends with its standard input, also if the worker is killed
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = in
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", programName, err)
	}
	go c.read(out)
	return c, nil
}

// find returns the path of the program: that of the configuration, the one beside this program, or the one in PATH.
func (r *reader) find() (string, error) {
	if r.program != "" {
		return r.program, nil
	}
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), programName)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := exec.LookPath(programName)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside this program nor in PATH", programName)
	}
	return path, nil
}

// read sends the lines on. Wait of package exec closes the pipe, so it comes after the last line.
func (c *child) read(out io.Reader) {
	defer close(c.done)
	scanner := bufio.NewScanner(out)
	scanner.Buffer(make([]byte, 0, 16<<10), gpu.MaxLine)
	for scanner.Scan() {
		select {
		case c.lines <- append([]byte(nil), scanner.Bytes()...):
		case <-c.stop:
		}
	}
	close(c.lines)
	c.err = c.cmd.Wait()
}

// kill ends the program at once, and reports whether it has ended.
func (c *child) kill(ctx context.Context) bool {
	select {
	case <-c.done:
	default:
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // its group, so that nothing keeps its output open
	}
	c.close()
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	select {
	case <-c.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// close lets the program end, and read with it.
func (c *child) close() {
	_ = c.stdin.Close()
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
}

// state says how the program has ended.
func (c *child) state() string {
	select {
	case <-c.done:
	default:
		return "it has closed its output"
	}
	if c.err == nil {
		return "exit status 0"
	}
	var exit *exec.ExitError
	if errors.As(c.err, &exit) {
		return exit.String()
	}
	return c.err.Error()
}

// tail keeps the end of what a program writes to its standard error.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 1 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-tailBytes):]...)
	t.text = t.text[max(0, len(t.text)-tailBytes):]
	return len(p), nil
}

// last returns the last line, after a colon; "" if there is none.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	line := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, lines[len(lines)-1])
	if line == "" {
		return ""
	}
	return ": " + line
}
