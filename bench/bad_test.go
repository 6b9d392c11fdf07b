package bench

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// tiny is enough to tell what is bad on purpose from what is not.
var tiny = size{
	rough: true, engines: 1, slots: 4, pace: pace{20 * time.Millisecond, 5 * time.Millisecond}, tokens: 5,
	costlier: 10, louder: 4, clients: 20, stretch: 0.04, measure: 100 * time.Millisecond,
	grace: 200 * time.Millisecond, quiet: 50 * time.Millisecond,
}

// faults are what a gateway for tests does that none should.
type faults struct {
	leaks  bool // says that it holds two requests, always
	unfair bool // refuses teams, and after a while
	slow   bool // keeps quiet accounts waiting while others are there
}

// bad is a gateway for tests. It passes everything on to its only engine, which queues, but for its faults.
type bad struct {
	faults
	accounts []Account
	proxy    *httputil.ReverseProxy
	crowd    atomic.Int64 // requests of others than quiet accounts that it has seen
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
	}
	switch {
	case b.slow && quiet && b.crowd.Load() > 0:
		time.Sleep(300 * time.Millisecond)
	case b.unfair && strings.HasPrefix(who, "team") && !probe:
		time.Sleep(150 * time.Millisecond)
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	b.proxy.ServeHTTP(w, r)
}

func (f faults) gateway() Gateway {
	return Gateway{Name: "bad", Judged: true, Start: func(_ context.Context, s Setup) (*Target, error) {
		engine, err := url.Parse(s.Engines[0].URL)
		if err != nil {
			return nil, err
		}
		b := &bad{faults: f, accounts: s.Accounts, proxy: httputil.NewSingleHostReverseProxy(engine)}
		b.proxy.FlushInterval = -1
		b.proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request,
			_ error) {
			w.WriteHeader(http.StatusBadGateway)
		}
		transport := &http.Transport{}
		b.proxy.Transport = transport
		gateway := httptest.NewServer(b)
		held := 0
		if f.leaks {
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
	hold := func(g Gateway) Scenario { return played(t, flood(), Options{Gateways: []Gateway{g}}) }
	all, none := hold(faults{true, true, true}.gateway()), hold(faults{}.gateway())
	for _, name := range []string{markLeaked, markJain, markRefuse, markQuiet} {
		i := slices.IndexFunc(all.Marks, func(m Mark) bool { return m.Name == name })
		if i < 0 || all.Marks[i].Passed {
			t.Errorf("of a gateway with all faults the mark %q counts as reached, or is not there: %+v", name, all.Marks)
		}
	}
	for _, m := range none.Marks {
		if m.Name == markLeaked && !m.Passed || m.Name == markRefuse {
			t.Errorf("of a gateway without faults: %+v", m)
		}
	}
	if !strings.Contains(strings.Join(all.Notes, "\n"), "2 requests were still held") {
		t.Errorf("notes: %q", all.Notes)
	}
}
