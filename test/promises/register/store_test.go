package register_test

import (
	"strings"
	"testing"
	"time"

	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// While etcd is away, for longer than the lease lasts, no request is disturbed. The worker is registered again afterwards, and drains as ever.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	f := bare(t, proctest.Config{ITL: tokenTime})
	w := startServing(f, "gpu-1")
	load := f.Drive(mixed())
	load.WaitServed(t, 10)
	f.Etcd.Kill(t)
	time.Sleep(7 * time.Second) // longer than the TTL
	load.WaitServed(t, 10)
	f.Etcd.Restart(t)
	waitRegistered(f, w)
	load.WaitServed(t, 10)
	results := load.Stop()
	results.Check(t)
	if s := w.Stats(); s.Aborted > 0 || s.Faulted > 0 {
		t.Errorf("the engine has aborted %d requests", s.Aborted)
	}
	f.WaitReady()
	f.CheckRest()
	leave(f, w)
	finish(f, results)
}

// A worker whose lease expires while it is cut off from etcd goes on; its engine serves, and is registered again.
func TestWorkerCutOff(t *testing.T) {
	t.Parallel()
	f := bare(t, proctest.Config{ITL: tokenTime})
	w := startServing(f, "gpu-1")
	load := f.Drive(mixed())
	load.WaitServed(t, 10)
	w.CutEtcd()
	testkit.WaitFor(t, "the lease to expire", func() bool { return f.Document("workers/gpu-1") == "" })
	load.WaitServed(t, 20)
	w.HealEtcd()
	waitRegistered(f, w)
	load.WaitServed(t, 10)
	results := load.Stop()
	results.Check(t)
	f.CheckRest()
	leave(f, w)
	finish(f, results)
	wantOneAttempt(f)
}

// A worker that drains while it is cut off from etcd cannot know whether requests are left: it says so after -drain, stops its engine and ends.
func TestDrainWithoutStore(t *testing.T) {
	t.Parallel()
	f := bare(t, proctest.Config{})
	w := f.StartWorker("gpu-1", "-drain", "2s")
	waitRegistered(f, w)
	w.CutEtcd()
	if err := w.Stop(terminate); err != nil {
		t.Errorf("it ended with %v", err)
	}
	for _, text := range []string{"not drained after 2", "does not know yet that the engine is out"} {
		if !strings.Contains(w.Output(), text) {
			t.Errorf("it does not say %q:\n%s", text, w.Output())
		}
	}
	if pid := w.EnginePID(); pid != 0 {
		t.Errorf("its engine runs on as %d", pid)
	}
	testkit.WaitFor(t, "the lease to expire", func() bool { return f.Document("workers/gpu-1") == "" && f.Document(endpointKey(w)) == "" })
	finish(f, nil)
}
