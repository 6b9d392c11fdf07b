package command_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
)

// settings are what the command of these tests is given.
type settings struct {
	listen string
	limit  int
	drain  time.Duration
	open   bool
	args   []string
}

// run runs a program with one command, "serve", which has a flag of each type.
func run(t *testing.T, args ...string) (s settings, out string, err error) {
	t.Helper()
	var written strings.Builder
	root := &cli.Command{
		Name: "program", Usage: "Show what these tests need", Version: "v1.2.3", Writer: &written,
		Commands: []*cli.Command{{
			Name: "serve", Usage: "Serve something", ArgsUsage: "FILE…", ArgValidator: command.RequireArgs("at least one FILE"),
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "listen-address", Value: ":8080", Destination: &s.listen, Usage: "`ADDRESS` " + strings.Repeat("of many words ", 20)},
				&cli.IntFlag{Name: "limit", Aliases: []string{"l"}, Value: 3, Destination: &s.limit, Usage: "largest `NUMBER`"},
				&cli.DurationFlag{Name: "drain", Value: time.Minute, Destination: &s.drain, Usage: "longest time"},
				&cli.BoolFlag{Name: "open", Value: true, Destination: &s.open, Usage: "serve everyone"},
			},
			Description: "Examples:\n  program serve -drain 5s file",
			Action: func(_ context.Context, c *cli.Command) error {
				s.args = c.Args().Slice()
				return nil
			},
		}, {Name: "list", Usage: "List nothing", Action: func(context.Context, *cli.Command) error { return nil }}},
	}
	err = command.Run(t.Context(), root, append([]string{"program"}, args...))
	return s, written.String(), err
}

func TestFlagsHaveOneDashOrTwo(t *testing.T) {
	f := func(want settings, line string) {
		t.Helper()
		got, _, err := run(t, strings.Fields("serve "+line)...)
		if err != nil || got.listen != want.listen || got.limit != want.limit || got.drain != want.drain || got.open != want.open ||
			strings.Join(got.args, " ") != strings.Join(want.args, " ") {
			t.Errorf("%s: got %+v, %v; want %+v", line, got, err, want)
		}
	}
	f(settings{":8080", 3, time.Minute, true, []string{"a"}}, "a")
	f(settings{":1", 3, 5 * time.Second, true, []string{"a"}}, "-listen-address :1 --drain 5s a")
	f(settings{":1", 7, -5 * time.Second, false, []string{"a", "b"}}, "a -listen-address=:1 -l 7 b --open=false -drain -5s")
	f(settings{":8080", 3, time.Minute, true, []string{"-", "-x", "help"}}, "- -- -x help")
}

func TestEnvironmentSetsFlags(t *testing.T) {
	t.Setenv("COLONNADE_LISTEN_ADDRESS", ":2")
	t.Setenv("COLONNADE_LIMIT", "9")
	t.Setenv("COLONNADE_DRAIN", "7s")
	t.Setenv("COLONNADE_OPEN", "false")
	if got, _, err := run(t, "serve", "a"); err != nil || got.listen != ":2" || got.limit != 9 || got.drain != 7*time.Second || got.open {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, _, err := run(t, "serve", "a", "-limit", "1"); err != nil || got.limit != 1 || got.listen != ":2" {
		t.Errorf("a flag does not come before the environment: %+v, %v", got, err)
	}
	t.Setenv("COLONNADE_DRAIN", "soon")
	if _, _, err := run(t, "serve", "a"); err == nil || !strings.Contains(err.Error(), `environment variable "COLONNADE_DRAIN"`) {
		t.Errorf("a bad value is not refused with its name: %v", err)
	}
}

func TestUsageErrors(t *testing.T) {
	f := func(want, line string) {
		t.Helper()
		if _, _, err := run(t, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	f(`unknown command "nope"; program has serve, list`, "nope")
	f("not defined: -nope; see program serve -h", "serve -nope")
	f(`invalid value "x" for flag -drain`, "serve -drain x")
	f("program serve needs at least one FILE; see program serve -h", "serve")
	f(`unexpected argument "help": program list takes only flags`, "list help")
}

func TestHelp(t *testing.T) {
	_, out, err := run(t, "serve", "-h")
	if err != nil {
		t.Fatal(err)
	}
	place := -1
	for _, want := range []string{
		"program serve - Serve something", "program serve [options] FILE…",
		"--listen-address ADDRESS\n", `(default: ":8080")`, "[$COLONNADE_LISTEN_ADDRESS]",
		"--limit NUMBER, -l NUMBER\n      largest NUMBER (default: 3) [$COLONNADE_LIMIT]\n",
		"longest time (default: 1m0s) [$COLONNADE_DRAIN]", "serve everyone (default: true) [$COLONNADE_OPEN]",
		"Examples:\n     program serve -drain 5s file",
	} {
		at := strings.Index(strings.ReplaceAll(out, "\n      (default", " (default"), want)
		if at < place || at < 0 {
			t.Errorf("%q is missing, or stands at another place:\n%s", want, out)
		}
		place = at
	}
	for line := range strings.Lines(out) {
		if utf8.RuneCountInString(line) > 101 {
			t.Errorf("a line has more than 100 columns: %s", line)
		}
	}
	for _, args := range [][]string{nil, {"-h"}} {
		if _, out, err := run(t, args...); err != nil || !strings.Contains(out, "serve  Serve something") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	if _, out, err := run(t, "-version"); err != nil || out != "program version v1.2.3\n" {
		t.Errorf("-version: %q, %v", out, err)
	}
}

func TestFailedWriteIsAnError(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("this system has no /dev/full: %v", err)
	}
	defer full.Close()
	broken := errors.New("broken")
	root := &cli.Command{Name: "program", Writer: full, Action: func(_ context.Context, c *cli.Command) error {
		if command.File(c.Writer) != full {
			t.Error("the file is not found behind the Writer")
		}
		_, _ = c.Writer.Write([]byte("lost"))
		return broken
	}}
	if err := command.Run(t.Context(), root, []string{"program"}); !errors.Is(err, broken) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
}

func TestPrintErrorIsPrintable(t *testing.T) {
	var out strings.Builder
	command.PrintError(&out, "program", errors.Join(errors.New("bad: \x1b[31m"), errors.New("ä is fine")))
	if want := "program: \"bad: \\x1b[31m\"\nä is fine\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if got := command.Printable("a\u202eb\xff"); got != `"a\u202eb\xff"` {
		t.Errorf("got %s", got)
	}
}
