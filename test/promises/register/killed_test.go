package register_test

import (
	"encoding/json"
	"strings"
	"testing"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/fleet"
	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// An engine whose worker is killed serves on, also after the worker's lease has expired. A worker that watches it takes the place, and takes
// it out in the end.
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	f := bare(t, proctest.Config{ITL: tokenTime})
	w := startServing(f, "gpu-1")
	load := f.Drive(mixed())
	load.WaitServed(t, 10)
	engine := w.EnginePID()
	w.Kill()
	testkit.WaitFor(t, "the lease to expire", func() bool { return f.Document("workers/gpu-1") == "" && f.Document(endpointKey(w)) == "" })
	load.WaitServed(t, 20)

	w.Watch()
	waitRegistered(f, w)
	if f.Document(endpointKey(w)) == "" || w.EnginePID() != engine {
		t.Errorf("the engine was %d and is %d", engine, w.EnginePID())
	}
	load.WaitServed(t, 10)
	results := load.Stop()
	results.Check(t)
	if s := w.Stats(); s.Aborted > 0 || s.Faulted > 0 {
		t.Errorf("the engine has aborted %d requests", s.Aborted)
	}
	f.CheckRest()
	if err := w.Stop(terminate); err != nil {
		t.Errorf("the worker ended with %v:\n%s", err, w.Output())
	}
	if w.EnginePID() != engine || f.Document(endpointKey(w)) != "" {
		t.Error("an engine that the worker has not started was stopped, or its document stays")
	}
	finish(f, results)
	wantOneAttempt(f)
}

// An engine that is killed is taken out, started again and put back. Streams that had begun there are cut, as they say; all other requests are
// answered in full.
func TestEngineKilled(t *testing.T) {
	t.Parallel()
	f := bare(t, proctest.Config{ITL: tokenTime})
	one, two := startServing(f, "gpu-1"), f.StartWorker("gpu-2")
	waitRegistered(f, two)
	// The budget of retries covers three requests without a first byte: those of the clients other than proctest.Long.
	load := f.Drive(proctest.LoadConfig{
		Clients: map[proctest.Kind]int{proctest.Plain: 1, proctest.Streamed: 1, proctest.Long: 4, proctest.LongPlain: 1}, LongTokens: longTokens,
	})
	one.WaitServing(5)
	two.WaitServing(5)
	engine := one.EnginePID()
	one.KillEngine()
	testkit.WaitFor(t, "the engine to be started again", func() bool { pid := one.EnginePID(); return pid != 0 && pid != engine })
	one.WaitServing(5)
	waitRegistered(f, one)
	var w fleet.Worker
	if err := json.Unmarshal([]byte(f.Document("workers/gpu-1")), &w); err != nil {
		t.Fatal(err)
	}
	if w.Engine.Restarts != 1 || len(w.Incidents) != 1 || w.Incidents[0].Kind != fleet.IncidentEngineExit {
		t.Errorf("its worker says %+v, incidents %+v", w.Engine, w.Incidents)
	}
	results := load.Stop()
	results.Check(t, proctest.Cut)
	for _, r := range results {
		if r.Outcome == proctest.Cut && r.Kind == proctest.Plain {
			t.Errorf("an answer that is no stream was cut: %v", r)
		}
	}
	finish(f, results)
}

// The only engine of a pool is killed: requests are refused with a reason until it is back, and served then.
func TestOnlyEngineKilled(t *testing.T) {
	t.Parallel()
	f := bare(t, proctest.Config{ITL: tokenTime})
	w := startServing(f, "gpu-1")
	load := f.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Plain: 6}})
	load.WaitServed(t, 10)
	engine := w.EnginePID()
	w.KillEngine()
	testkit.WaitFor(t, "the engine to be started again", func() bool { pid := w.EnginePID(); return pid != 0 && pid != engine })
	load.WaitServed(t, 10)
	results := load.Stop()
	results.Check(t, proctest.Refused)
	finish(f, results)
}

// The end of an engine that is not started again reaches the journal of a colo server, although its worker ends at once.
func TestLastEndOfAnEngineIsAnEvent(t *testing.T) {
	t.Parallel()
	f := bare(t, proctest.Config{Servers: 2})
	w := f.StartWorker("gpu-1", "-restart=false")
	waitRegistered(f, w)
	w.KillEngine()
	if err := w.Wait(); err == nil {
		t.Error("the worker of an engine that was killed ended with success")
	}
	var found []analytics.Event
	testkit.WaitFor(t, "the event", func() bool {
		found = nil
		for _, n := range f.Servers {
			for e, err := range journal.ReadDir(n.Dir) {
				if err == nil && e.Kind == analytics.KindEngine {
					found = append(found, e)
				}
			}
		}
		return len(found) > 0
	})
	if e := found[0]; len(found) != 1 || e.Reason != fleet.IncidentEngineExit || e.Worker != "gpu-1" || !strings.HasPrefix(e.Detail, "signal: killed, ") {
		t.Errorf("got %+v", found)
	}
}
