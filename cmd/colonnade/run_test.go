package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// runAsCommand, in the environment, has the program of the tests be the command line.
const runAsCommand = "COLONNADE_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(runAsCommand) != "" {
		main()
		return
	}
	testkit.VerifyMain(m)
}

// ran is what a command has written, and its error.
type ran struct {
	out, notes string
	err        error
}

// newProgram returns the command tree with its input and output.
func newProgram(stdin io.Reader, out, notes io.Writer) *cli.Command {
	root := newRoot()
	root.Reader, root.Writer, root.ErrWriter = stdin, out, notes
	return root
}

// run runs a command line in this process.
func run(t *testing.T, stdin string, args ...string) ran {
	t.Helper()
	var out, notes bytes.Buffer
	err := command.Run(t.Context(), newProgram(strings.NewReader(stdin), &out, &notes), append([]string{"colonnade"}, args...))
	return ran{out.String(), notes.String(), err}
}

// want checks that a command succeeded and wrote some texts, and returns its output.
func (r ran) want(t *testing.T, texts ...string) string {
	t.Helper()
	if r.err != nil {
		t.Errorf("%v\n%s%s", r.err, r.out, r.notes)
	}
	for _, text := range texts {
		if !strings.Contains(r.out+r.notes, text) {
			t.Errorf("%q is missing in:\n%s%s", text, r.out, r.notes)
		}
	}
	return r.out
}

// fail checks that a command failed, and wrote some texts or has them in its error.
func (r ran) fail(t *testing.T, texts ...string) {
	t.Helper()
	if r.err == nil {
		t.Errorf("it did not fail:\n%s%s", r.out, r.notes)
		return
	}
	for _, text := range texts {
		if printed := r.out + r.notes + r.err.Error(); !strings.Contains(printed, text) {
			t.Errorf("%q is missing in:\n%s", text, printed)
		}
	}
}

// startEtcd starts an etcd for the commands of the test.
func startEtcd(t *testing.T) *etcdtest.Server {
	t.Helper()
	s := etcdtest.Start(t)
	t.Setenv("COLONNADE_ETCD", "http://"+s.Address)
	return s
}

// servable are documents by which a model can be served, for tests of other problems.
var servable = map[string]string{"models/m": "pool: p\n", "colos/ams": "{}", "endpoints/ams/gpu-1": "url: http://127.0.0.1:1\npool: p\n"}

// put writes documents to etcd, valid or not.
func put(t *testing.T, s *etcdtest.Server, documents map[string]string) {
	t.Helper()
	client := s.Client(t)
	for key, value := range documents {
		if _, err := client.Put(t.Context(), "/colonnade/v1/"+key, value); err != nil {
			t.Fatal(err)
		}
	}
}

// record is what a running command has written so far.
type record struct{ testkit.SyncBuffer }

// await waits until the record has a text.
func (r *record) await(t *testing.T, text string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("written so far:\n%s", r.String())
		}
	}()
	testkit.WaitFor(t, fmt.Sprintf("%q in the output", text), func() bool { return strings.Contains(r.String(), text) })
}

// background runs a command line until the function that it returns is called.
func background(t *testing.T, out, notes io.Writer, args ...string) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- command.Run(ctx, newProgram(strings.NewReader(""), out, notes), append([]string{"colonnade"}, args...))
	}()
	return func() error {
		cancel()
		return <-ended
	}
}

func TestUsageErrors(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		run(t, "", args...).fail(t, want)
	}
	f(`unknown command "nope"; colonnade has`, "nope")
	f("up, register, config, keys, status, events", "nope", "x")
	f(`unknown command "nope"; colonnade config has apply, get, validate, status, delete, confirm-deletions, schema, diff, history, rollback, export`, "config", "nope")
	f("not defined: -nope; see colonnade config get -h", "config", "get", "-nope")
	f("config apply needs at least one FILE", "config", "apply")
	f("config delete needs at least one KEY", "config", "delete")
	f("colonnade health needs the URL of a health page", "health")
	f(`unexpected argument "x": colonnade config status takes only flags`, "config", "status", "x")
	f("must be 0 to 100", "status", "-accounts", "101")
	f("must be host:port", "status", "-admin", "127.0.0.1:1,x")
}

// Help shows what a command does, its flags with their variables, and an example.
func TestHelpOfEachCommand(t *testing.T) {
	var paths [][]string
	var walk func(c *cli.Command, path []string)
	walk = func(c *cli.Command, path []string) {
		paths = append(paths, path)
		for _, below := range c.Commands {
			walk(below, append(path[:len(path):len(path)], below.Name))
		}
	}
	walk(newRoot(), nil)
	for _, path := range paths {
		out := run(t, "", append(path, "-h")...).want(t, "Examples:\n")
		for line := range strings.Lines(out) {
			if utf8.RuneCountInString(line) > 101 {
				t.Errorf("colonnade %s -h has a line of more than 100 columns: %s", strings.Join(path, " "), line)
			}
		}
	}
}

func TestText(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(count(1, "key")+", "+count(0, "key")+", "+count(2, "day"), "1 key, 0 keys, 2 days")
	f(figure(0)+" "+figure(0.001)+" "+figure(1234)+" "+figure(999_999)+" "+figure(15.5), "0 <0.01 1.23k 1M 15.5")
	f(size(1023)+", "+size(1234567)+", "+size(64<<20), "1023 bytes, 1205 KiB, 64 MiB")
	f(brief(seconds(math.Inf(1)))+", "+brief(millis(math.MinInt64)), "2777h46m40s, 0.00ms")
	f(brief(420*time.Microsecond), "0.42ms")
	f(brief(52*time.Millisecond), "52ms")
	f(brief(999600*time.Microsecond), "1.00s")
	f(brief(9996*time.Millisecond), "10.0s")
	f(brief(59996*time.Millisecond), "1m0s")
	f(brief(83400*time.Millisecond), "1m23s")
	f(firstOf([]string{"a", "b", "c", "d", "e"}), "a, b, c, d, e")
	f(firstOf([]string{"a", "b", "c", "d", "e", "f"}), "a, b, c, d and 2 more")
}
