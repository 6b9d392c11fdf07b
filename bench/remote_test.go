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
	"time"

	"colonnade/internal/simengine"
)

// startProxy is a gateway that already runs: it passes requests on to one address, over connections of its own.
func startProxy(t *testing.T, address string) (base string) {
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

func TestRemoteWithSimulatedEngines(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	light := tiny // so that a busy machine can keep the engine busy, too
	light.floodFactor, light.timing, light.timeScale = 1, timing{80 * time.Millisecond, 20 * time.Millisecond}, 0.16
	s := runPreset(t, light, floodScenario(), Options{Remote: &Remote{URL: startProxy(t, address), Model: "m",
		Keys: []string{"one", "two", "three"}, Engines: []string{address}}})
	if v := valueOf(t, s, "all", "goodput"); !(v > 0.3) { // no NaN either
		t.Errorf("goodput %v", v)
	}
	if v := valueOf(t, s, "quiet accounts", "× from slot"); !v.Measured() {
		t.Error("figures that simulated engines give are not measured")
	}
}

// The capacity of a gateway with engines of its own is measured through it.
func TestRemoteWithItsOwnEngines(t *testing.T) {
	t.Parallel()
	engine := simengine.New(simengine.Config{Slots: 4, TTFT: tiny.timing.ttft, ITL: tiny.timing.itl})
	own := httptest.NewServer(engine)
	t.Cleanup(func() {
		engine.Close()
		own.Close()
	})
	m := Remote{URL: startProxy(t, strings.TrimPrefix(own.URL, "http://")), Model: "m", Keys: []string{"one", "two"}}
	s := runTiny(t, retryScenario(), Options{Remote: &m})
	// A backlog of 0.9 s for 4 slots that are held for 40 ms each, but for an eighth that ignores Retry-After: 78. The
	// machine may be slow.
	if v := valueOf(t, s, "honour", "clients"); v < 10 || v > 80 {
		t.Errorf("%v clients make up a backlog", v)
	}
	if v := valueOf(t, s, "honour", "leaked"); v.Measured() {
		t.Errorf("leaked: %v, which cannot be known", v)
	}
	for _, c := range []Scenario{classesScenario(), engineLostScenario(), floodScenario()} {
		if s := runTiny(t, c, Options{Remote: &m}); len(s.Rows) != 0 || len(s.Notes) != 1 || !strings.HasPrefix(s.Notes[0], "remote, left out: ") {
			t.Errorf("%s: %d rows, notes %q", c.Name, len(s.Rows), s.Notes)
		}
	}
}

// A client error of a remote gateway ends the run at once, and names the flag.
func TestRemoteClientErrorNamesItsFlag(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusNotFound:     `-model nope: the gateway answered 404: there is no "nope"`,
		http.StatusUnauthorized: `-key (key 1): the gateway answered 401: there is no "nope"`,
		http.StatusForbidden:    `-model nope with -key (key 1): the gateway answered 403: there is no "nope"`,
		http.StatusBadRequest:   `/v1: the gateway answered 400: there is no "nope"`,
	} {
		requests := 0
		gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests++
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"error":{"message":"there is\n no \"nope\""}}`))
		}))
		r := newSuite(Options{Remote: &Remote{URL: gateway.URL + "/v1", Model: "nope", Keys: []string{"secret"}}}, nil)
		err := r.start(context.Background(), []Scenario{loadScenario()})
		if err == nil || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "secret") || requests != 1 {
			t.Errorf("%d: %d requests, error %v; want …%s", status, requests, err, want)
		}
		gateway.Close()
	}
}
