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

// After its first byte an answer is what it is: a request whose engine then fails is sent to no other, in this colo or the next.
func TestNothingIsRetriedAfterTheFirstByte(t *testing.T) {
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
			t.Errorf("%s: %d %+v %v, want 502 and not to be tried again", name, a.Status, o, a.Header)
		}
		if e.Outcome != analytics.OutcomeEngineError || !e.Partial {
			t.Errorf("%s: the event says %s, partial: %v", name, e.Outcome, e.Partial)
		}
	}
}

// Before its first byte a failure costs the client nothing but time.
func TestFailuresBeforeTheFirstByteAreRetried(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		for _, fault := range []string{simengine.FaultRefuse, simengine.FaultError500, simengine.FaultHTMLError, simengine.FaultMalformedHead} {
			t.Run(fmt.Sprintf("%s, stream %v", fault, stream), func(t *testing.T) {
				f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4)}, "")
				f.WatchShared(4)
				f.Engine("ams").SetFault(simengine.Fault{Fault: fault})
				a := f.BeginChat(fleettest.ChatBody(3, stream)).Read()
				if a.Status != 200 || a.Err != nil || a.Header.Get("x-colonnade-colo") != "fra" || a.Header.Get("x-colonnade-attempts") != "2" {
					t.Errorf("%d %v %q, want an answer of the other colo", a.Status, a.Header, a.Body)
				}
			})
		}
	}
}

// A request that broke two endpoints is not given a third, wherever that is.
func TestTwoBrokenEndpointsAreEnough(t *testing.T) {
	t.Parallel()
	f := func(name string, c onebox.Config, fault string) {
		t.Helper()
		t.Run(name+", "+fault, func(t *testing.T) {
			c.Engine = fleettest.QuickEngine(4)
			f := fleettest.Start(t, c, "")
			f.WatchShared(4)
			before := f.EngineRequests()
			f.InjectFault(fault, 0)
			a := f.BeginChat(fleettest.ChatBody(3, false), "x-request-id: breaks-engines").Read()
			if o := a.APIError(t); a.Status != 502 || o.Number != 50001 || a.Header.Get("x-should-retry") != "false" {
				t.Errorf("%d %+v %v, want 502 and not to be tried again", a.Status, o, a.Header)
			}
			if got := f.EngineRequests() - before; got != 2 {
				t.Fatalf("%d endpoints were sent the request, want 2", got)
			}
			if got := a.Header.Get("x-colonnade-attempts"); got != "2" {
				t.Errorf("x-colonnade-attempts is %s, want 2", got)
			}
			testkit.WaitFor(t, "the final events", func() bool { return len(f.FinalEvents(analytics.KindInference, "breaks-engines")) == 2 })
			broken := map[string]bool{}
			for _, e := range f.FinalEvents(analytics.KindInference, "breaks-engines") {
				broken[e.ColoID+"/"+e.Endpoint] = true
				if e.Outcome != analytics.OutcomeEngineError {
					t.Errorf("an event says %s, want engine_error", e.Outcome)
				}
			}
			if len(broken) != 2 {
				t.Errorf("the endpoints are %v, want two different ones", broken)
			}
			if e := f.FinalEvent(analytics.KindRequest, "breaks-engines"); e.Outcome != analytics.OutcomeEngineError || e.Status != 502 || e.Attempts != 2 {
				t.Errorf("the request's event says %s, %d, %d attempts", e.Outcome, e.Status, e.Attempts)
			}
		})
	}
	for _, fault := range []string{simengine.FaultRefuse, simengine.FaultError500} {
		f("in one colo", onebox.Config{Colos: []string{"ams"}, Engines: 3}, fault)
		f("in two of three colos", onebox.Config{Colos: []string{"ams", "fra", "waw"}}, fault)
		f("in the first of two colos", onebox.Config{Engines: 2}, fault)
	}
}

// A colo server that is lost before it said anything is replaced by the next colo's; one that is lost within its answer
// is not, for an engine may have generated all of it.
func TestColoServerIsLost(t *testing.T) {
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
				t.Errorf("%v %q, want an engine error that is not to be tried again", a.Header, a.Body)
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
	f("within its answer", func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"id":`)
		_ = http.NewResponseController(w).Flush()
	}, 502, 0)
}
