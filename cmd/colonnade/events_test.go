package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/cmd/internal/command"
	"colonnade/fleet"
)

func openLog(t *testing.T, dir, node string) *journal.Log {
	t.Helper()
	l, err := journal.Open(journal.Config{Dir: dir, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// ended is a final event of a request at an entry.
func ended(id, account string, outcome analytics.Outcome) *analytics.Event {
	return &analytics.Event{
		EventID: id, RequestID: id, Kind: analytics.KindRequest, Phase: analytics.PhaseEnd, Account: account, Model: "tiny", Outcome: outcome, Status: 200,
	}
}

func TestEventLine(t *testing.T) {
	f := func(e analytics.Event, want string) {
		t.Helper()
		e.Time, e.RequestID = time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.Local), "0123abcdef"
		got := strings.Join(strings.Fields(eventLine(&e)), " ")
		if want = "2026-03-04 05:06:07.089 0123abcd " + want; got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	ms := func(n float64) analytics.Milliseconds { return analytics.Milliseconds(n * 1e6) }
	whole := analytics.Event{
		Node: "ams-1", Kind: analytics.KindInference, ColoID: "ams", Endpoint: "gpu-7", Account: "acme", Model: "llama",
		Status: 200, Outcome: analytics.OutcomeCompleted, RequestTime: ms(1960), QueuingTime: ms(12), TimeToFirstToken: ms(52.4),
		PromptTokens: 12, CompletionTokens: 64, TokensEstimated: 63, Cost: 0.08234567, CostUnit: "neurons", Attempts: 2,
	}
	f(whole, "ams-1 acme llama ams/gpu-7 200 1.96s queued 12ms ttft 52ms tokens 12+64 cost 0.08235 neurons attempts 2")
	gone := whole
	gone.PromptTokens, gone.CompletionTokens, gone.Cost, gone.Attempts, gone.Outcome, gone.Endpoint = 0, 0, 0, 1, analytics.OutcomeClientGone, ""
	f(gone, "ams-1 acme llama ams 200 client_gone 1.96s queued 12ms ttft 52ms tokens ~63")
	f(analytics.Event{Node: "e", Status: 200, Outcome: analytics.OutcomeCompleted, RequestTime: ms(420), AudioSeconds: 3600.25, Cost: 2, CostUnit: "neurons"},
		"e - - - 200 420ms audio 3600.25s cost 2 neurons")
	f(analytics.Event{Node: "e", Status: 429, Outcome: analytics.OutcomeRefused, Reason: "queue_full", Code: "rate_limited"},
		"e - - - 429 refused (queue_full)")
	f(analytics.Event{Node: "e", Status: 404, Outcome: analytics.OutcomeRefused, Code: "model_not_found", Model: "x\x1b[31m"},
		`e - "x\x1b[31m" - 404 refused (model_not_found)`)
	f(analytics.Event{Node: "e", Outcome: analytics.OutcomeCrashed}, "e - - - - crashed")
	e := analytics.Event{Time: time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.Local), Kind: analytics.KindEngine, Node: "ams-1", ColoID: "ams", Pool: "llama", Endpoint: "gpu-7-8000",
		Worker: "gpu-7-8000", Machine: "gpu-7", GPU: "GPU-1", Reason: fleet.IncidentXid, Detail: "Xid 79\x1b[31m"}
	if got, want := eventLine(&e), `2026-03-04 05:06:07.089 -        ams-1      -          -                ams/gpu-7-8000   "- gpu_xid (Xid 79\x1b[31m), worker gpu-7-8000, GPU-1"`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Values stand in columns; one that is too long is shown whole.
func TestEventLinesAlign(t *testing.T) {
	f := func(account, want string) {
		t.Helper()
		e := ended("1", account, analytics.OutcomeCompleted)
		e.Time = time.Date(2026, 3, 4, 23, 59, 59, 0, time.Local)
		if got := eventLine(e); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	f("acme", "2026-03-04 23:59:59.000 1        -          acme       tiny             -                200")
	f("a-very-long-name", "2026-03-04 23:59:59.000 1        -          a-very-long-name tiny             -                200")
}

func TestEventsTail(t *testing.T) {
	dir := t.TempDir()
	entry, colo := openLog(t, dir, "edge-1"), openLog(t, dir, "ams-1")
	entry.Append(ended("1", "acme", analytics.OutcomeCompleted))
	entry.Append(ended("2", "open", analytics.OutcomeRefused))
	begin := ended("3", "acme", "")
	begin.Kind, begin.Phase = analytics.KindInference, analytics.PhaseBegin
	colo.Append(begin)
	end := ended("3", "acme", analytics.OutcomeTimeout)
	end.Kind = analytics.KindInference
	colo.Append(end)
	f := func(want int, args ...string) string {
		t.Helper()
		out := run(t, "", append([]string{"events", "tail", "-data-dir", dir}, args...)...).want(t)
		if lines := strings.Count(out, "\n"); lines != want {
			t.Errorf("%v: %d lines, want %d:\n%s", args, lines, want, out)
		}
		return out
	}
	f(3)
	f(1, "-n", "1")
	f(0, "-n", "0")
	f(2, "-account", "acme")
	f(1, "-kind", "inference")
	f(1, "-outcome", "refused")
	f(2, "-node", "edge-1", "-model", "tiny")
	f(0, "-model", "other")
	if out := f(1, "-kind", "inference", "-json"); !strings.HasPrefix(out, `{"event_id":"3","request_id":"3","kind":"inference","phase":"end",`) {
		t.Errorf("got %s", out)
	}
	f(0, "-account", "other")
	f(1, "-request", "2")
	f(3, "-since", "1h")
	f(0, "-since", "1h", "-until", "30m")
	run(t, "", "events", "tail", "-data-dir", dir, "-admin", "127.0.0.1:1").fail(t, "-data-dir excludes -admin and -etcd")
	run(t, "", "events", "tail", "-data-dir", dir, "-since", "soon").fail(t, `flag -since: "soon" is no time; examples: 90m`)
	run(t, "", "events", "tail", "-data-dir", dir, "-since", "1h", "-until", "2h").fail(t, "flag -until: ", "is not after -since")
	run(t, "", "events", "tail", "-data-dir", dir+"/events").fail(t, "-data-dir "+dir+"/events: no node keeps events there")
	t.Setenv("COLONNADE_DATA_DIR", dir)
	run(t, "", "events", "tail").want(t, "edge-1")
	run(t, "", "events", "tail", "-kind", "x").fail(t, `invalid value "x" for flag -kind: must be one of request, inference`)
	run(t, "", "events", "tail", "-outcome", "x").fail(t, `invalid value "x" for flag -outcome: must be one of completed, client_gone`)
	run(t, "", "events", "tail", "-n", "-1").fail(t, `invalid value "-1" for flag -n: must be 0 to 100000`)
}

// Following shows new events, each once its line is complete, and counts bad lines at the end.
func TestEventsFollow(t *testing.T) {
	dir := t.TempDir()
	entry := openLog(t, dir, "edge-1")
	entry.Append(ended("1", "first", analytics.OutcomeCompleted))
	var out, notes record
	stop := background(t, &out, &notes, "events", "tail", "-data-dir", dir, "-f")
	out.await(t, " first ")
	entry.Append(ended("2", "second", analytics.OutcomeCompleted))
	out.await(t, " second ")
	other := openLog(t, dir, "ams-1")
	other.Append(ended("3", "third", analytics.OutcomeCompleted))
	out.await(t, " third ")
	folder := filepath.Join(dir, "events", "ams-2") // of a node that runs on, a part is mapped
	if err := os.Mkdir(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(folder, "1.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("not a line\n"); err != nil {
		t.Fatal(err)
	}
	entry.Append(ended("4", "fourth", analytics.OutcomeCompleted))
	out.await(t, " fourth ")
	if _, err := file.WriteString("half a"); err != nil {
		t.Fatal(err)
	}
	other.Append(ended("5", "fifth", analytics.OutcomeCompleted))
	out.await(t, " fifth ")
	if err := stop(); err != nil {
		t.Error(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 5 {
		t.Errorf("%d lines, want 5:\n%s", lines, out.String())
	}
	if got, want := notes.String(), "left out: 1 line, corrupt or incomplete\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Output that cannot be written is an error, at the beginning and while events are followed.
func TestEventsOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, "edge-1")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("this system has no /dev/full: %v", err)
	}
	defer full.Close()
	tail := func(args ...string) error {
		return command.Run(t.Context(), newProgram(strings.NewReader(""), full, io.Discard), append([]string{"colonnade", "events", "tail", "-data-dir", dir}, args...))
	}
	if err := tail(); err != nil {
		t.Errorf("without events: %v", err)
	}
	l.Append(ended("1", "acme", analytics.OutcomeCompleted))
	for _, args := range [][]string{{}, {"-json"}, {"-f"}} {
		if err := tail(args...); !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), "cannot show events: ") {
			t.Errorf("%v: got %v, want that there is no room", args, err)
		}
	}
	followed := make(chan error, 1)
	go func() { followed <- tail("-f", "-n", "0") }()
	for i := 2; ; i++ {
		select {
		case err := <-followed:
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("got %v, want that there is no room", err)
			}
			return
		case <-time.After(20 * time.Millisecond):
			l.Append(ended(fmt.Sprint(i), "acme", analytics.OutcomeCompleted))
		}
	}
}
