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

func TestBenchFlags(t *testing.T) {
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
	f("-model m", "-model is for a gateway that runs already: name it with -url")
	f("-engines 127.0.0.1:1", "-engines is for a gateway that runs already")
	f("-out /proc/nothing", `-out "/proc/nothing": `)
	f("-json /nothing/there", `-json "/nothing/there": `)
	f("-json "+t.TempDir(), "that is a directory; name a file")
	f("x", `unexpected argument "x"`, "-h")
	f("-nope", "flag provided but not defined: -nope", "-h")
	var help bytes.Buffer
	if err := run(t.Context(), []string{"-h"}, &help, io.Discard); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"-quick", "OPENAI_API_KEY"} {
		if !strings.Contains(help.String(), text) {
			t.Errorf("help does not say %q", text)
		}
	}
	for _, c := range bench.Scenarios() {
		if !strings.Contains(help.String(), "  "+c.Name+" ") {
			t.Errorf("help does not say that there is the scenario %s", c.Name)
		}
	}
}

// HAProxy that is not there is left out, unless it was asked for.
func TestBenchWithoutHAProxy(t *testing.T) {
	missing := func() (bench.Gateway, error) { return bench.Gateway{}, errors.New("it is not installed") }
	there := func() (bench.Gateway, error) { return bench.Gateway{Name: "haproxy"}, nil }
	f := func(find func() (bench.Gateway, error), flags options, want, say string) {
		t.Helper()
		var notes bytes.Buffer
		chosen, err := flags.chosenGateways(find, &notes)
		if got := strings.Join(gatewayNames(chosen), " "); got != want {
			t.Errorf("%v are chosen, want %v", got, want)
		}
		if said := fmt.Sprint(err, " ", notes.String()); !strings.Contains(said, say) {
			t.Errorf("it says %q, want %q", said, say)
		}
	}
	f(missing, options{}, "colonnade no-queue fifo round-robin", "left out: it is not installed")
	f(missing, options{gateways: []string{"fifo"}}, "fifo", "<nil> ")
	f(missing, options{gateways: []string{"haproxy", "fifo"}}, "", "-gateways haproxy: it is not installed")
	f(there, options{}, "colonnade no-queue fifo round-robin haproxy", "")
	f(there, options{gateways: []string{"haproxy"}, remote: bench.Remote{URL: "x"}}, "haproxy", "")
	f(missing, options{remote: bench.Remote{URL: "x"}}, "", "<nil> ")
}

func TestBenchVerdict(t *testing.T) {
	r := &bench.Report{Scenarios: []bench.ScenarioResult{{Rows: []bench.Row{{}}, Thresholds: []bench.ThresholdResult{{Name: "goodput", Gateway: "colonnade"}, {Name: "leaked", Gateway: "colonnade", Passed: true}}}}}
	if err := (&options{judge: true}).verdict(r); err == nil || err.Error() != "1 mark missed: colonnade: goodput" {
		t.Errorf("it says %v", err)
	}
	marks := r.Scenarios[0].Thresholds
	marks[1].Passed, marks[1].Got = false, bench.Unmeasured()
	if err := (&options{judge: true}).verdict(r); err == nil || strings.Contains(err.Error(), "leaked") {
		t.Errorf("beside one that was not measured it says %v", err)
	}
	shown := &bench.Report{Scenarios: []bench.ScenarioResult{{Rows: r.Scenarios[0].Rows, Thresholds: []bench.ThresholdResult{{Name: "wait", Why: "out of reach"}}}}}
	if err := (&options{judge: true}).verdict(shown); err != nil {
		t.Errorf("of a mark of which it was measured that it is out of reach: %v", err)
	}
	for _, f := range []options{{judge: true, quick: true}, {}} {
		if err := f.verdict(r); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func TestBenchDelivers(t *testing.T) {
	dir := t.TempDir()
	r := &bench.Report{Format: bench.Format, Scenarios: []bench.ScenarioResult{{Name: "flood", Title: "One floods"}}}
	var out, notes bytes.Buffer
	f := options{json: filepath.Join(dir, "x.json"), out: dir}
	if err := f.deliver(r, &out, &notes); err != nil || !strings.Contains(out.String(), "One floods") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%v; it printed %q", err, out.String())
	}
	for _, name := range []string{"x.json", "overload.json", "overload.md"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil || !strings.Contains(notes.String(), "x.json") {
			t.Errorf("%v; it said %q", err, notes.String())
		}
	}
	out.Reset()
	f = options{json: "-"}
	if err := f.deliver(r, &out, &notes); err != nil {
		t.Error(err)
	}
	if back, err := bench.ReadJSON(&out); err != nil || back.Scenarios[0].Title != "One floods" {
		t.Errorf("standard output is no report: %v", err)
	}
}

func TestBenchProgress(t *testing.T) {
	steps := []bench.Progress{
		{Scenario: "load", Gateway: "colonnade", Doing: "2×", Done: 0.25, Left: 100 * time.Second},
		{Scenario: "load", Gateway: "colonnade", Doing: "2×", Done: 0.26, Left: 99 * time.Second},
		{Scenario: "load", Doing: strings.Repeat("much to do ", 9), Done: 1},
		{Scenario: "flood"},
	}
	var lines, line bytes.Buffer
	plain, rewritten := &progressLine{to: &lines}, &progressLine{to: &line, rewrite: true}
	for _, p := range steps {
		plain.show(p)
		rewritten.show(p)
	}
	plain.end()
	rewritten.end()
	want := " 25 %  load, colonnade, 2×, 2 min left\n100 %  load, " + steps[2].Doing + "\n  0 %  flood\n"
	if lines.String() != want {
		t.Errorf("it says %q, want %q", lines.String(), want)
	}
	// What somebody at the terminal sees after each return of the carriage.
	var seen []rune
	shown := strings.Split(line.String(), "\r")
	for i, text := range shown {
		seen = append([]rune(text), seen[min(len(seen), len([]rune(text))):]...)
		if len(seen) > progressWidth {
			t.Errorf("it is longer than a terminal's line: %q", string(seen))
		}
		if i > 0 && i <= len(steps) && !strings.HasPrefix(strings.TrimRight(string(seen), " "), strings.TrimRight(text, " ")) {
			t.Errorf("it shows %q", string(seen))
		}
		if i == len(steps) && strings.TrimSpace(string(seen)) != "0 %  flood" {
			t.Errorf("at the end it shows %q", string(seen))
		}
	}
	if strings.TrimSpace(string(seen)) != "" || len(shown) != len(steps)+3 {
		t.Errorf("it leaves %q", string(seen))
	}
}

// Whoever ends it leaves nothing behind: no process, no directory.
func TestBenchEnds(t *testing.T) {
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Skip("haproxy is not installed: ", err)
	}
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
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "ended before all was measured") {
		t.Errorf("it ended with %v", err)
	}
	if n := children(t); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	if out.String() != "" {
		t.Errorf("it reports %s", out.String())
	}
}

// children counts HAProxies that this process has started.
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

// A run of which every scenario was left out has not succeeded.
func TestBenchNothingRan(t *testing.T) {
	left := bench.ScenarioResult{Name: "flood", Notes: []string{"Left out for remote: it needs 3 accounts."}}
	f := &options{quick: true}
	err := f.verdict(&bench.Report{Scenarios: []bench.ScenarioResult{left}})
	if err == nil || err.Error() != "nothing was measured: flood: Left out for remote: it needs 3 accounts." {
		t.Error(err)
	}
	if err := f.verdict(&bench.Report{Scenarios: []bench.ScenarioResult{left, {Name: "load", Rows: []bench.Row{{}}}}}); err != nil {
		t.Error(err)
	}
}
