package testkit

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Process is a program that runs until the end of the test, or until it is stopped.
type Process struct {
	cmd    *exec.Cmd
	output *os.File
	ended  chan struct{}
	err    error // of the process; valid once ended is closed
}

// FreeGossip makes a colo server gossip on a free port unless its flags say otherwise, since tests run several on one machine.
const FreeGossip = "COLONNADE_GOSSIP=127.0.0.1:0"

// Start starts a program, with [FreeGossip]. Its output is kept, and logged if the test fails.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "output")
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{cmd: cmd, output: file, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = file, file
	cmd.Env = append(cmd.Environ(), FreeGossip)
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
			t.Logf("output of %q:\n%s", cmd.Args, p.Output())
		}
	})
	return p
}

// Output returns what the process has written so far.
func (p *Process) Output() string {
	text, _ := os.ReadFile(p.output.Name())
	return string(text)
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal. The error is os.ErrProcessDone if the process has ended.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Wait waits for the end of the process, and returns its error.
func (p *Process) Wait() error {
	select {
	case <-p.ended:
		return p.err
	case <-time.After(Timeout):
		return errors.New("did not end")
	}
}

// Stop sends a signal, waits for the end of the process, and returns its error.
func (p *Process) Stop(s os.Signal) error {
	_ = p.Signal(s)
	return p.Wait()
}
