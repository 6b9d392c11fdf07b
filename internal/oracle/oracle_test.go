package oracle_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/internal/oracle"
)

// node is a fake admin listener.
type node struct {
	url     string
	check   atomic.Pointer[string] // nil: ok
	metrics atomic.Pointer[string]
	slow    atomic.Int64 // delay of its health page in nanoseconds
	dead    atomic.Bool
	probes  atomic.Int64 // requests of its health page
}

func start(t *testing.T) *node {
	t.Helper()
	n := &node{}
	n.setMetrics(`colonnade_permits_held{pool="p"} 0`)
	mux := http.NewServeMux()
	mux.HandleFunc("/health/live", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Duration(n.slow.Load()))
		n.probes.Add(1)
		if n.dead.Load() {
			w.WriteHeader(503)
		}
	})
	mux.HandleFunc("/debug/check", func(w http.ResponseWriter, _ *http.Request) {
		if broken := n.check.Load(); broken != nil {
			http.Error(w, *broken, 500)
		}
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, *n.metrics.Load()) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	n.url = server.URL
	return n
}

func (n *node) setMetrics(lines ...string) {
	text := strings.Join(lines, "\n") + "\n"
	n.metrics.Store(&text)
}

// recorder records the failures of a test that is expected to fail.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper()           {}
func (r *recorder) Error(args ...any) { r.failures = append(r.failures, fmt.Sprint(args...)) }

// wantProblem expects exactly one problem, or none.
func wantProblem(t *testing.T, o *oracle.Oracle, want string) {
	t.Helper()
	var got []string
	for _, p := range o.Problems(t) {
		if !strings.HasPrefix(p, "goroutines") && !strings.HasPrefix(p, "file descriptors") || strings.HasPrefix(p, want) && want != "" {
			got = append(got, p)
		}
	}
	if want == "" && len(got) != 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
		t.Errorf("got %q, want one with %q", got, want)
	}
}

func TestPages(t *testing.T) {
	n := start(t)
	o := oracle.New(t, oracle.Config{AdminURLs: []string{n.url}})
	wantProblem(t, o, "")
	n.setMetrics(`colonnade_permits_held{pool="p"} 0`, `colonnade_permits_held{pool="q"} 2`, `inference_queue_length_peak 9`)
	wantProblem(t, o, `colonnade_permits_held{pool="q"} 2, want 0`)
	n.setMetrics(`inference_queue_length{pool="p"} 1`)
	wantProblem(t, o, "inference_queue_length")
	n.setMetrics(`inference_active_requests{model="m"} 1`)
	wantProblem(t, o, "inference_active_requests")
	n.setMetrics("")
	broken := "pool p: held 3, slots say 2"
	n.check.Store(&broken)
	wantProblem(t, o, broken)
	n.check.Store(nil)
	wantProblem(t, o, "")
	o.Check(t)
}

func TestCheckWaitsForRest(t *testing.T) {
	n := start(t)
	o := oracle.New(t, oracle.Config{AdminURLs: []string{n.url}})
	n.setMetrics("colonnade_permits_held 1")
	left := make(chan struct{})
	go func() {
		defer close(left)
		time.Sleep(100 * time.Millisecond)
		n.setMetrics("colonnade_permits_held 0")
	}()
	o.Check(t)
	<-left
}

func TestEngines(t *testing.T) {
	var stats []oracle.EngineStats
	var err error
	o := oracle.New(t, oracle.Config{EngineStats: func() ([]oracle.EngineStats, error) { return stats, err }})
	stats = []oracle.EngineStats{{Name: "gpu-1"}, {Name: "gpu-2"}}
	wantProblem(t, o, "")
	stats[1].Running = 1
	wantProblem(t, o, "engine gpu-2: 1 running, 0 waiting")
	stats[1] = oracle.EngineStats{Name: "gpu-2", Waiting: 4}
	wantProblem(t, o, "engine gpu-2: 0 running, 4 waiting")
	err = io.ErrUnexpectedEOF
	wantProblem(t, o, "cannot read their load")
}

func TestEvents(t *testing.T) {
	f := func(want string, elsewhere bool, events ...analytics.Event) {
		t.Helper()
		dir := logged(t, events)
		wantProblem(t, oracle.New(t, oracle.Config{EventDirs: []string{dir}, EntriesElsewhere: elsewhere}), want)
	}
	event := func(id string, kind analytics.Kind, phase analytics.Phase) analytics.Event {
		return analytics.Event{EventID: id, RequestID: "r", Kind: kind, Phase: phase}
	}
	request := event("1", analytics.KindRequest, analytics.PhaseEnd)
	begin := event("2", analytics.KindInference, analytics.PhaseBegin)
	end := event("2", analytics.KindInference, analytics.PhaseEnd)
	f("", false)
	f("", false, request)
	f("", false, begin, begin, end, request)
	f("", true, begin, end)
	f("", false, request, analytics.Event{EventID: "3", Kind: analytics.KindEngine, Phase: analytics.PhaseEnd, Worker: "w"})
	f("field worker", false, analytics.Event{EventID: "1", RequestID: "r", Kind: analytics.KindRequest, Phase: analytics.PhaseEnd, Worker: "w"})
	f("begin 2 of node ams-1 has no end", false, begin, request)
	f("event 2 has 2 ends", false, begin, end, end, request)
	f("0 final events of kind request", false, begin, end)
	f("2 final events of kind request", false, request, event("9", analytics.KindRequest, analytics.PhaseEnd))
	wantProblem(t, oracle.New(t, oracle.Config{EventDirs: []string{t.TempDir()}}), "cannot read events")

	// Nodes that were killed.
	dir := logged(t, []analytics.Event{begin, end, end, request, request})
	wantProblem(t, oracle.New(t, oracle.Config{EventDirs: []string{dir}, Restarted: true}), "")
	cut(t, filepath.Join(dir, "events", "edge", "request-1.log"), 30)
	wantProblem(t, oracle.New(t, oracle.Config{EventDirs: []string{dir}, Restarted: true}), "")
	cut(t, filepath.Join(dir, "events", "ams-1", "1.log"), 30)
	if events, err := oracle.ReadEvents(dir); err != nil || len(events.Ends) != 2 || len(events.Begins) != 1 || events.Torn != 2 || len(events.Repeated) != 0 {
		t.Errorf("%+v, %v", events, err)
	}
	dir = logged(t, []analytics.Event{begin, request})
	wantProblem(t, oracle.New(t, oracle.Config{EventDirs: []string{dir}, Restarted: true}), "begin 2 of node ams-1 has no end")
	dir = logged(t, []analytics.Event{begin, end})
	wantProblem(t, oracle.New(t, oracle.Config{EventDirs: []string{dir}, Restarted: true}), "0 final events of kind request")
}

// logged writes events like nodes: an entry those of requests, a colo the others.
func logged(t *testing.T, events []analytics.Event) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"edge", "ams-1"} {
		l, err := journal.Open(journal.Config{Dir: dir, Node: name})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if (e.Kind == analytics.KindRequest) == (name == "edge") {
				l.Append(&e)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// cut removes the last n bytes of a file.
func cut(t *testing.T, path string, n int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-n); err != nil {
		t.Fatal(err)
	}
}

func TestProcess(t *testing.T) {
	o := oracle.New(t, oracle.Config{MemoryBytes: 8 << 20})
	wantProblem(t, o, "")
	stop := make(chan struct{})
	for range 20 {
		go func() { <-stop }()
	}
	wantProblem(t, o, "goroutines: ")
	close(stop)

	server := httptest.NewServer(http.NotFoundHandler())
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}}
	idle := oracle.New(t, oracle.Config{IdleConnections: 10})
	hold(t, client, server.URL, 10)
	if got := o.Problems(t); len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), "file descriptors: ") {
		t.Errorf("open connections were not noticed: %q", got)
	}
	idle.Check(t) // which allows them
	client.CloseIdleConnections()
	server.Close()

	kept := make([]byte, 16<<20)
	wantProblem(t, o, "memory: live heap")
	runtime.KeepAlive(kept)
	o.Check(t)
}

// hold opens n connections and leaves them idle.
func hold(t *testing.T, client *http.Client, url string, n int) {
	t.Helper()
	var responses []*http.Response
	for range n {
		response, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		responses = append(responses, response)
	}
	for _, response := range responses {
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
}

func TestHealth(t *testing.T) {
	f := func(disturb func(*node), want string) {
		t.Helper()
		n := start(t)
		o := oracle.New(t, oracle.Config{AdminURLs: []string{n.url}})
		disturb(n)
		for enough := n.probes.Load() + 5; n.probes.Load() < enough; { // without a bound: the test binary has one
			time.Sleep(10 * time.Millisecond)
		}
		n.slow.Store(0)
		r := &recorder{TB: t}
		o.Check(r)
		if len(r.failures) != 1 || !strings.Contains(r.failures[0], want) {
			t.Errorf("got %q, want one with %q", r.failures, want)
		}
	}
	t.Setenv("COLONNADE_SOAK", "1")
	f(func(n *node) { n.slow.Store(int64(120 * time.Millisecond)) }, "health: p99")
	f(func(n *node) { n.dead.Store(true) }, "probes failed, the last with")
}
