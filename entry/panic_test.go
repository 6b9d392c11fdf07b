package entry

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/internal/testkit"
)

// trap is a log that panics over some messages: a bug in whatever part of the entry says them.
type trap struct {
	slog.Handler
	over []string
}

// Enabled makes Handle be called.
func (p trap) Enabled(context.Context, slog.Level) bool { return true }

// Handle panics, perhaps.
func (p trap) Handle(_ context.Context, r slog.Record) error {
	if slices.Contains(p.over, r.Message) {
		panic("a bug of ours")
	}
	return nil
}

// A panic costs its own request, at whatever stage that is: it is answered, nothing of it is left, and it has its one
// final event.
func TestPanicAtAnyStage(t *testing.T) {
	const model = "key: models/m\nmax_body: 1MiB\n"
	const nonsense = "colo answered without a verdict"
	plain := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "nonsense") }
	short, long := request, `{"model":"m","messages":["`+strings.Repeat("x", 100<<10)+`"]}`
	for _, stage := range []struct {
		name string
		at   int64 // the question for a table that panics
		over []string
		body string
	}{
		{name: "by the head", at: 1, body: short},
		{name: "in asking how long a body may be", at: 2, body: short},
		{name: "when the body was read", at: 3, body: short},
		{name: "over the head of a long one", at: 1, body: long},
		{name: "when a long one was read", at: 4, body: long},
		{name: "over what the colo says", over: []string{nonsense}, body: short},
		{name: "over what the colo says, and in logging that", over: []string{nonsense, "handler panicked"}, body: short},
	} {
		t.Run(stage.name, func(t *testing.T) {
			table := tableOf(t, model+colo(t, "ams", plain))
			var armed atomic.Bool
			var asked atomic.Int64
			events := t.TempDir()
			url, e := startEntryWith(t, Config{Logger: slog.New(trap{slog.DiscardHandler, stage.over}), Table: func() *fleet.Table {
				if armed.Load() && asked.Add(1) == stage.at {
					panic("a bug of ours")
				}
				return table
			}}, events)
			armed.Store(true)
			status, answer := chat(t, url, stage.body)
			armed.Store(false)
			if status != 500 || !strings.Contains(answer, `"number":50000`) {
				if stage.name != "over the head of a long one" || status != 502 { // which costs nothing
					t.Errorf("answer %d %s", status, answer)
				}
			}
			survived(t, e, events, status)
		})
	}
}

// survived checks that nothing is in flight, and that the one request has its one final event.
func survived(t *testing.T, e *Entry, events string, status int) {
	t.Helper()
	testkit.WaitFor(t, "nothing to be in flight", func() bool { return e.inflight.Count() == 0 })
	if errs := e.Check(); len(errs) > 0 {
		t.Error(errs)
	}
	if n := e.budget.Remaining(); n < 3 {
		t.Errorf("%d retries are left", n)
	}
	var got []analytics.Outcome
	for ev, err := range journal.ReadDir(events) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Phase == analytics.PhaseEnd {
			got = append(got, ev.Outcome)
		}
	}
	want := analytics.OutcomeCrashed
	if status == 502 {
		want = analytics.OutcomeEngineError
	}
	if len(got) != 1 || got[0] != want {
		t.Errorf("final events %v, want one: %s", got, want)
	}
}

// A panic over the end of a stream cuts it, and costs nothing else.
func TestPanicInMidStream(t *testing.T) {
	var e *Entry
	streams := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(hop.HeaderAttempts, "1")
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[]}\n\n")
		w.(http.Flusher).Flush()
		_ = e.config.Log.Close() // which will say so
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}
	table := tableOf(t, "key: models/m\n"+colo(t, "ams", streams))
	url, started := startEntryWith(t, Config{
		Logger: slog.New(trap{slog.DiscardHandler, []string{"events are being lost"}}), Table: func() *fleet.Table { return table },
	}, t.TempDir())
	e = started
	r, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","stream":true,"messages":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if r.StatusCode != 200 || err == nil || strings.Contains(string(text), "[DONE]") || !strings.Contains(string(text), `"number":50000`) {
		t.Errorf("answer %d %q, %v: want it cut, and why", r.StatusCode, text, err)
	}
	testkit.WaitFor(t, "nothing to be in flight", func() bool { return e.inflight.Count() == 0 })
	if errs := e.Check(); len(errs) > 0 {
		t.Error(errs)
	}
}

// A panic over a page that is no request of a model costs as little.
func TestPanicOverHealth(t *testing.T) {
	url, _ := startEntryWith(t, Config{Table: func() *fleet.Table { panic("a bug of ours") }}, t.TempDir())
	for range 2 {
		r, err := http.Get(url + "/health/ready")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if r.StatusCode != 500 || !strings.Contains(string(text), `"number":50000`) {
			t.Errorf("answer %d %s", r.StatusCode, text)
		}
	}
}
