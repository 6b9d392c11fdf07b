package testkit

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Process is a program that runs until the test's end, or until it is stopped.
type Process struct {
	cmd   *exec.Cmd
	said  *os.File
	ended chan struct{}
	err   error // how it ended; to be read once ended is closed
}

// Start starts a program, whose output is kept, and logged if the test fails.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "said")
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{cmd: cmd, said: file, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = cmd.Wait()
		file.Close()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%q said:\n%s", cmd.Args, p.Output())
		}
	})
	return p
}

// Output is what the process has written so far.
func (p *Process) Output() string {
	text, _ := os.ReadFile(p.said.Name())
	return string(text)
}

// Signal sends a signal. One that has ended takes none, and os.ErrProcessDone says so.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Wait waits for the end, and says how it was.
func (p *Process) Wait() error {
	select {
	case <-p.ended:
		return p.err
	case <-time.After(Timeout):
		return errors.New("did not end")
	}
}

// Stop asks the process to end by a signal, and says how it did.
func (p *Process) Stop(s os.Signal) error {
	_ = p.Signal(s)
	return p.Wait()
}
