package testkit

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Output is readable while a process runs, its exit code is reported, and no process outlives its test.
func TestProcessEndsWithItsTest(t *testing.T) {
	var left *Process
	t.Run("two", func(t *testing.T) {
		p := Start(t, exec.Command("sh", "-c", "trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done"))
		WaitFor(t, "its output", func() bool { return strings.Contains(p.Output(), "ready") })
		var exit *exec.ExitError
		if err := p.Stop(syscall.SIGTERM); !errors.As(err, &exit) || exit.ExitCode() != 3 {
			t.Errorf("it ended with %v", err)
		}
		left = Start(t, exec.Command("sleep", "1000"))
	})
	if err := left.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a signal after its test: %v", err)
	}
}
