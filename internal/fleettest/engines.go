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

// SteadyEngine is an engine whose streams last as long as they have tokens, twenty milliseconds each.
func SteadyEngine(slots int) simengine.Config {
	return simengine.Config{Slots: slots, TTFT: time.Millisecond, ITL: 20 * time.Millisecond, Tokens: 1 << 20}
}

// OneColo leaves requests no other place to go.
func OneColo(engine simengine.Config) onebox.Config {
	return onebox.Config{Colos: []string{"ams"}, Engine: engine}
}

// LongQueue lets a whole crowd wait.
const LongQueue = "key: pools/demo\nqueue: {limit: 2000, per_account: 2000, max_wait: 60s}"

// EngineRequests counts what has arrived at the engines.
func (f *Fleet) EngineRequests() (n uint64) {
	for _, e := range f.Engines {
		n += e.Simulated.Stats().Requests
	}
	return n
}

// StubEngine is an engine that says what a test wants, as the model "own" of ams.
type StubEngine struct {
	*httptest.Server
	Requests atomic.Int64
}

func StartStubEngine(t testing.TB, answer http.HandlerFunc) (e *StubEngine, documents string) {
	e = &StubEngine{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return // its health path
		}
		e.Requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		answer(w, r)
	}))
	t.Cleanup(e.Close)
	return e, StubEngineDocuments(e.URL)
}

func StubEngineDocuments(url string) string {
	return fmt.Sprintf("key: endpoints/ams/own\nurl: %s\npool: own\n---\nkey: models/own\npool: own\n", url)
}

const StubBody = `{"model":"own","messages":[]}`

// RunningRequests counts the requests that have a slot of a simulated engine.
func (f *Fleet) RunningRequests() (n int) {
	for _, e := range f.Engines {
		n += e.Simulated.Stats().Running
	}
	return n
}

// InFlight says how many requests engines have in hand.
func InFlight(engines ...*simengine.Engine) (n int) {
	for _, e := range engines {
		s := e.Stats()
		n += s.Running + s.Waiting
	}
	return n
}

// QuickEngine is an engine that answers at once.
func QuickEngine(slots int) simengine.Config {
	return simengine.Config{Slots: slots, TTFT: time.Millisecond, ITL: time.Millisecond}
}

// Engine returns the first simulated engine of a colo.
func (f *Fleet) Engine(colo string) *simengine.Engine {
	f.T.Helper()
	for _, e := range f.Engines {
		if e.Colo == colo {
			return e.Simulated
		}
	}
	f.T.Fatalf("no engine in %s", colo)
	return nil
}

// InjectFault makes every engine misbehave.
func (f *Fleet) InjectFault(fault string, count int) {
	for _, e := range f.Engines {
		e.Simulated.SetFault(simengine.Fault{Fault: fault, Count: count})
	}
}

// ClearFaults makes every engine behave.
func (f *Fleet) ClearFaults() {
	for _, e := range f.Engines {
		e.Simulated.ClearFaults()
	}
}

// EndpointDocument is a document that puts an engine of ams into a pool, with what else is to stand there.
func (f *Fleet) EndpointDocument(id string, engine int, pool, rest string) string {
	return fmt.Sprintf("---\nkey: endpoints/ams/%s\nurl: %s\npool: %s\n%s\n", id, f.Engines[engine].URL, pool, rest)
}

// SlowEngine is an engine whose longStream goes on for a second.
func SlowEngine(slots int) simengine.Config {
	return simengine.Config{Slots: slots, TTFT: time.Millisecond, ITL: 5 * time.Millisecond}
}
