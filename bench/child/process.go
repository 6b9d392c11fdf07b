// Package child runs programs as children of this process, and measures what they use.
package child

import (
	"fmt"
	"os"
	"os/exec"
	"time"
)

// Process is a running program. The kernel ends it if this process is killed, where the system can do that.
type Process struct {
	name   string
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process has ended
	failed error         // how it ended; read after that
	output *tail
}

// Start starts a command, whose name is for error messages. Its end is for Stop.
func Start(name string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{name: name, cmd: cmd, ended: make(chan struct{}), output: &tail{}}
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = p.output, p.output, attributes()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	go func() { // ends with the process, which Stop ends
		p.failed = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Failure describes the end of a process that has ended, with its last output.
func (p *Process) Failure() error {
	return fmt.Errorf("%s ended by itself (%w), output %q", p.name, p.failed, p.output)
}

// Output returns the last output of the process.
func (p *Process) Output() string { return p.output.String() }

// Stop sends a signal, kills the process if that does not end it within patience, and returns when it has ended. It is an error if
// the process has ended before.
func (p *Process) Stop(by os.Signal, patience time.Duration) error {
	select {
	case <-p.ended:
		return p.Failure()
	default:
	}
	_ = p.cmd.Process.Signal(by)
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	return nil
}
