package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"colonnade/bench"
	"colonnade/internal/testkit"
)

func TestFlags(t *testing.T) {
	f := func(line string, want ...string) {
		t.Helper()
		err := run(t.Context(), strings.Fields(line), io.Discard, io.Discard)
		for _, text := range want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want %q", line, err, text)
			}
		}
	}
	t.Setenv("OPENAI_API_KEY", "")
	f("-scenario nope", `-scenario "nope": there is no such scenario; there are all, `, "flood")
	f("-scenario all,nope", `-scenario "nope"`)
	f("-gateways fifo,nope", `-gateways "nope": there is no such gateway; there are colonnade, no-queue, fifo, round-robin`)
	f("-url http://127.0.0.1:1/v1", "-url needs -model")
	f("-url http://127.0.0.1:1/v1 -model m", "-url needs -key")
	f("-url 127.0.0.1:1 -model m", `-url "127.0.0.1:1": `, "write for example http://127.0.0.1:8080/v1")
	f("-url http://127.0.0.1:1 -model m", "which mostly ends in /v1")
	f("-url https://127.0.0.1:1/v1 -model m", "TLS")
	f("-url http://127.0.0.1:1/v1 -model m -key k -engines 9001", `-engines "9001": must be host:port`)
	f("-url http://127.0.0.1:1/v1 -model m -key k -slots -1", "-slots -1: must not be negative")
	f("-model m", "-model is for a gateway that already runs: name it with -url")
	f("-engines 127.0.0.1:1", "-engines is for a gateway that already runs")
	f("-out /proc/nothing", `-out "/proc/nothing": `)
	f("-json /nothing/there", `-json "/nothing/there": `)
	f("-json "+t.TempDir(), "is a directory; name a file")
	f("-from /nothing/there", "-from: ", "no such file")
	f("x", `unexpected argument "x"`, "-h")
	f("-nope", "flag provided but not defined: -nope", "-h")
	var help bytes.Buffer
	if err := run(t.Context(), []string{"-h"}, &help, io.Discard); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"-quick", "OPENAI_API_KEY"} {
		if !strings.Contains(help.String(), text) {
			t.Errorf("help does not mention %q", text)
		}
	}
	for _, c := range bench.Scenarios() {
		if !strings.Contains(help.String(), "  "+c.Name+" ") {
			t.Errorf("help does not mention the scenario %s", c.Name)
		}
	}
}

// Lists are separated by commas or given by several flags.
func TestListFlags(t *testing.T) {
	var o options
	if err := o.flags().Parse([]string{"-scenario", "load, flood", "-key", "a", "-key", "b"}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(append(o.scenarios, o.remote.Keys...), " "); got != "load flood a b" {
		t.Errorf("got %q", got)
	}
}

// HAProxy is left out where it is not installed, unless it was asked for.
func TestGatewaysWithoutHAProxy(t *testing.T) {
	missing := func() (bench.Gateway, error) { return bench.Gateway{}, errors.New("it is not installed") }
	there := func() (bench.Gateway, error) { return bench.Gateway{Name: "haproxy"}, nil }
	f := func(find func() (bench.Gateway, error), flags options, want, say string) {
		t.Helper()
		var notes bytes.Buffer
		chosen, err := flags.chosenGateways(find, &notes)
		if got := strings.Join(gatewayNames(chosen), " "); got != want {
			t.Errorf("gateways %q, want %q", got, want)
		}
		if said := fmt.Sprint(err, " ", notes.String()); !strings.Contains(said, say) {
			t.Errorf("notes %q, want %q", said, say)
		}
	}
	f(missing, options{}, "colonnade no-queue fifo round-robin", "left out: it is not installed")
	f(missing, options{gateways: []string{"fifo"}}, "fifo", "<nil> ")
	f(missing, options{gateways: []string{"haproxy", "fifo"}}, "", "-gateways haproxy: it is not installed")
	f(there, options{}, "colonnade no-queue fifo round-robin haproxy", "")
	f(there, options{gateways: []string{"haproxy"}, remote: bench.Remote{URL: "x"}}, "haproxy", "")
	f(missing, options{remote: bench.Remote{URL: "x"}}, "", "<nil> ")
}

func TestVerdict(t *testing.T) {
	f := func(o options, quick bool, th bench.ThresholdResult, want string) {
		t.Helper()
		th.Name, th.Gateway = "goodput", "colonnade"
		r := &bench.Report{Quick: quick, Scenarios: []bench.ScenarioResult{{Rows: []bench.Row{{}}, Thresholds: []bench.ThresholdResult{th}}}}
		if err := o.verdict(r); fmt.Sprint(err) != want {
			t.Errorf("%+v: %v, want %s", th, err, want)
		}
	}
	judge := options{judge: true}
	f(judge, false, bench.ThresholdResult{}, "thresholds missed: colonnade: goodput")
	f(judge, false, bench.ThresholdResult{Passed: true}, "<nil>")
	f(judge, false, bench.ThresholdResult{Got: bench.Unmeasured()}, "<nil>")
	f(judge, false, bench.ThresholdResult{Why: []string{"It cannot be met."}}, "<nil>")
	f(judge, true, bench.ThresholdResult{}, "<nil>")
	f(options{}, false, bench.ThresholdResult{}, "<nil>")
	left := bench.ScenarioResult{Notes: []string{"remote, left out: it needs 3 accounts."}}
	err := judge.verdict(&bench.Report{Scenarios: []bench.ScenarioResult{left}})
	if err == nil || err.Error() != "nothing was measured:\nremote, left out: it needs 3 accounts." {
		t.Error(err)
	}
	if err := judge.verdict(&bench.Report{Scenarios: []bench.ScenarioResult{left, {Rows: []bench.Row{{}}}}}); err != nil {
		t.Error(err)
	}
}

// A saved report is shown and rendered again.
func TestReportFromFile(t *testing.T) {
	dir := t.TempDir()
	r := &bench.Report{Format: bench.Format, Scenarios: []bench.ScenarioResult{{Name: "flood", Title: "one floods",
		Rows: []bench.Row{{Gateway: "g"}}}}}
	saved := filepath.Join(dir, "saved.json")
	if err := bench.WriteFile(saved, func(w io.Writer) error { return bench.WriteJSON(w, r) }); err != nil {
		t.Fatal(err)
	}
	var out, notes bytes.Buffer
	err := run(t.Context(), []string{"-from", saved, "-json", filepath.Join(dir, "x.json"), "-out", dir}, &out, &notes)
	if err != nil || !strings.Contains(out.String(), "one floods") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%v; it printed %q", err, out.String())
	}
	for _, name := range []string{"x.json", "overload.json", "overload.md"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil || !strings.Contains(notes.String(), "x.json") {
			t.Errorf("%v; notes %q", err, notes.String())
		}
	}
	out.Reset()
	if err := run(t.Context(), []string{"-from", saved, "-json", "-"}, &out, &notes); err != nil {
		t.Error(err)
	}
	if back, err := bench.ReadJSON(&out); err != nil || back.Scenarios[0].Title != "one floods" {
		t.Errorf("standard output is no report: %v", err)
	}
}

func TestProgress(t *testing.T) {
	steps := []bench.Progress{
		{Scenario: "load", Gateway: "colonnade", Doing: "2×", Done: 0.25, Left: 100 * time.Second},
		{Scenario: "load", Gateway: "colonnade", Doing: "2×", Done: 0.26, Left: 99 * time.Second},
		{Scenario: "load", Doing: strings.Repeat("much to do ", 12), Done: 1},
		{Scenario: "flood"},
	}
	f := func(terminal bool, want string) {
		t.Helper()
		var out bytes.Buffer
		p := progress{to: &out, terminal: terminal}
		for _, s := range steps {
			p.show(s)
		}
		p.end()
		if out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	}
	f(false, " 25 %  load, colonnade, 2×, 1m40s left\n100 %  load, "+steps[2].Doing+"\n  0 %  flood\n")
	f(true, clearLine+" 25 %  load, colonnade, 2×, 1m40s left"+clearLine+" 26 %  load, colonnade, 2×, 1m39s left"+
		clearLine+("100 %  load, " + steps[2].Doing)[:119]+clearLine+"  0 %  flood"+clearLine)
}

// An interrupted run leaves nothing behind: no process, no directory.
func TestInterruptedRun(t *testing.T) {
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Skip("haproxy is not installed: ", err)
	}
	testkit.NeedsLinux(t, "shows in /proc which processes run")
	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)
	var out, notes testkit.SyncBuffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-scenario", "flood", "-gateways", "haproxy", "-out", filepath.Join(t.TempDir(), "o")}, &out, &notes)
	}()
	testkit.WaitFor(t, "the scenario to begin", func() bool { return strings.Contains(notes.String(), "flood, haproxy") })
	if n := children(t); n == 0 {
		t.Error("HAProxy does not run")
	}
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "interrupted: nothing is reported") {
		t.Errorf("the run ended with %v", err)
	}
	if n := children(t); n != 0 {
		t.Errorf("%d processes still run", n)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if out.String() != "" {
		t.Errorf("it printed %s", out.String())
	}
}

// children counts the HAProxy processes that this process has started.
func children(t *testing.T) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		name, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if strings.HasSuffix(name, "(haproxy") && len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			n++
		}
	}
	return n
}
