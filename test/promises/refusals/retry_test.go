package refusals_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"colonnade/analytics"
	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// A request whose engine fails after the first byte is not sent to another engine, in this colo or the next.
func TestNoRetryAfterFirstByte(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engines: 2, Engine: fleettest.QuickEngine(4)}, "key: models/demo-chat\npool: demo\ntimeouts: {idle: 300ms, total: 1m}")
	f.WatchShared(8)
	n := 0
	once := func(name, fault string, stream bool) (wiretest.Response, analytics.Event) {
		t.Helper()
		f.InjectFault(fault, 0)
		defer f.ClearFaults()
		n++
		id, before := fmt.Sprintf("first-byte-%d", n), f.EngineRequests()
		a := f.BeginChat(fleettest.ChatBody(20, stream), "x-request-id: "+id).Read()
		if got := f.EngineRequests() - before; got != 1 {
			t.Errorf("%s: the engines were sent %d requests, want 1", name, got)
		}
		if got := a.Header.Get("x-colonnade-attempts"); got != "1" {
			t.Errorf("%s: x-colonnade-attempts is %q, want 1", name, got)
		}
		return a, f.FinalEvent(analytics.KindInference, id)
	}
	for _, fault := range []string{
		simengine.FaultCutAtChunk, simengine.FaultCutInChunk, simengine.FaultNoDone, simengine.FaultErrorThenCut,
		simengine.FaultErrorThenDone, simengine.FaultStallStream,
	} {
		name := "stream, " + fault
		a, e := once(name, fault, true)
		if a.Status != 200 || !strings.Contains(a.Body, `"delta":{"content":`) || !strings.Contains(a.Body, `"error"`) {
			t.Errorf("%s: %d %q, want some tokens and an error", name, a.Status, a.Body)
		}
		want := analytics.OutcomeEngineError
		if fault == simengine.FaultStallStream {
			want = analytics.OutcomeTimeout
		}
		if e.Outcome != want || !e.Partial || e.TokensEstimated == 0 {
			t.Errorf("%s: the event says %s, partial: %v, %d tokens; want %s with tokens", name, e.Outcome, e.Partial, e.TokensEstimated, want)
		}
	}
	for _, fault := range []string{simengine.FaultCutAtChunk, simengine.FaultCutInChunk, simengine.FaultShortBody} {
		name := "plain, " + fault
		a, e := once(name, fault, false)
		if o := a.APIError(t); a.Status != 502 || o.Number != 50001 || a.Header.Get("x-should-retry") != "false" {
			t.Errorf("%s: %d %+v %v, want 502, which must not be retried", name, a.Status, o, a.Header)
		}
		if e.Outcome != analytics.OutcomeEngineError || !e.Partial {
			t.Errorf("%s: the event says %s, partial: %v", name, e.Outcome, e.Partial)
		}
	}
}

// A request whose engine fails before the first byte is served by another colo.
func TestRetryBeforeFirstByte(t *testing.T) {
	t.Parallel()
	fleettest.NeedsFleet(t, "a second colo")
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4)}, "")
	f.WatchShared(4)
	for _, stream := range []bool{false, true} {
		for _, fault := range []string{simengine.FaultRefuse, simengine.FaultError500, simengine.FaultHTMLError, simengine.FaultMalformedHead} {
			f.Engine("ams").SetFault(simengine.Fault{Fault: fault, Count: 1})
			a := f.RawChat(fleettest.ChatBody(3, stream))
			if a.Status != 200 || a.Err != nil || a.Header.Get("x-colonnade-colo") != "fra" || a.Header.Get("x-colonnade-attempts") != "2" {
				t.Errorf("%s, stream %v: %d %v %q, want a response of the other colo", fault, stream, a.Status, a.Header, a.Body)
			}
			refillRetryBudget(f)
		}
	}
}

// refillRetryBudget sends as many requests as pay for one retry. The first colo must serve them.
func refillRetryBudget(f *fleettest.Fleet) {
	f.T.Helper()
	for range 5 {
		if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 || a.Header.Get("x-colonnade-colo") != "ams" {
			f.T.Errorf("afterwards: %d by %q, want it served by the first colo", a.Status, a.Header.Get("x-colonnade-colo"))
		}
	}
}

// A request that two endpoints failed to serve is not given a third, in any colo.
func TestAtMostTwoBrokenEndpoints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		config onebox.Config
	}{
		{"in one colo", onebox.Config{Colos: []string{"ams"}, Engines: 3}},
		{"in two of three colos", onebox.Config{Colos: []string{"ams", "fra", "waw"}}},
		{"in the first of two colos", onebox.Config{Engines: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.Engine = fleettest.QuickEngine(4)
			f := fleettest.Start(t, c.config, "")
			f.WatchShared(4)
			for _, fault := range []string{simengine.FaultRefuse, simengine.FaultError500} {
				f.InjectFault(fault, 0)
				breakTwo(f, strings.ReplaceAll("breaks-by-"+fault, "_", "-"))
				f.ClearFaults()
				refillRetryBudget(f)
			}
		})
	}
}

// breakTwo sends a request that every engine fails to serve, and expects that two were tried, with an event each.
func breakTwo(f *fleettest.Fleet, id string) {
	t := f.T
	t.Helper()
	before := f.EngineRequests()
	a := f.RawChat(fleettest.ChatBody(3, false), "x-request-id: "+id)
	if o := a.APIError(t); a.Status != 502 || o.Number != 50001 || a.Header.Get("x-should-retry") != "false" {
		t.Errorf("%d %+v %v, want 502, which must not be retried", a.Status, o, a.Header)
	}
	if got := f.EngineRequests() - before; got != 2 {
		t.Fatalf("%d endpoints were sent the request, want 2", got)
	}
	if got := a.Header.Get("x-colonnade-attempts"); got != "2" {
		t.Errorf("x-colonnade-attempts is %s, want 2", got)
	}
	testkit.WaitFor(t, "the final events", func() bool { return len(f.FinalEvents(analytics.KindInference, id)) == 2 })
	broken := map[string]bool{}
	for _, e := range f.FinalEvents(analytics.KindInference, id) {
		broken[e.ColoID+"/"+e.Endpoint] = true
		if e.Outcome != analytics.OutcomeEngineError {
			t.Errorf("an event says %s, want engine_error", e.Outcome)
		}
	}
	if len(broken) != 2 {
		t.Errorf("the endpoints are %v, want two different ones", broken)
	}
	if e := f.FinalEvent(analytics.KindRequest, id); e.Outcome != analytics.OutcomeEngineError || e.Status != 502 || e.Attempts != 2 {
		t.Errorf("the request's event says %s, %d, %d attempts", e.Outcome, e.Status, e.Attempts)
	}
}

// When a colo server is lost before its response, the next colo is tried; when it is lost within the response, none is, since an
// engine may have generated all of it.
func TestColoServerLost(t *testing.T) {
	t.Parallel()
	f := func(name string, begin func(http.ResponseWriter), status int, others int) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			lost := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				begin(w)
				panic(http.ErrAbortHandler)
			}))
			t.Cleanup(lost.Close)
			next, documents := fleettest.StartStubColo(t, "two", "two-1", func(hop.Wait) string { return "" })
			f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), documents+fmt.Sprintf(`
key: colos/one
---
key: servers/one/one-1
address: %s
boot: b
---
key: models/elsewhere
pool: demo
routing: {steps: [{colos: [one, two]}]}
`, lost.Listener.Addr()))
			f.WatchShared(4)
			a := f.RawChat(`{"model":"elsewhere","messages":[]}`)
			if a.Status != status {
				t.Errorf("%d %q, want %d", a.Status, a.Body, status)
			}
			if a.Status == 502 && (a.APIError(t).Number != 50001 || a.Header.Get("x-should-retry") != "false") {
				t.Errorf("%v %q, want an engine error that must not be retried", a.Header, a.Body)
			}
			if n := len(next.Waits()); n != others {
				t.Errorf("the next colo was asked %d times, want %d", n, others)
			}
		})
	}
	f("without a byte", func(http.ResponseWriter) {}, 200, 1)
	f("in its head", func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
	}, 200, 1)
	f("within its response", func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"id":`)
		_ = http.NewResponseController(w).Flush()
	}, 502, 0)
}
