package fleettest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/internal/simengine"
	"colonnade/onebox"
)

// OneColo is a fleet with a single colo, so that requests have no other place to go.
func OneColo(engine simengine.Config) onebox.Config {
	return onebox.Config{Colos: []string{"ams"}, Engine: engine}
}

// SeveralServers is a fleet with a single colo, ams, of several servers: ams-1, ams-2 and so on.
func SeveralServers(servers int, engine simengine.Config) onebox.Config {
	c := OneColo(engine)
	c.Servers = map[string]int{"ams": servers}
	return c
}

// LongQueue is the document of a pool in which two thousand requests may wait for a minute.
const LongQueue = "key: pools/demo\nqueue: {limit: 2000, per_account: 2000, max_wait: 60s}"

// QuickEngine takes a millisecond for the first token and for each further one.
func QuickEngine(slots int) simengine.Config {
	return simengine.Config{Slots: slots, TTFT: time.Millisecond, ITL: time.Millisecond}
}

// SlowEngine takes five milliseconds for a token, so that a LongStream lasts a second.
func SlowEngine(slots int) simengine.Config {
	return simengine.Config{Slots: slots, TTFT: time.Millisecond, ITL: 5 * time.Millisecond}
}

// SteadyEngine takes twenty milliseconds for a token, and generates as many as a request asks for.
func SteadyEngine(slots int) simengine.Config {
	return simengine.Config{Slots: slots, TTFT: time.Millisecond, ITL: 20 * time.Millisecond, Tokens: 1 << 20}
}

// Engine returns the first simulated engine of a colo.
func (f *Fleet) Engine(colo string) *simengine.Engine {
	f.T.Helper()
	for _, e := range f.Engines {
		if e.Colo == colo {
			return e.Simulated
		}
	}
	if colo != "ams" {
		NeedsFleet(f.T, "a second colo")
	}
	f.T.Fatalf("no engine in %s", colo)
	return nil
}

// EndpointDocument puts an engine of the fleet into a pool of ams. rest is the rest of the document.
func (f *Fleet) EndpointDocument(id string, engine int, pool, rest string) string {
	return fmt.Sprintf("---\nkey: endpoints/ams/%s\nurl: %s\npool: %s\n%s\n", id, f.Engines[engine].URL, pool, rest)
}

// InjectFault makes every simulated engine misbehave: for count requests, or until ClearFaults if that is 0.
func (f *Fleet) InjectFault(fault string, count int) {
	for _, e := range f.Engines {
		e.Simulated.SetFault(simengine.Fault{Fault: fault, Count: count})
	}
}

// ClearFaults ends the faults of every simulated engine.
func (f *Fleet) ClearFaults() {
	for _, e := range f.Engines {
		e.Simulated.ClearFaults()
	}
}

// EngineRequests returns how many requests the simulated engines have received.
func (f *Fleet) EngineRequests() (n uint64) {
	for _, e := range f.Engines {
		n += e.Simulated.Stats().Requests
	}
	return n
}

// RunningRequests returns how many requests have a slot of a simulated engine.
func (f *Fleet) RunningRequests() (n int) {
	for _, e := range f.Engines {
		n += e.Simulated.Stats().Running
	}
	return n
}

// InFlight returns how many requests the engines have, running and in their own queues.
func InFlight(engines ...*simengine.Engine) (n int) {
	for _, e := range engines {
		s := e.Stats()
		n += s.Running + s.Waiting
	}
	return n
}

// StubEngine is an engine whose responses a test writes.
type StubEngine struct {
	*httptest.Server
	Requests atomic.Int64 // but for those of health checks
}

// StubBody is a chat completion from the model that a StubEngine serves.
const StubBody = `{"model":"own","messages":[]}`

// StartStubEngine runs a StubEngine, and returns the documents that make it the model "own" in ams.
func StartStubEngine(t testing.TB, answer http.HandlerFunc) (e *StubEngine, documents string) {
	e = &StubEngine{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return // a health check
		}
		e.Requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		answer(w, r)
	}))
	t.Cleanup(e.Close)
	return e, StubEngineDocuments(e.URL)
}

// StubEngineDocuments are the documents that make an engine the model "own" in ams.
func StubEngineDocuments(url string) string {
	return fmt.Sprintf("key: endpoints/ams/own\nurl: %s\npool: own\n---\nkey: models/own\npool: own\n", url)
}
