package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// ran is what a command has said.
type ran struct {
	out, notes string
	err        error
}

// run runs a command line in this process.
func run(t *testing.T, stdin string, args ...string) ran {
	t.Helper()
	var out, notes bytes.Buffer
	root := newRoot()
	root.SetArgs(doubleDashes(args))
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&notes)
	err := root.ExecuteContext(t.Context())
	return ran{out.String(), notes.String(), err}
}

// want checks that a command ran well, and returns what it said.
func (r ran) want(t *testing.T, texts ...string) string {
	t.Helper()
	if r.err != nil {
		t.Errorf("%v\n%s%s", r.err, r.out, r.notes)
	}
	for _, text := range texts {
		if !strings.Contains(r.out+r.notes, text) {
			t.Errorf("it does not say %q:\n%s%s", text, r.out, r.notes)
		}
	}
	return r.out
}

// fail checks that a command failed, and that it says why.
func (r ran) fail(t *testing.T, texts ...string) {
	t.Helper()
	if r.err == nil {
		t.Errorf("it did not fail:\n%s%s", r.out, r.notes)
		return
	}
	for _, text := range texts {
		if said := r.out + r.notes + r.err.Error(); !strings.Contains(said, text) {
			t.Errorf("it does not say %q:\n%s", text, said)
		}
	}
}

// startEtcd starts an etcd that the commands of the test use.
func startEtcd(t *testing.T) *etcdtest.Server {
	t.Helper()
	s := etcdtest.Start(t)
	t.Setenv("COLONNADE_ETCD", "http://"+s.Address)
	return s
}

// put writes values as they are, good or bad.
func put(t *testing.T, s *etcdtest.Server, documents map[string]string) {
	t.Helper()
	client := s.Client(t)
	for key, value := range documents {
		if _, err := client.Put(t.Context(), "/colonnade/v1/"+key, value); err != nil {
			t.Fatal(err)
		}
	}
}

// screen is what a command that runs has said so far.
type screen struct{ testkit.SyncBuffer }

// await waits until the screen has a text.
func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("it says:\n%s", s.String())
		}
	}()
	testkit.WaitFor(t, fmt.Sprintf("it to say %q", text), func() bool { return strings.Contains(s.String(), text) })
}

// background runs a command line until the function that it returns is called.
func background(t *testing.T, out, notes *screen, args ...string) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	root := newRoot()
	root.SetArgs(doubleDashes(args))
	root.SetOut(out)
	root.SetErr(notes)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func TestWhatThereIs(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		run(t, "", args...).fail(t, want)
	}
	f(`there is no command "colonnade nope"; colonnade has`, "nope")
	f("config, engine, events", "nope", "x", "-y")
	f(`there is no command "colonnade config nope"; colonnade config has apply, confirm-deletions, delete, get, schema, status, validate`, "config", "nope")
	f("unknown flag: -nope; colonnade config get has -all, -etcd", "config", "get", "-nope")
	f(`invalid argument "x" for "-n, -number" flag: must be a whole number; colonnade events tail has`, "events", "tail", "-n", "x")
	f("config apply needs at least one FILE", "config", "apply")
	f("config delete needs at least one KEY", "config", "delete")
	f("colonnade health needs the URL of a health page", "health")
	f(`unexpected argument "x": colonnade config status takes only flags; colonnade config status has -etcd, -json`, "config", "status", "x")
	for _, group := range []string{"", "config", "events"} {
		run(t, "", strings.Fields(group)...).want(t, "Examples:", "Available Commands:")
	}
	for _, c := range newRoot().Commands() {
		for _, c := range append(c.Commands(), c) {
			if c.Example == "" {
				t.Errorf("%s has no example", c.CommandPath())
			}
			for line := range strings.Lines(c.Long + "\n" + c.Example + "\n" + c.UsageString()) {
				if utf8.RuneCountInString(line) > lineWidth+1 {
					t.Errorf("%s -h has a line of more than %d columns: %s", c.CommandPath(), lineWidth, line)
				}
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
	f(shown("ams/gpu-7 é"), "ams/gpu-7 é")
	f(shown("a\x1b[31m\nb\u202e\xff"), `"a\x1b[31m\nb\u202e\xff"`)
	f(count(1, "query")+", "+count(0, "query")+", "+isAre(2, "line"), "1 query, 0 queries, 2 lines are")
	f(count(2, "key")+", "+count(2, "day"), "2 keys, 2 days")
	f(brief(420*time.Microsecond), "0.42ms")
	f(brief(52*time.Millisecond), "52ms")
	f(brief(999600*time.Microsecond), "1.00s")
	f(brief(9996*time.Millisecond), "10.0s")
	f(brief(59996*time.Millisecond), "1m0s")
	f(brief(83400*time.Millisecond), "1m23s")
	f(some([]string{"a", "b", "c", "d", "e"}), "a, b, c, d, e")
	f(some([]string{"a", "b", "c", "d", "e", "f"}), "a, b, c, d and 2 more")
	long := strings.Repeat("word ", 24)
	f(wrapped("- "+long+"end", "  "), "- "+strings.TrimSpace(strings.Repeat("word ", 19))+"\n  "+strings.Repeat("word ", 5)+"end")
}
