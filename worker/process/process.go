package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Config says what is run, and where its output goes.
type Config struct {
	Command        []string // the program and its arguments
	Prefix         string   // of each line of its output
	Stdout, Stderr io.Writer
	// KillCommand is run by sh when the group is killed, and when the process was killed by others: for what no signal reaches, as a container whose
	// client the process is. "" = none.
	KillCommand string
}

// Process is an engine that was started. It is safe for concurrent use.
type Process struct {
	cmd     *exec.Cmd
	outputs []*output
	exited  chan struct{}
	ended   chan struct{}
	exit    Exit   // once exited is closed
	kill    func() // runs the kill command, once

	mu       sync.Mutex // guards the field below
	deadline time.Time  // until which the group may end by itself; zero = it was not asked to end
}

// Exit is how a process has ended.
type Exit struct {
	Status int            // as shells have it: 128+n for the signal n
	Signal syscall.Signal // that ended it; 0 = it ended itself
}

// String returns the end in words, such as "exit status 1" or "signal: killed".
func (e Exit) String() string {
	if e.Signal != 0 {
		return "signal: " + e.Signal.String()
	}
	return fmt.Sprintf("exit status %d", e.Status)
}

// The exit statuses of shells for commands that cannot be run.
const (
	StatusNotExecutable = 126
	StatusNotFound      = 127
)

// StartError says that a command cannot be run.
type StartError struct {
	Command string
	Status  int // StatusNotExecutable or StatusNotFound
	Err     error
}

// Error returns one sentence.
func (e *StartError) Error() string {
	return fmt.Sprintf("cannot start the engine %q: %v; give the command after --, as a shell would find it", e.Command, e.Err)
}

// Unwrap returns the reason.
func (e *StartError) Unwrap() error { return e.Err }

// Bounds of the end of a process.
const (
	killTime   = 10 * time.Second       // from SIGKILL until a process that does not end is given up, and of a kill command
	outputTime = time.Second            // for output that is on its way when the engine has ended
	groupPause = 20 * time.Millisecond  // between two looks at a group
	idleFlush  = 500 * time.Millisecond // until the beginning of a line is written although its end has not come
)

// Start starts a command. The error is a *StartError.
func Start(c Config) (*Process, error) {
	p := &Process{cmd: exec.Command(c.Command[0], c.Command[1:]...), exited: make(chan struct{}), ended: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.kill = sync.OnceFunc(func() { runKillCommand(c, killTime) })
	var mu sync.Mutex // so that no line stands inside another, where both streams go to one place
	for _, stream := range []struct {
		to  io.Writer
		set *io.Writer
	}{{c.Stdout, &p.cmd.Stdout}, {c.Stderr, &p.cmd.Stderr}} {
		o, err := newOutput(&mu, stream.to, c.Prefix)
		if err != nil {
			p.closeOutputs()
			return nil, &StartError{c.Command[0], StatusNotExecutable, err}
		}
		*stream.set = o.write
		p.outputs = append(p.outputs, o)
	}
	if err := p.cmd.Start(); err != nil {
		p.closeOutputs()
		return nil, newStartError(c.Command[0], err)
	}
	for _, o := range p.outputs {
		o.start()
	}
	go p.wait()
	return p, nil
}

func newStartError(command string, err error) error {
	status := StatusNotExecutable
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		status = StatusNotFound
	}
	var shorter *exec.Error
	var path *os.PathError
	if errors.As(err, &shorter) {
		err = shorter.Err
	} else if errors.As(err, &path) {
		err = path.Err
	}
	return &StartError{command, status, err}
}

func (p *Process) closeOutputs() {
	for _, o := range p.outputs {
		o.read.Close()
		o.write.Close()
	}
}

// PID returns the ID of the process, and of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed when the process itself has ended; the rest of its group may still live.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// HasExited reports whether the process itself has ended.
func (p *Process) HasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Ended returns a channel that is closed when the process, its group and its output have ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Exit waits for the end of the process itself, and returns how it has ended.
func (p *Process) Exit() Exit {
	<-p.exited
	return p.exit
}

// Stop asks the group to end (SIGTERM), ends it after the timeout (SIGKILL), and waits for its end. The error says that a process could
// not be ended.
func (p *Process) Stop(timeout time.Duration) error {
	p.mayEndUntil(time.Now().Add(timeout))
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timer.C:
	}
	return p.Kill()
}

// Kill ends the group at once (SIGKILL), and waits for its end. The error says that a process could not be ended.
func (p *Process) Kill() error {
	p.Abort()
	timer := time.NewTimer(killTime)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timer.C:
		return fmt.Errorf("process %d of the engine does not end %v after SIGKILL: it may hang in a driver", p.PID(), killTime)
	}
}

// Abort ends the group at once (SIGKILL), and waits for nothing but the kill command.
func (p *Process) Abort() {
	p.mayEndUntil(time.Now())
	p.signal(syscall.SIGKILL)
	p.kill()
}

// runKillCommand runs the command that ends what no signal reaches, and ends it with all that it has started when its time is over. It may find
// nothing left to end, so its failure is only shown.
func runKillCommand(c Config, timeout time.Duration) {
	if c.KillCommand == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", c.KillCommand)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = outputTime // for a process that has left the group, or stays behind, and holds the output open
	said, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrWaitDelay): // the command itself has succeeded
		err = nil
	case err != nil && ctx.Err() != nil:
		err = fmt.Errorf("it has not ended within %v", timeout)
	}
	if err != nil && c.Stderr != nil {
		fmt.Fprintf(c.Stderr, "%sthe kill command has failed: %v: %s\n", c.Prefix, err, bytes.TrimSpace(said))
	}
}

// mayEndUntil sets the time that the group has to end by itself. It never becomes later.
func (p *Process) mayEndUntil(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deadline.IsZero() || at.Before(p.deadline) {
		p.deadline = at
	}
}

// overdue reports whether the group should have ended.
func (p *Process) overdue() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !time.Now().Before(p.deadline)
}

// signal sends a signal to the group.
func (p *Process) signal(s syscall.Signal) {
	select {
	case <-p.ended: // its number may be another's
	default:
		_ = syscall.Kill(-p.PID(), s) // it has ended
	}
}

// wait follows the process to the end of its group and its output.
func (p *Process) wait() {
	_ = p.cmd.Wait() // the state says more
	p.exit = exitOf(p.cmd.ProcessState)
	close(p.exited)
	if s := p.exit.Signal; s != 0 && s != syscall.SIGTERM { // SIGTERM leaves time to end
		p.kill()
	}
	p.awaitGroup()
	for _, o := range p.outputs {
		o.end(outputTime)
	}
	close(p.ended)
}

func exitOf(state *os.ProcessState) Exit {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Exit{Status: 128 + int(status.Signal()), Signal: status.Signal()}
	}
	return Exit{Status: state.ExitCode()}
}

// awaitGroup waits until the rest of the group has ended, and kills it when its time is over. A process that does not end is given up.
func (p *Process) awaitGroup() {
	var killed time.Time
	for p.groupLives() {
		if p.overdue() {
			_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
			if killed.IsZero() {
				killed = time.Now()
			}
		}
		if !killed.IsZero() && time.Since(killed) > killTime {
			return
		}
		time.Sleep(groupPause)
	}
}

// groupLives reports whether a process of the group is left. Where this process is the first of its container, orphans of the group are its
// children, and are dead only when it has waited for them.
func (p *Process) groupLives() bool {
	for {
		pid, err := syscall.Wait4(-p.PID(), nil, syscall.WNOHANG, nil)
		if err != nil || pid <= 0 {
			break
		}
	}
	return syscall.Kill(-p.PID(), 0) == nil
}
