package bench

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/internal/simengine"
)

// directRunner has no gateway: its client asks the only engine itself.
func directRunner(t *testing.T, slots int, p timing) *runner {
	t.Helper()
	es, err := startEngines([]string{"127.0.0.1:0"}, slots)
	if err != nil {
		t.Fatal(err)
	}
	es.setTiming(p)
	c, err := newClient("http://"+es.all[0].address+"/v1", "m")
	if err != nil {
		t.Fatal(err)
	}
	a := &runner{gateway: &Gateway{Name: "none"}, target: &Target{}, engines: es, client: c, ids: &idSource{},
		keys:     map[string]string{},
		progress: func(string, string) {}, leakWait: 10 * time.Second}
	t.Cleanup(func() {
		if err := a.stop(); err != nil {
			t.Error(err)
		}
	})
	return a
}

var fast = timing{time.Millisecond, time.Millisecond}

func TestClientReadsStreams(t *testing.T) {
	a := directRunner(t, 4, fast)
	ask := func() sample {
		var s sample
		a.client.do(context.Background(), clock{time.Now()},
			&request{id: a.ids.next(), key: "k", tokens: 5, input: 3, timeout: 10 * time.Second}, &s)
		return s
	}
	ask()
	first := a.client.conns.idle[0].LocalAddr().String()
	for range 3 {
		if s := ask(); s.outcome != completed || s.first < 0 || s.ended < s.first || s.tokens < 5 || s.status != 200 {
			t.Errorf("a complete stream: %+v", s)
		}
	}
	if kept := a.client.conns.idle[0].LocalAddr().String(); kept != first || a.client.conns.open != 1 {
		t.Errorf("%d connections for one request after the other; the last is %s, and the first was "+
			"%s", a.client.conns.open, kept, first)
	}
	f := func(fault string, want outcome, firstToken bool) {
		t.Helper()
		a.engines.all[0].sim.SetFault(simengine.Fault{Fault: fault, Count: 1})
		if s := ask(); s.outcome != want || (s.first >= 0) != firstToken {
			t.Errorf("%s: outcome %d, want %d; first token %v; %s", fault, s.outcome, want, s.first, s.problem)
		}
	}
	f(simengine.FaultCutAtChunk, failed, true)
	f(simengine.FaultNoDone, failed, true) // ends properly, as HTTP goes
	f(simengine.FaultErrorThenDone, failed, true)
	f(simengine.FaultError500, failed, false)
	f(simengine.FaultFull429, refused, false)
	f(simengine.FaultFull, refused, false)
	f(simengine.FaultFullInStream, failed, false)
	f(simengine.FaultCloseIdle, completed, true)
	if s := ask(); s.outcome != completed { // over a connection that the engine has closed
		t.Errorf("after an idle connection was closed: %+v", s)
	}
}

// A comment is not the first token.
func TestCommentsAreNoTokens(t *testing.T) {
	a := directRunner(t, 1, timing{300 * time.Millisecond, time.Millisecond})
	a.engines.all[0].sim.SetFault(simengine.Fault{Fault: simengine.FaultPingFirst})
	var s sample
	a.client.do(context.Background(), clock{time.Now()},
		&request{id: 1, key: "k", tokens: 2, input: 1, timeout: 10 * time.Second}, &s)
	if s.outcome != completed || s.first < 300*time.Millisecond {
		t.Errorf("the first token is counted after %v: %+v", s.first, s)
	}
}

// A prompt asks for the size of tokens, and still has the request's id.
func TestTokenBytes(t *testing.T) {
	a := directRunner(t, 1, fast)
	began := time.Now()
	var s sample
	a.client.do(context.Background(), clock{began}, &request{id: 7, key: "k", tokens: 4, input: 1, tokenBytes: 5000,
		timeout: 10 * time.Second}, &s)
	if n := a.engines.all[0].sim.Stats().Bytes; s.outcome != completed || n < 20000 {
		t.Errorf("%d bytes: %+v", n, s)
	}
	if jobs := a.engines.takeJobs(began); len(jobs) != 1 || jobs[0].id != 7 || jobs[0].tokens != 4 || !jobs[0].served {
		t.Errorf("the engine saw %+v", jobs)
	}
}

// Clients that hold the slot or wait for it leave nothing behind.
func TestClientsDisconnect(t *testing.T) {
	a := directRunner(t, 1, timing{time.Hour, time.Millisecond})
	began := time.Now()
	var all sync.WaitGroup
	samples := make([]sample, 20)
	for i := range samples {
		all.Go(func() {
			c := request{id: a.ids.next(), key: "k", tokens: 1, input: 1, timeout: time.Minute,
				behaviour: behaviour{disconnectAt: 200 * time.Millisecond}}
			a.client.do(context.Background(), clock{began}, &c, &samples[i])
		})
	}
	all.Wait()
	for _, s := range samples {
		if s.outcome != disconnected || s.ended < 200*time.Millisecond || s.ended > 30*time.Second || s.problem != "" {
			t.Errorf("%+v", s)
		}
	}
	if held := a.awaitIdle(context.Background()); held != 0 {
		t.Errorf("%d requests are held for clients that have left", held)
	}
	if a.client.conns.open != 0 {
		t.Errorf("%d connections are open", a.client.conns.open)
	}
}

// Open loop: while a gateway stalls, requests are sent when they are due, and wait for as long as the stall lasts.
func TestStallDelaysAllDueRequests(t *testing.T) {
	a := directRunner(t, 100, fast)
	const from, until = 100 * time.Millisecond, 600 * time.Millisecond
	engine := a.engines.all[0].sim
	var once sync.Once
	var began time.Time
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { began = time.Now() })
		if at := time.Since(began); at >= from && at < until {
			time.Sleep(until - at)
		}
		engine.ServeHTTP(w, r)
	}))
	defer gateway.Close()
	var err error
	if a.client, err = newClient(gateway.URL+"/v1", "m"); err != nil {
		t.Fatal(err)
	}
	in := interval{0, 800 * time.Millisecond}
	r, err := a.run(context.Background(), &trial{timing: fast, window: in,
		flows: []flow{{account: "a", tokens: 1, input: 1, due: burst(80, in)}}})
	if err != nil {
		t.Fatal(err)
	}
	stalled, sentInTime := 0, 0
	for s := range r.eachSample {
		if s.outcome != completed {
			t.Fatalf("%+v", s)
		}
		// The gateway's clock begins with the first request, later than ours: a stall may end later, never earlier.
		if s.due > from+50*time.Millisecond && s.due < until-50*time.Millisecond {
			stalled++
			if s.ttft() < until-s.due {
				t.Errorf("due at %v during the stall, and served after %v", s.due, s.ttft())
			}
			if s.sent < until {
				sentInTime++
			}
		}
	}
	if stalled < 35 || sentInTime < stalled/2 {
		t.Errorf("of %d requests due during the stall, %d were sent during it", stalled, sentInTime)
	}
}

func TestClientTakesPlainHTTPOnly(t *testing.T) {
	if _, err := newClient("https://gateway/v1", "m"); err == nil || !strings.Contains(err.Error(), "http://") {
		t.Errorf("got %v", err)
	}
}
