package register_test

import (
	"encoding/json"
	"strings"
	"testing"

	"colonnade/discovery/etcd"
	"colonnade/internal/proctest"
)

// An engine that register has started serves a model for which no document was written. It goes when its worker ends, and the model's
// document stays.
func TestEngineServesWithoutDocuments(t *testing.T) {
	t.Parallel()
	f := bare(t, proctest.Config{Servers: 2})
	w := startServing(f, "gpu-1")
	if d := f.Document(endpointKey(w)); !strings.Contains(d, "concurrency: 4") || !strings.Contains(d, "pool-1") {
		t.Errorf("the endpoint is %s", d)
	}
	var by etcd.Author
	if err := json.Unmarshal([]byte(f.Document(etcd.AuthorKey)), &by); err != nil || by.User != "register" {
		t.Errorf("the model was created by %+v, %v", by, err)
	}
	load := f.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Plain: 2, proctest.Streamed: 2}})
	load.WaitServed(t, 20)
	results := load.Stop()
	results.Check(t)
	f.CheckRest()
	leave(f, w)
	if f.Document("models/pool-1") == "" {
		t.Error("the document of the model went with the engine")
	}
	finish(f, results)
	wantOneAttempt(f)
}

// A second worker with the name of a living one, or for its engine, ends with an error that says who that is; and so does one whose model
// belongs to another pool. None disturbs the first, or leaves an engine or a document behind.
func TestSecondWorkerIsRefused(t *testing.T) {
	t.Parallel()
	f := bare(t, proctest.Config{})
	first := startServing(f, "gpu-1")
	before := f.Document("workers/gpu-1")
	load := f.Drive(mixed())
	refused := func(w *proctest.Worker, texts ...string) {
		t.Helper()
		if err := w.Wait(); err == nil {
			t.Errorf("%s ended with success", w.Name)
		}
		for _, text := range texts {
			if !strings.Contains(w.Output(), text) {
				t.Errorf("%s does not say %q:\n%s", w.Name, text, w.Output())
			}
		}
		if pid := w.EnginePID(); pid != 0 && w.URL != first.URL {
			t.Errorf("its engine runs as %d", pid)
		}
	}
	refused(f.StartWorker("gpu-1"), "workers/gpu-1", "engine "+first.URL, "-node")
	refused(f.StartWorker("gpu-2", "-pool", "other"), `models/pool-1 names the pool "pool-1"`, "-pool pool-1")
	sameEngine := f.StartWorker("gpu-3")
	_ = sameEngine.Stop(terminate)
	sameEngine.URL = first.URL
	sameEngine.Watch("-url", first.URL)
	refused(sameEngine, endpointKey(first), "worker gpu-1", "-id")

	if f.Document("workers/gpu-1") != before || f.Document("workers/gpu-2") != "" || f.Document("pools/other") != "" {
		t.Error("a worker that was refused has changed documents")
	}
	load.WaitServed(t, 10)
	results := load.Stop()
	results.Check(t)
	finish(f, results)
	wantOneAttempt(f)
}
