package bench

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tiny is large enough to tell a gateway with a fault from one without.
var tiny = preset{
	quick: true, engines: 1, slots: 4, timing: timing{20 * time.Millisecond, 5 * time.Millisecond}, tokens: 5,
	costFactor: 10, floodFactor: 4, clients: 20, backlog: 900 * time.Millisecond, retryCutoff: 3 * time.Second, timeScale: 0.04,
	capacityTime: 100 * time.Millisecond, grace: 200 * time.Millisecond, leakWait: 700 * time.Millisecond,
}

// runTiny runs one scenario with the preset tiny.
func runTiny(t *testing.T, c Scenario, o Options) ScenarioResult {
	t.Helper()
	return runPreset(t, tiny, c, o)
}

func runPreset(t *testing.T, p preset, c Scenario, o Options) ScenarioResult {
	t.Helper()
	o.Dir, o.Quick = t.TempDir(), true
	u := newSuite(o, []Scenario{c})
	u.preset = p
	for _, shape := range []requestShape{p.shape(), p.cheapShape()} {
		if o.Remote == nil { // what is measured on a busy machine may be too low for a verdict
			u.capacities[shape] = float64(p.engines*p.slots) / shape.timing.serviceTime(shape.tokens).Seconds()
		}
	}
	defer func() {
		if err := u.stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := u.start(t.Context(), []Scenario{c}); err != nil {
		t.Fatal(err)
	}
	s, err := u.runScenario(t.Context(), &c)
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

// valueOf is what a scenario has found in one case.
func valueOf(t *testing.T, s ScenarioResult, name, column string) Value {
	t.Helper()
	for _, row := range s.Rows {
		for i, c := range s.Columns {
			if row.Case == name && c.Name == column {
				return row.Values[i]
			}
		}
	}
	t.Fatalf("%s: no column %q of %q", s.Name, column, name)
	return 0
}

// wantMissed checks that thresholds were measured and missed.
func wantMissed(t *testing.T, s ScenarioResult, thresholds ...threshold) {
	t.Helper()
	for _, want := range thresholds {
		i := slices.IndexFunc(s.Thresholds, func(r ThresholdResult) bool { return r.Name == want.name })
		if i < 0 || s.Thresholds[i].Passed || !s.Thresholds[i].Got.Measured() {
			t.Errorf("%s: the threshold %q is met, not measured, or absent: %+v", s.Name, want.name, s.Thresholds)
		}
	}
}

// faults are what a faulty gateway does.
type faults struct {
	leaks           bool          // always reports two held requests
	refusesTeams    bool          // and only after a while
	delaysQuiet     time.Duration // while other accounts send requests
	refusesQuiet    bool          // while other accounts send requests
	missesDeadlines bool          // dispatches requests after their deadline
	cutsAnswers     bool          // half way
	liesRetryAfter  bool          // tells every client to come back at once, and has no room then
	outlivesClients bool          // dispatches requests after their client has left
}

// faultyGateway passes requests on to its engines, which queue them, in turn, but for its faults.
type faultyGateway struct {
	faults
	accounts []Account
	proxy    *httputil.ReverseProxy
	turns    atomic.Int64
	others   atomic.Int64 // requests of other than quiet accounts
	first    atomic.Int64 // when the first of these came
	last     atomic.Int64 // and the last
}

func (g *faultyGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	account := ""
	for _, a := range g.accounts {
		if strings.HasSuffix(r.Header.Get("Authorization"), a.Key) {
			account = a.Name
		}
	}
	body, _ := io.ReadAll(r.Body)
	probe := strings.Contains(string(body), `"max_tokens":1,`)
	quiet := strings.HasPrefix(account, "quiet")
	if !quiet && !probe {
		g.others.Add(1)
		now := time.Now().UnixNano()
		g.first.CompareAndSwap(0, now)
		g.last.Store(now)
	}
	refuse := func(after string) {
		w.Header().Set("Retry-After-Ms", after)
		w.WriteHeader(http.StatusTooManyRequests)
	}
	switch {
	case g.delaysQuiet > 0 && quiet && g.others.Load() > 0:
		time.Sleep(g.delaysQuiet)
	case g.refusesTeams && strings.HasPrefix(account, "team") && !probe:
		time.Sleep(150 * time.Millisecond)
		refuse("1000")
		return
	case g.refusesQuiet && quiet && g.others.Load() > 0:
		refuse("1000")
		return
	case g.missesDeadlines && r.Header.Get("X-Colonnade-Deadline-Ms") != "":
		time.Sleep(tiny.deadline() + 2*dispatchSlack)
	case g.cutsAnswers && !probe:
		w = &cutWriter{ResponseWriter: w, left: 400}
	case g.liesRetryAfter && !probe && time.Since(time.Unix(0, g.first.Load())) < time.Second:
		refuse("1")
		return
	case g.outlivesClients && !probe:
		select {
		case <-r.Context().Done():
			time.Sleep(2 * dispatchSlack)
		case <-time.After(time.Second): // its client stays
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context())) // of the proxy's own, which it watches if it can end
		defer cancel()
		r = r.WithContext(ctx)
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	g.proxy.ServeHTTP(w, r)
}

// cutWriter cuts the answer after a number of bytes.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(b []byte) (int, error) {
	if c.left -= len(b); c.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(b)
}

func (c *cutWriter) Flush() { c.ResponseWriter.(http.Flusher).Flush() }

func (f faults) gateway() Gateway { return (&faultyGateway{faults: f}).gateway() }

func (g *faultyGateway) gateway() Gateway {
	return Gateway{Name: "faulty", Judged: true, Start: func(_ context.Context, s Setup) (*Target, error) {
		g.accounts = s.Accounts
		transport := &http.Transport{}
		g.proxy = &httputil.ReverseProxy{FlushInterval: -1, Transport: transport,
			Rewrite: func(r *httputil.ProxyRequest) {
				engine := s.Engines[int(g.turns.Add(1))%len(s.Engines)]
				r.Out.URL.Scheme, r.Out.URL.Host = "http", strings.TrimPrefix(engine.URL, "http://")
			},
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }}
		server := httptest.NewServer(g)
		held := 0
		if g.leaks {
			held = 2
		}
		return &Target{
			URL:  server.URL + "/v1",
			Held: func(context.Context) (int, int, error) { return held, 0, nil },
			Stop: func() error {
				server.CloseClientConnections()
				server.Close()
				transport.CloseIdleConnections()
				return nil
			},
		}, nil
	}}
}

// runFaulty runs a scenario at a gateway with faults.
func runFaulty(t *testing.T, c Scenario, f faults) ScenarioResult {
	t.Helper()
	return runTiny(t, c, Options{Gateways: []Gateway{f.gateway()}})
}
