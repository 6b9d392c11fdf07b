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
)

// tiny is enough to tell what is bad on purpose from what is not.
var tiny = preset{
	quick: true, engines: 1, slots: 4, timing: timing{20 * time.Millisecond, 5 * time.Millisecond}, tokens: 5,
	costFactor: 10, floodFactor: 4, clients: 20, timeScale: 0.04, capacityTime: 100 * time.Millisecond,
	grace: 200 * time.Millisecond, leakWait: 700 * time.Millisecond,
}

// faults are what a gateway for tests does that none should.
type faults struct {
	leaks  bool // says that it holds two requests, always
	unfair bool // refuses teams, and after a while
	slow   bool // keeps quiet accounts waiting while others are there
	picky  bool // refuses quiet accounts while others are there
	late   bool // sends requests that have a deadline on after it
	cuts   bool // ends answers half way
	lies   bool // tells everybody to come back at once, and has no room for a second
	lends  bool // sends requests on though their client has left
}

// bad is a gateway for tests. It passes everything on to its engines in turn, which queue, but for its faults.
type bad struct {
	faults
	accounts []Account
	proxy    *httputil.ReverseProxy
	turns    atomic.Int64
	crowd    atomic.Int64 // requests of others than quiet accounts that it has seen
	since    atomic.Int64 // when it saw the first of these, and the last
	last     atomic.Int64
}

func (b *bad) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := ""
	for _, a := range b.accounts {
		if strings.HasSuffix(r.Header.Get("Authorization"), a.Key) {
			who = a.Name
		}
	}
	body, _ := io.ReadAll(r.Body)
	probe := strings.Contains(string(body), `"max_tokens":1,`)
	quiet := strings.HasPrefix(who, "quiet")
	if !quiet && !probe {
		b.crowd.Add(1)
		now := time.Now().UnixNano()
		b.since.CompareAndSwap(0, now)
		b.last.Store(now)
	}
	refuse := func(after string) {
		w.Header().Set("Retry-After-Ms", after)
		w.WriteHeader(http.StatusTooManyRequests)
	}
	switch {
	case b.slow && quiet && b.crowd.Load() > 0:
		time.Sleep(300 * time.Millisecond)
	case b.unfair && strings.HasPrefix(who, "team") && !probe:
		time.Sleep(150 * time.Millisecond)
		refuse("1000")
		return
	case b.picky && quiet && b.crowd.Load() > 0:
		refuse("1000")
		return
	case b.late && r.Header.Get("X-Colonnade-Deadline-Ms") != "":
		time.Sleep(tiny.deadline() + 2*dispatchSlack)
	case b.cuts && !probe:
		w = &halfway{ResponseWriter: w, left: 400}
	case b.lies && !probe && time.Since(time.Unix(0, b.since.Load())) < time.Second:
		refuse("1")
		return
	case b.lends && !probe:
		select {
		case <-r.Context().Done():
			time.Sleep(2 * dispatchSlack)
		case <-time.After(time.Second): // its client stays
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context())) // the proxy looks itself where it cannot end
		defer cancel()
		r = r.WithContext(ctx)
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	b.proxy.ServeHTTP(w, r)
}

// halfway is an answer of which so many bytes come through.
type halfway struct {
	http.ResponseWriter
	left int
}

func (h *halfway) Write(b []byte) (int, error) {
	if h.left -= len(b); h.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return h.ResponseWriter.Write(b)
}

func (h *halfway) Flush() { h.ResponseWriter.(http.Flusher).Flush() }

func (f faults) gateway() Gateway { return (&bad{faults: f}).gateway() }

func (b *bad) gateway() Gateway {
	return Gateway{Name: "bad", Judged: true, Start: func(_ context.Context, s Setup) (*Target, error) {
		b.accounts = s.Accounts
		b.proxy = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			engine := s.Engines[int(b.turns.Add(1))%len(s.Engines)]
			r.Out.URL.Scheme, r.Out.URL.Host = "http", strings.TrimPrefix(engine.URL, "http://")
		}}
		b.proxy.FlushInterval = -1
		b.proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request,
			_ error) {
			w.WriteHeader(http.StatusBadGateway)
		}
		transport := &http.Transport{}
		b.proxy.Transport = transport
		gateway := httptest.NewServer(b)
		held := 0
		if b.leaks {
			held = 2
		}
		return &Target{
			URL:  gateway.URL + "/v1",
			Held: func(context.Context) (int, int, error) { return held, 0, nil },
			Stop: func() error {
				gateway.CloseClientConnections()
				gateway.Close()
				transport.CloseIdleConnections()
				return nil
			},
		}, nil
	}}
}

// A report must say of a gateway what is wrong with it.
func TestReportSaysWhatIsBad(t *testing.T) {
	all, none := hold(t, floodScenario(), faults{leaks: true, unfair: true, slow: true}), hold(t, floodScenario(), faults{})
	missed(t, all, markLeaked, markJain, markRefuse, markQuiet)
	for _, m := range none.Thresholds {
		if m.Name == markLeaked && !m.Passed || m.Name == markRefuse && m.Got.Measured() {
			t.Errorf("of a gateway without faults: %+v", m)
		}
	}
	if !strings.Contains(strings.Join(all.Notes, "\n"), "2 requests were still held") {
		t.Errorf("notes: %q", all.Notes)
	}
}

// hold has a gateway with faults play a scenario.
func hold(t *testing.T, c Scenario, f faults) ScenarioResult {
	t.Helper()
	return played(t, c, Options{Gateways: []Gateway{f.gateway()}})
}

// missed checks that marks were measured and not reached.
func missed(t *testing.T, s ScenarioResult, marks ...string) {
	t.Helper()
	for _, name := range marks {
		i := slices.IndexFunc(s.Thresholds, func(m ThresholdResult) bool { return m.Name == name })
		if i < 0 || s.Thresholds[i].Passed || !s.Thresholds[i].Got.Measured() {
			t.Errorf("%s: the mark %q counts as reached, was not measured, or is not there: %+v", s.Name, name, s.Thresholds)
		}
	}
}

// No fault of these gives a gateway a better report.
func TestReportSaysWhichFaultItIs(t *testing.T) {
	missed(t, hold(t, floodScenario(), faults{picky: true}), markQuiet, markWait)
	missed(t, hold(t, loadScenario(), faults{late: true}), markOverdue)
	cut := hold(t, loadScenario(), faults{cuts: true})
	missed(t, cut, markGoodput)
	if v := value(t, cut, "1×", "goodput"); v != 0 {
		t.Errorf("of answers that were all cut, goodput is %v", v)
	}
	if v := value(t, cut, "1×", "failed"); v < 1 {
		t.Errorf("of answers that were all cut, %v failed", v)
	}
	lied := hold(t, retryScenario(), faults{lies: true})
	missed(t, lied, markSecond)
	if v := value(t, lied, "obeying", "tries"); v < 2 {
		t.Errorf("who was told to come back came %v times", v)
	}
	lent := hold(t, leavingScenario(), faults{lends: true})
	missed(t, lent, markLeft)
	if v := value(t, lent, "", "wasted"); v <= 0 {
		t.Errorf("engines worked for clients that had left, and %v s were wasted", v)
	}
}

// An engine that is lost is away: a gateway that goes on to send requests to it has them fail.
func TestEngineIsLost(t *testing.T) {
	two := tiny
	two.engines = 2
	s := playedIn(t, two, engineLostScenario(), Options{Gateways: []Gateway{faults{}.gateway()}})
	missed(t, s, markUnbegun)
	without, before := value(t, s, "", "without"), value(t, s, "", "before")
	if v := value(t, s, "", "not begun"); v < 5 || without <= 0 || before <= 0 {
		t.Errorf("%v requests were not begun; goodput was %v and then %v", v, before, without)
	}
	if v := value(t, s, "", "recovery"); v >= 1.5 {
		t.Errorf("the engine is back at once, and is said to be used after %v s", v)
	}
	if lines := s.Plots[0].Lines; len(lines) != 2 || lines[0].At != 0.7 {
		t.Errorf("the plot says that it was lost and back at %+v", lines)
	}
}

// Load goes on until what is measured has had its time: nobody is served because it has stopped.
func TestLoadGoesOn(t *testing.T) {
	for _, c := range []Scenario{classesScenario(), floodScenario(), costlyScenario()} {
		b := &bad{}
		s := played(t, c, Options{Gateways: []Gateway{b.gateway()}})
		least := tiny.seconds(18.5) + tiny.grace/2
		if c.Name == "classes" {
			least = tiny.seconds(6.5) + tiny.grace/2
		}
		if lasted := time.Duration(b.last.Load() - b.since.Load()); len(s.Rows) == 0 || lasted < least {
			t.Errorf("%s: load lasted %v, want %v at least", c.Name, lasted, least)
		}
	}
}
