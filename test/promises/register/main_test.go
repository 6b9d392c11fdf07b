package register_test

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/oracle"
	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// TestMain lets few tests run at once: each has half a dozen processes.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(testkit.AtScale(3, 1))); err != nil {
		panic(err)
	}
	testkit.VerifyMain(oracle.LeakCheck{Tests: m})
}

// longQueue lets requests wait for longer than in a pool that a worker creates.
const longQueue = `---
key: pools/pool-1
queue: {limit: 2000, per_account: 2000, max_wait: 2m}
`

// bare returns a fleet without engines.
func bare(t testing.TB, c proctest.Config) *proctest.Fleet {
	t.Helper()
	c.Bare, c.Documents = true, longQueue+c.Documents
	return proctest.Start(t, c)
}

// mixed is a load of more requests at once than one engine has slots, so that some wait.
func mixed() proctest.LoadConfig {
	return proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Plain: 3, proctest.Streamed: 3, proctest.Long: 2, proctest.LongPlain: 1}, LongTokens: longTokens}
}

func endpointKey(w *proctest.Worker) string {
	return "endpoints/" + proctest.Colo + "/" + strings.ReplaceAll(strings.TrimPrefix(w.URL, "http://"), ":", "-")
}

// waitRegistered waits until the engine of a worker is registered for requests.
func waitRegistered(f *proctest.Fleet, w *proctest.Worker) {
	f.T.Helper()
	testkit.WaitFor(f.T, w.Name+" to be registered", func() bool {
		if w.Ended() {
			f.T.Fatalf("%s has ended:\n%s", w.Name, w.Output())
		}
		return strings.Contains(f.Document("workers/"+w.Name), `"serving"`) && f.Document(endpointKey(w)) != ""
	})
}

// startServing starts the first worker, and waits until requests reach its engine.
func startServing(f *proctest.Fleet, name string) *proctest.Worker {
	f.T.Helper()
	w := f.StartWorker(name)
	waitRegistered(f, w)
	testkit.WaitFor(f.T, "a request to be served", func() bool { return isServed(f) })
	return w
}

// isServed sends a short request, and reports whether it was answered.
func isServed(f *proctest.Fleet) bool {
	status, _, _ := testkit.Post("http://"+f.Entries[0].Address+"/v1/chat/completions", `{"model":"pool-1","max_tokens":1,"messages":[{"role":"user","content":"?"}]}`)
	return status == http.StatusOK
}

// leave has a worker drain and end, which must be proper.
func leave(f *proctest.Fleet, w *proctest.Worker) {
	f.T.Helper()
	if err := w.Signal(terminate); err != nil {
		f.T.Errorf("%s: %v", w.Name, err)
	}
	awaitLeave(f, w)
}

// awaitLeave waits for the end of a worker that drains.
func awaitLeave(f *proctest.Fleet, w *proctest.Worker) {
	f.T.Helper()
	if err := w.Wait(); err != nil {
		f.T.Errorf("%s ended with %v:\n%s", w.Name, err, w.Output())
	}
	if pid := w.EnginePID(); pid != 0 {
		f.T.Errorf("the engine of %s runs on as %d", w.Name, pid)
	}
	for _, key := range []string{"workers/" + w.Name, endpointKey(w)} {
		if d := f.Document(key); d != "" {
			f.T.Errorf("%s is left: %s", key, d)
		}
	}
}

// finish ends a fleet at rest.
func finish(f *proctest.Fleet, results proctest.Results) {
	f.T.Helper()
	f.CheckRest()
	f.End(results)
}

// wantOneAttempt checks that each request was sent to one engine only.
func wantOneAttempt(f *proctest.Fleet) {
	f.T.Helper()
	var dirs []string
	for _, n := range slices.Concat(f.Entries, f.Servers) {
		dirs = append(dirs, n.Dir)
	}
	events, err := oracle.ReadEvents(dirs...)
	if err != nil {
		f.T.Fatal(err)
	}
	counts := map[string]int{}
	for _, e := range events.Ends {
		if e.Kind == analytics.KindInference {
			counts[fmt.Sprintf("attempts %d, outcome %s", e.Attempts, e.Outcome)]++
		}
	}
	for what := range counts {
		if !strings.HasPrefix(what, "attempts 1,") {
			f.T.Errorf("requests in the colo: %v", counts)
			return
		}
	}
	f.T.Logf("requests in the colo: %v", slices.Collect(maps.Keys(counts)))
}

// The engines' time for a token, and the tokens of long answers, which are the most that they have.
const (
	tokenTime  = 20 * time.Millisecond
	longTokens = 64
)
