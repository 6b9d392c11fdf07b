package sdk

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"colonnade/onebox"
)

// A key that is created by the command line is used by an SDK, and revoked. The SDK then raises its own authentication
// error, and does not send the request again.
func TestRevokedKey(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not in the PATH, so the command line cannot be built")
	}
	f, cli := startFleet(t, false), buildCLI(t)
	revoked := func(installed, id, name string, args ...string) {
		t.Helper()
		t.Run(args[0], func(t *testing.T) {
			needs(t, installed)
			key := cli.run(t, f, "keys", "create", "-account", "made", "-id", id, "-expires", "1h")
			s := startScript(t, f, []string{"COLONNADE_API_KEY=" + strings.TrimSpace(key)}, name, args...)
			s.await("ready\n")
			cli.run(t, f, "keys", "revoke", id)
			s.goOn()
			if out, err := s.end(); err != nil || !strings.Contains(out, "key revoked") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	revoked(js, "of-node", node, "js/key.mjs")
	revoked(python, "of-python", python, "python/key.py")
}

// commandLine is the path of the CLI's binary.
type commandLine string

func buildCLI(t *testing.T) commandLine {
	t.Helper()
	sources, _ := filepath.Glob("../../cmd/colonnade/*.go")
	for _, name := range sources { // reading the sources makes the test run again when they change
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "colonnade")
	if out, err := exec.Command("go", "build", "-o", path, "colonnade/cmd/colonnade").CombinedOutput(); err != nil {
		t.Fatalf("cannot build the command line: %v\n%s", err, out)
	}
	return commandLine(path)
}

// run returns the standard output of a command.
func (c commandLine) run(t *testing.T, f *onebox.Fleet, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, string(c), args...)
	cmd.Env = append(os.Environ(), documentsAt(f))
	var notes strings.Builder
	cmd.Stderr = &notes
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("colonnade %s: %v\n%s", strings.Join(args, " "), err, notes.String())
	}
	return string(out)
}

// documentsAt returns the environment variable that says where the documents of a fleet are.
func documentsAt(f *onebox.Fleet) string {
	if f.Documents != "" {
		return "COLONNADE_CONFIG=" + f.Documents
	}
	return "COLONNADE_ETCD=" + f.Etcd
}

// talk is a running script, which goes on when the test lets it.
type talk struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	output strings.Builder
	stderr strings.Builder
	cancel context.CancelFunc
}

// startScript starts a script with further environment variables.
func startScript(t *testing.T, f *onebox.Fleet, env []string, name string, args ...string) *talk {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s := &talk{t: t, cmd: exec.CommandContext(ctx, name, args...), cancel: cancel}
	t.Cleanup(cancel)
	s.cmd.Env = append(os.Environ(), "COLONNADE_BASE_URL="+f.URL(), "COLONNADE_API_KEY="+apiKey)
	s.cmd.Env = append(s.cmd.Env, env...)
	s.cmd.Stderr = &s.stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// await reads until a line arrives.
func (s *talk) await(want string) {
	s.t.Helper()
	for {
		line, err := s.out.ReadString('\n')
		s.output.WriteString(line)
		if line == want {
			return
		}
		if err != nil {
			s.cancel()
			s.t.Fatalf("it never printed %q: %v, %v\n%s%s", want, err, s.cmd.Wait(), s.output.String(), s.stderr.String())
		}
	}
}

func (s *talk) goOn() { fmt.Fprintln(s.in) }

// end returns the whole output.
func (s *talk) end() (string, error) {
	_, _ = io.Copy(&s.output, s.out)
	err := s.cmd.Wait()
	return s.output.String() + s.stderr.String(), err
}
