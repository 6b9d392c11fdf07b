package bench

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"colonnade/internal/simengine"
)

// through is a gateway that runs already: it passes everything on to one address, over connections of its own.
func through(t *testing.T, address string) (base string) {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	proxy.FlushInterval = -1
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	transport := &http.Transport{}
	proxy.Transport = transport
	gateway := httptest.NewServer(proxy)
	t.Cleanup(func() {
		gateway.Close()
		transport.CloseIdleConnections()
	})
	return gateway.URL + "/v1"
}

// played runs one scenario in tiny size.
func played(t *testing.T, c Scenario, o Options) ScenarioResult {
	t.Helper()
	return playedIn(t, tiny, c, o)
}

func playedIn(t *testing.T, z preset, c Scenario, o Options) ScenarioResult {
	t.Helper()
	o.Dir, o.Quick = t.TempDir(), true
	r := newSuite(o, []Scenario{c})
	r.preset = z
	defer func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := r.start(context.Background(), []Scenario{c}); err != nil {
		t.Fatal(err)
	}
	s, err := r.runScenario(context.Background(), &c)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range s.Rows {
		if len(row.Values) != len(s.Columns) {
			t.Errorf("%s, %s: %d values for %d columns", s.Name, row.Case, len(row.Values), len(s.Columns))
		}
	}
	return s
}

// value is what a scenario has found in one case.
func value(t *testing.T, s ScenarioResult, name, column string) Value {
	t.Helper()
	for _, row := range s.Rows {
		for i, c := range s.Columns {
			if row.Case == name && c.Name == column {
				return row.Values[i]
			}
		}
	}
	t.Fatalf("%s: there is no column %q of %q", s.Name, column, name)
	return 0
}

// A gateway somewhere, which is pointed at engines of ours.
func TestRemoteWithOurEngines(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	s := played(t, floodScenario(), Options{Remote: &Remote{URL: through(t, address), Model: "m", Keys: []string{"one", "two", "three"},
		Engines: []string{address}}})
	if v := value(t, s, "all", "goodput"); !(v > 0.3) { // no NaN either
		t.Errorf("goodput %v", v)
	}
	if v := value(t, s, "quiet accounts", "× from slot"); !v.Measured() {
		t.Error("what only engines can tell is not measured, though they are ours")
	}
}

// A gateway somewhere, with engines of its own: its capacity is found through it.
func TestRemoteWithItsOwnEngines(t *testing.T) {
	engine := simengine.New(simengine.Config{Slots: 4, TTFT: tiny.timing.ttft, ITL: tiny.timing.itl})
	own := httptest.NewServer(engine)
	t.Cleanup(func() {
		engine.Close()
		own.Close()
	})
	m := Remote{URL: through(t, strings.TrimPrefix(own.URL, "http://")), Model: "m", Keys: []string{"one", "two"}}
	s := played(t, retryScenario(), Options{Remote: &m})
	// A backlog of 1.8 s for 4 slots that are held for 40 ms each, but for an eighth that disobeys: 156. The machine
	// may be slow.
	if v := value(t, s, "obeying", "clients"); v < 20 || v > 160 {
		t.Errorf("%v clients make up a backlog", v)
	}
	if v := value(t, s, "obeying", "leaked"); v.Measured() {
		t.Errorf("leaked: %v, though nobody can be asked", v)
	}
	for _, c := range []Scenario{classesScenario(), engineLostScenario(), floodScenario()} {
		if s := played(t, c, Options{Remote: &m}); len(s.Rows) != 0 || len(s.Notes) != 1 || !strings.HasPrefix(s.Notes[0], "Left out") {
			t.Errorf("%s: %d rows, notes %q", c.Name, len(s.Rows), s.Notes)
		}
	}
}

// What is wrong with the request is told at once, and not asked for until nobody wants to wait any more.
func TestRemoteRefusesAtOnce(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusNotFound:     `-model nope: the gateway answered 404: there is no "nope"`,
		http.StatusUnauthorized: `-key (key 1): the gateway answered 401: there is no "nope"`,
		http.StatusForbidden:    `-model nope with -key (key 1): the gateway answered 403: there is no "nope"`,
		http.StatusBadRequest:   `/v1: the gateway answered 400: there is no "nope"`,
	} {
		asked := 0
		gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"error":{"message":"there is\n no \"nope\""}}`))
		}))
		r := newSuite(Options{Remote: &Remote{URL: gateway.URL + "/v1", Model: "nope", Keys: []string{"secret"}}}, nil)
		err := r.start(context.Background(), []Scenario{loadScenario()})
		if err == nil || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "secret") || asked != 1 {
			t.Errorf("%d: asked %d times, and said %v; want …%s", status, asked, err, want)
		}
		gateway.Close()
	}
}
