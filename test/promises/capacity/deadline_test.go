package capacity_test

import (
	"sync"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/onebox"
	"colonnade/openai"
)

// A client's deadline holds for the first byte, streamed or not, whichever header sets it; the smallest counts.
func TestClientDeadlines(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(10)}, "")
	f.WatchShared(16)
	f.InjectFault(simengine.FaultStallHead, 0)
	before := f.EngineRequests()
	var all sync.WaitGroup
	for _, headers := range [][]string{
		{"x-colonnade-deadline-ms", "900"},
		{"x-stainless-timeout", "0.9"},
		{"x-stainless-read-timeout", "0.9"},
		{"x-colonnade-deadline-ms", "900", "x-stainless-timeout", "600", "x-stainless-read-timeout", "not given"},
		{"x-colonnade-deadline-ms", "600000", "x-stainless-timeout", "0.9"},
	} {
		for _, stream := range []bool{false, true} {
			all.Go(func() {
				began := time.Now()
				a := f.Chat(fleettest.ChatBody(8, stream), headers...)
				if e := a.APIError(t); a.Status != 504 || e.Number != 50401 || e.Message != openai.OverDeadline().Message ||
					e.Reason != "first_byte_timeout" || a.Header.Get("x-should-retry") != "false" {
					t.Errorf("%v, stream %v: %d %+v, want 504, 50401 and first_byte", headers, stream, a.Status, e)
				}
				if d := time.Since(began); d < 800*time.Millisecond || testkit.Soak() && d > time.Second {
					t.Errorf("%v, stream %v: ended after %v", headers, stream, d)
				}
			})
		}
	}
	all.Wait()
	if n := f.EngineRequests() - before; n != 10 {
		t.Errorf("sent to engines %d times, want each of 10 once", n)
	}
	testkit.WaitFor(t, "the engines to be idle", func() bool { return f.RunningRequests() == 0 })
	f.ClearFaults()
	for _, bad := range []string{"0", "-1", "soon", "NaN", "1e400", "50", "Inf", "+Infinity", "0x1p10", "1_000", "1e3", "+1000", " 1000 0", ".5e9", "1000.", "1,000", "１０００"} {
		a := f.Chat(fleettest.ChatBody(8, false), "x-colonnade-deadline-ms", bad)
		if e := a.APIError(t); a.Status != 400 || e.Number != 40001 {
			t.Errorf("deadline %q: %d %+v, want 400", bad, a.Status, e)
		}
	}
	for _, none := range []string{"None", "0", "-1", "NaN", "Infinity", "", "0x1p-10", "1_0", "1e-3"} { // SDKs send these for no timeout
		if a := f.Chat(fleettest.ChatBody(8, false), "x-stainless-timeout", none); a.Status != 200 {
			t.Errorf("SDK timeout %q: %d, want 200", none, a.Status)
		}
	}
}

// A deadline, and the model's total timeout, hold for a colo that accepts requests and never answers.
func TestDeadlineAtSilentColo(t *testing.T) {
	t.Parallel()
	silent := make(chan struct{})
	colo, documents := fleettest.StartStubColo(t, "elsewhere", "elsewhere-1", func(hop.Wait) string { <-silent; return "" })
	defer close(silent)
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4)}, documents+
		"key: models/elsewhere\npool: demo\nrouting: {steps: [{colos: [elsewhere, ams]}]}\n---\n"+
		"key: models/brief\npool: demo\nrouting: {steps: [{colos: [elsewhere, ams]}]}\ntimeouts: {total: 1s}")
	f.WatchShared(8)
	a := f.Chat(`{"model":"elsewhere","messages":[]}`, "x-colonnade-deadline-ms", "300")
	if e := a.APIError(t); a.Status != 504 || e.Number != 50401 || e.Message != openai.OverDeadline().Message ||
		e.Reason != "first_byte_timeout" || a.Header.Get("x-should-retry") != "false" {
		t.Errorf("with a deadline: %d %+v, want 504 and first_byte", a.Status, e)
	}
	a = f.Chat(`{"model":"brief","messages":[]}`)
	if e := a.APIError(t); a.Status != 504 || e.Number != 50401 || e.Message != openai.InferenceTimeout("").Message || e.Reason != "total_timeout" {
		t.Errorf("without: %d %+v, want 504 and total", a.Status, e)
	}
	if n := len(colo.Waits()); n != 2 {
		t.Errorf("the colo was asked %d times, want each once", n)
	}
}

// A request whose deadline passes while it waits is refused, and is never sent to an engine.
func TestDeadlineWhileQueued(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(2)}, "")
	f.WatchShared(8)
	f.InjectFault(simengine.FaultStallStream, 0)
	release := f.HoldStreams(t, 2*len(f.Engines))
	before := f.EngineRequests()
	a := f.Chat(fleettest.ChatBody(8, false), "x-colonnade-deadline-ms", "3000")
	if e := a.APIError(t); a.Status != 429 || e.Number != 42902 || e.Reason != "deadline" || e.RetryAfterMS < 1000 {
		t.Errorf("answer %d %+v, want 429 for its deadline", a.Status, e)
	}
	f.ClearFaults()
	release()
	if a := f.Chat(fleettest.ChatBody(8, false)); a.Status != 200 {
		t.Errorf("the next request: %d", a.Status)
	}
	if n := f.EngineRequests() - before; n != 1 {
		t.Errorf("%d requests reached an engine, want only the last", n)
	}
}
