package refusals_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/internal/etcdtest"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
	"colonnade/reasons"
)

// mortalEngine is an engine that can be killed and started again at the same address.
type mortalEngine struct {
	t       *testing.T
	address string
	checked atomic.Bool  // its health path was asked
	served  atomic.Int64 // requests
	server  *http.Server
}

func startMortalEngine(t *testing.T) *mortalEngine {
	t.Helper()
	e := &mortalEngine{t: t, address: etcdtest.FreeAddress(t)}
	e.start()
	t.Cleanup(e.kill)
	return e
}

func (e *mortalEngine) start() {
	e.t.Helper()
	ln, err := net.Listen("tcp", e.address)
	if err != nil {
		e.t.Fatal(err)
	}
	e.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			e.checked.Store(true)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		e.served.Add(1)
		time.Sleep(5 * time.Millisecond)
		_, _ = io.WriteString(w, `{"said":"ok"}`)
	})}
	go func(s *http.Server) { _ = s.Serve(ln) }(e.server)
}

// kill closes the listener and all connections, as the end of a process does.
func (e *mortalEngine) kill() { _ = e.server.Close() }

// startMortalEngines starts n engines for a pool in a colo, which are checked once only.
func startMortalEngines(t *testing.T, colo, pool string, n int) (engines []*mortalEngine, documents string) {
	t.Helper()
	for i := range n {
		e := startMortalEngine(t)
		engines = append(engines, e)
		documents += fmt.Sprintf("key: endpoints/%s/%s-%d\nurl: http://%s\npool: %s\nconcurrency: 64\nhealth: {interval: 1h}\n---\n", colo, pool, i, e.address, pool)
	}
	return engines, documents
}

// modelWithoutRetries is the document of a pool's model that allows none.
func modelWithoutRetries(pool string) string {
	return fmt.Sprintf("key: models/%s\npool: %s\nretry: {errors: 0}\n", pool, pool)
}

func (e *mortalEngine) awaitCheck() {
	e.t.Helper()
	testkit.WaitFor(e.t, "the first health check", e.checked.Load)
}

func chatWith(model string) string { return fmt.Sprintf(`{"model":%q,"messages":[]}`, model) }

// chatAtOnce sends so many requests at once, and returns the responses.
func chatAtOnce(f *fleettest.Fleet, requests int, body string) []wiretest.Response {
	f.T.Helper()
	responses := make([]wiretest.Response, requests)
	var all sync.WaitGroup
	for n := range responses {
		all.Go(func() { responses[n] = f.Chat(body) })
	}
	all.Wait()
	return responses
}

func endpointStates(f *fleettest.Fleet, colo, pool string) (states []string) {
	for _, e := range f.Pool(colo, pool).Endpoints {
		states = append(states, e.State)
	}
	slices.Sort(states)
	return states
}

// Requests that meet engines which refuse connections are served by another of the pool, though the model allows no retry; each
// tries an engine at most once. The engines are taken out of the pool, and return once they live again.
func TestDeadEnginesOfAPool(t *testing.T) {
	t.Parallel()
	engines, documents := startMortalEngines(t, "ams", "mortal", 3)
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}}, documents+modelWithoutRetries("mortal"))
	f.WatchShared(100)
	dead, live := engines[:2], engines[2]
	for _, e := range engines {
		e.awaitCheck()
	}
	for _, e := range dead {
		e.kill()
	}
	moved := 0
	for _, a := range chatAtOnce(f, 40, chatWith("mortal")) {
		attempts := a.Header.Get("x-colonnade-attempts")
		if a.Status != 200 || attempts > "3" {
			t.Errorf("%d %s, %s attempts", a.Status, a.Body, attempts)
		}
		if attempts != "1" {
			moved++
		}
	}
	if moved == 0 || live.served.Load() != 40 {
		t.Errorf("%d requests met a dead engine, and %d were served", moved, live.served.Load())
	}
	testkit.WaitFor(t, "the dead engines to be taken out", func() bool {
		return endpointStates(f, "ams", "mortal")[2] == "up" && endpointStates(f, "ams", "mortal")[1] == "down"
	})
	for _, e := range dead {
		e.start()
	}
	testkit.WaitFor(t, "the engines to return", func() bool { return endpointStates(f, "ams", "mortal")[0] == "up" })
}

// If all engines of a colo refuse connections, requests are served by the next colo, though the model allows no retry. If no colo has
// another, the error says that nothing was sent.
func TestDeadColo(t *testing.T) {
	t.Parallel()
	fleettest.NeedsFleet(t, "a second colo")
	here, documents := startMortalEngines(t, "ams", "mortal", 2)
	there, more := startMortalEngines(t, "fra", "mortal", 1)
	f := fleettest.Start(t, onebox.Config{}, documents+more+modelWithoutRetries("mortal"))
	f.WatchShared(100)
	for _, e := range slices.Concat(here, there) {
		e.awaitCheck()
	}
	for _, e := range here {
		e.kill()
	}
	for _, a := range chatAtOnce(f, 40, chatWith("mortal")) {
		if a.Status != 200 || a.Header.Get("x-colonnade-colo") != "fra" {
			t.Errorf("%d %s, from %q", a.Status, a.Body, a.Header.Get("x-colonnade-colo"))
		}
	}
	there[0].kill()
	for _, a := range chatAtOnce(f, 20, chatWith("mortal")) {
		reason, retry := a.Header.Get("x-colonnade-reason"), a.Header.Get("x-should-retry")
		if retry != "" || reason != reasons.ConnectFailed && reason != reasons.NoEndpoint {
			t.Errorf("%d %s, reason %s, x-should-retry %q; want one that says that nothing was sent", a.Status, a.Body, reason, retry)
		}
	}
}

// A request whose colo server refuses the connection goes on to the next colo without a retry, whatever the number of such servers.
func TestDeadColoServers(t *testing.T) {
	t.Parallel()
	next, documents := fleettest.StartStubColo(t, "last", "last-1", func(hop.Wait) string { return "" })
	colos := []string{}
	for n := range 5 {
		colo := fmt.Sprintf("dead%d", n)
		colos = append(colos, colo)
		documents += fmt.Sprintf("key: colos/%s\n---\nkey: servers/%s/%s-1\naddress: %s\nboot: b\n---\n", colo, colo, colo, etcdtest.FreeAddress(t))
	}
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), documents+fmt.Sprintf(
		"key: models/far\npool: demo\nretry: {errors: 0}\nrouting: {steps: [{colos: [%s]}, {colos: [last]}]}", strings.Join(colos, ", ")))
	f.WatchShared(100)
	for _, a := range chatAtOnce(f, 20, chatWith("far")) {
		if a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	if n := len(next.Waits()); n != 20 {
		t.Errorf("the last colo was asked %d times, want 20", n)
	}
}

// While one of two engines is killed under load, and starts again, no request fails of which nothing was sent.
func TestEngineKilledUnderLoad(t *testing.T) {
	t.Parallel()
	const clients = 4
	pools, rounds := 6, testkit.AtScale(1, 30)
	engines, documents := make([][]*mortalEngine, pools), ""
	for p := range engines {
		pool, more := fmt.Sprintf("mortal%d", p), ""
		engines[p], more = startMortalEngines(t, "ams", pool, 2)
		documents += more + modelWithoutRetries(pool) + "---\n"
	}
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}}, strings.TrimSuffix(documents, "---\n"))
	f.WatchShared(1000)
	for _, both := range engines {
		for _, e := range both {
			e.awaitCheck()
		}
	}
	var served, moved, lost atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	for n := range pools * clients {
		all.Go(func() {
			for body := chatWith(fmt.Sprintf("mortal%d", n%pools)); !stop.Load(); {
				a := f.Chat(body)
				switch reason := a.Header.Get("x-colonnade-reason"); {
				case a.Status == 200:
					served.Add(1)
					if a.Header.Get("x-colonnade-attempts") != "1" {
						moved.Add(1)
					}
				case reason == reasons.NoAnswer, reason == reasons.Truncated: // it was at the engine
					lost.Add(1)
				default:
					t.Errorf("%d %s, reason %s", a.Status, a.Body, reason)
				}
			}
		})
	}
	for round := range rounds {
		before := served.Load()
		testkit.WaitFor(t, "the load", func() bool { return served.Load() > before+100 })
		for _, both := range engines {
			both[round%2].kill()
		}
		before = served.Load()
		testkit.WaitFor(t, "further requests to be served", func() bool { return served.Load() > before+200 })
		for _, both := range engines {
			both[round%2].start()
		}
		for p := 0; p < pools && round+1 < rounds; p++ {
			testkit.WaitFor(t, "the engine to return", func() bool { return endpointStates(f, "ams", fmt.Sprintf("mortal%d", p))[0] == "up" })
		}
	}
	stop.Store(true)
	all.Wait()
	t.Logf("%d served, of these %d after a dead engine; %d were at an engine that was killed", served.Load(), moved.Load(), lost.Load())
	if moved.Load() == 0 {
		t.Error("no request has met a dead engine")
	}
}
