package worker

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	"colonnade/worker/process"
)

// An engine is registered when it answers, with what it is, and not before.
func TestEngineIsRegisteredWhenItAnswers(t *testing.T) {
	t.Parallel()
	address := etcdtest.FreeAddress(t)
	r := begin(t, Config{URL: address, Machine: "gpu", Version: "v1", Command: engine(address, "-loading", "500ms")}, &memory{})
	testkit.WaitFor(t, "what it waits for", func() bool {
		return r.store.newest().Worker.Engine.Reason == "waiting for http://"+address+": connection refused"
	})
	if first := r.store.newest(); first.Endpoint.Key != "" || first.Worker.Engine.State != fleet.WorkerStarting || first.Worker.Node != "gpu-1" {
		t.Errorf("%+v", first)
	}
	testkit.WaitFor(t, "the engine to listen", func() bool { return strings.Contains(r.out.String(), "engine | listening\n") })
	testkit.Within(t, time.Second, "serving", func() bool { return r.store.newest().Worker.Engine.State == fleet.WorkerServing })
	got := r.store.newest()
	e := endpointOf(t, got)
	if !e.Serves() || e.URL != "http://"+address || e.Engine != "vllm" || e.Pool != "tiny" || got.Endpoint.Key != "endpoints/ams/"+strings.Replace(address, ":", "-", 1) {
		t.Errorf("%s: %+v", got.Endpoint.Key, e)
	}
	if len(got.Models) != 2 || got.Models[0].Key != "pools/tiny" || got.Models[1].Key != "models/tiny" {
		t.Errorf("models: %v", got.Models)
	}
	w := got.Worker
	if w.Colo != "ams" || w.Machine != "gpu" || w.Version != "v1" || w.Boot == "" || !strings.HasPrefix(w.Engine.Software, "vLLM ") || w.Engine.Pool != "tiny" || w.Engine.Since.IsZero() {
		t.Errorf("%+v", w)
	}
	testkit.WaitFor(t, "the line", func() bool {
		return strings.Contains(r.lines.String(), "serving: "+got.Endpoint.Key+" in the pool tiny, concurrency auto\n")
	})
	if n := strings.Count(r.lines.String(), "waiting for"); n != 1 {
		t.Errorf("it says %d times what it waits for:\n%s", n, r.lines.String())
	}
}

// At the end, the engine is taken out, then its requests end, then it is stopped, then its documents go.
func TestEndOfAWorker(t *testing.T) {
	t.Parallel()
	store := &memory{inFlight: 2}
	r := beginEngine(t, Config{}, store)
	store.running = func() bool { return listens(r.c.URL) }
	r.stop()
	if e := endpointOf(t, r.await(fleet.WorkerDraining)); e.Serves() || e.Concurrency != 0 || e.StateReason != "the worker of the engine is about to end" {
		t.Errorf("%+v", e)
	}
	testkit.WaitFor(t, "the line", func() bool { return strings.Contains(r.lines.String(), "draining: 2 requests are in flight\n") })
	if !listens(r.c.URL) || strings.Contains(r.out.String(), "SIGTERM") {
		t.Error("the engine was stopped with requests in flight")
	}
	store.setInFlight(0)
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(r.out.String(), "got SIGTERM") || !store.removed || store.last {
		t.Errorf("removed: %v, while the engine ran: %v", store.removed, store.last)
	}
}

// Requests that do not end in time do not keep the engine.
func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	r := beginEngine(t, Config{Drain: 300 * time.Millisecond}, &memory{inFlight: 1})
	r.stop()
	if err := r.end(); err != nil || !strings.Contains(r.lines.String(), ": 1 request is in flight\nstopping") || listens(r.c.URL) {
		t.Errorf("%v", err)
	}
}

// The end of the engine during the drain ends the worker with its status.
func TestEngineEndsWhileItIsDrained(t *testing.T) {
	t.Parallel()
	r := beginEngine(t, Config{Restart: true}, &memory{inFlight: 1}, "-status", "9")
	r.stop()
	r.await(fleet.WorkerDraining)
	_ = syscall.Kill(r.process().PID, syscall.SIGTERM)
	r.endsWith(9, "the engine has ended by itself while it was drained (exit status 9)")
	if i := r.store.newest().Worker.Incidents; len(i) != 1 || i[0].Kind != fleet.IncidentEngineExit || i[0].Detail != "exit status 9, while it was drained" {
		t.Errorf("%+v", i)
	}
	r.store.stood(t, seenTime)
}

func TestExitStatusPassesThrough(t *testing.T) {
	t.Parallel()
	t.Run("of a stop", func(t *testing.T) {
		t.Parallel()
		r := beginEngine(t, Config{}, &memory{}, "-status", "3")
		r.stop()
		r.endsWith(3, "exit status 3")
	})
	t.Run("of a stop that takes too long", func(t *testing.T) {
		t.Parallel()
		r := beginEngine(t, Config{StopTimeout: 200 * time.Millisecond}, &memory{}, "-ignore")
		r.stop()
		r.endsWith(137, "has not ended within -stop-timeout 200ms and was killed")
	})
	t.Run("of a crash", func(t *testing.T) {
		t.Parallel()
		r := beginEngine(t, Config{}, &memory{})
		_ = syscall.Kill(r.process().PID, syscall.SIGSEGV)
		if err := r.end(); err == nil {
			t.Error("no error")
		}
		got := r.store.newest().Worker
		if len(got.Incidents) != 1 || got.Incidents[0].Kind != fleet.IncidentEngineExit {
			t.Errorf("%+v", got)
		}
		r.store.stood(t, seenTime)
	})
	t.Run("of a command that is missing", func(t *testing.T) {
		t.Parallel()
		r := begin(t, Config{URL: etcdtest.FreeAddress(t), Command: []string{"no-such-engine"}, Restart: true}, &memory{})
		failed := (*process.StartError)(nil)
		if err := r.end(); !errors.As(err, &failed) || failed.Status != process.StatusNotFound {
			t.Error(err)
		}
	})
}

// A crash takes the engine out, and starts it again.
func TestEngineIsRestartedAfterACrash(t *testing.T) {
	t.Parallel()
	r := beginEngine(t, Config{Restart: true}, &memory{})
	_ = syscall.Kill(r.process().PID, syscall.SIGKILL)
	got := r.await(fleet.WorkerBackoff)
	if e := endpointOf(t, got); e.Serves() || e.StateReason != "the engine has ended (signal: killed); it is started again after 1s" {
		t.Errorf("%+v", e)
	}
	got = r.await(fleet.WorkerServing)
	if i := got.Worker.Incidents; len(i) != 1 || i[0].Kind != fleet.IncidentEngineExit || i[0].Number != 1 || !strings.HasPrefix(i[0].Detail, "signal: killed, ") {
		t.Errorf("%+v", i)
	}
	if got.Worker.Engine.Restarts != 1 || !endpointOf(t, got).Serves() {
		t.Errorf("%+v", got.Worker)
	}
	if !strings.Contains(r.lines.String(), "backoff: the engine has ended (signal: killed); it is started again after 1s\n") {
		t.Errorf("lines:\n%s", r.lines.String())
	}
	states := []string{fleet.WorkerStarting, fleet.WorkerServing, fleet.WorkerBackoff, fleet.WorkerStarting, fleet.WorkerServing}
	if got := r.store.states(); !slices.Equal(got, states) {
		t.Errorf("states: %v", got)
	}
}

// The worker ends while the engine waits for its next start.
func TestEndDuringBackoff(t *testing.T) {
	t.Parallel()
	r := begin(t, Config{URL: etcdtest.FreeAddress(t), Command: []string{"false"}, Restart: true}, &memory{})
	testkit.WaitFor(t, "the second pause", func() bool {
		return strings.HasSuffix(r.store.newest().Worker.Engine.Reason, "(exit status 1); it is started again after 2s")
	})
	r.stop()
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// An engine that does not answer is taken out, then ended although it ignores signals, and started again.
func TestHungEngineIsRestarted(t *testing.T) {
	t.Parallel()
	fields := map[string]any{"health": map[string]any{"interval": "50ms", "timeout": "100ms"}}
	r := beginEngine(t, Config{Restart: true, Fields: fields, HungAfter: 2 * time.Second, StopTimeout: 100 * time.Millisecond}, &memory{})
	_ = syscall.Kill(r.process().PID, syscall.SIGSTOP)
	if e := endpointOf(t, r.await(fleet.WorkerOut)); e.Serves() || !strings.HasSuffix(e.StateReason, "no answer within 100ms") {
		t.Errorf("%+v", e)
	}
	r.await(fleet.WorkerBackoff)
	got := r.await(fleet.WorkerServing).Worker
	if i := got.Incidents; len(i) != 1 || i[0].Kind != fleet.IncidentEngineHung || got.Engine.Restarts != 1 {
		t.Errorf("%+v", got)
	}
}

// An engine that was started by others is followed, and never stopped.
func TestEngineThatRunsAlreadyIsWatched(t *testing.T) {
	t.Parallel()
	address := etcdtest.FreeAddress(t)
	command := engine(address)
	other := testkit.Start(t, exec.Command(command[0], command[1:]...))
	testkit.WaitFor(t, "the engine", func() bool { return listens(address) })
	r := begin(t, Config{URL: address, HungAfter: 2 * time.Second, Fields: map[string]any{"health": map[string]any{"interval": "50ms", "timeout": "100ms"}}}, &memory{})
	r.await(fleet.WorkerServing)

	_ = other.Signal(syscall.SIGSTOP)
	testkit.WaitFor(t, "the incident", func() bool { return len(r.store.newest().Worker.Incidents) == 1 })
	if got := r.await(fleet.WorkerOut).Worker; got.Incidents[0].Kind != fleet.IncidentEngineHung {
		t.Errorf("%+v", got)
	}
	_ = other.Signal(syscall.SIGCONT)
	r.await(fleet.WorkerServing)

	_ = other.Stop(syscall.SIGTERM)
	if got := r.await(fleet.WorkerOut); endpointOf(t, got).Serves() || got.Worker.Incidents[1].Kind != fleet.IncidentEngineExit {
		t.Errorf("%+v", got.Worker)
	}
	testkit.Start(t, exec.Command(command[0], command[1:]...))
	r.await(fleet.WorkerServing)
	r.stop()
	if err := r.end(); err != nil || !listens(address) {
		t.Errorf("%v; the engine runs: %v", err, listens(address))
	}
}

// A URL of no engine is an error at once, if something serves it already.
func TestURLOfNoEngine(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	url := server.URL
	r := begin(t, Config{URL: url}, &memory{})
	if err := r.end(); err == nil || !strings.Contains(err.Error(), url+" is no engine that can be used: GET /v1/models answers 404") {
		t.Error(err)
	}
}

// A command is not started if another process has its URL.
func TestURLIsServedByAnotherProcess(t *testing.T) {
	t.Parallel()
	other := beginEngine(t, Config{}, &memory{})
	marker := filepath.Join(t.TempDir(), "started")
	r := begin(t, Config{URL: other.c.URL, Command: []string{"touch", marker}}, &memory{})
	if err := r.end(); err == nil || !strings.Contains(err.Error(), other.c.URL+" is served by another process already (vLLM ") || !strings.Contains(err.Error(), "leave the command out") {
		t.Error(err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the command was started")
	}
}

// An engine that cannot have its port ends, and its status is shown.
func TestPortIsTaken(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { // accepts connections, and closes them
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			c.Close()
		}
	}()
	address := ln.Addr().String()
	r := begin(t, Config{URL: address, Command: engine(address), Restart: true}, &memory{})
	testkit.WaitFor(t, "the reason", func() bool {
		return strings.HasPrefix(r.store.newest().Worker.Engine.Reason, "the engine has ended (exit status 98); it is started again after ")
	})
	if !strings.Contains(r.errors.String(), "engine | listen tcp "+address) {
		t.Errorf("%s", r.errors.String())
	}
	ln.Close()
	r.await(fleet.WorkerServing)
}

// A registry that refuses the worker costs no start of the engine.
func TestRefusedWorkerStartsNoEngine(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "started")
	r := begin(t, Config{URL: etcdtest.FreeAddress(t), Command: []string{"touch", marker}}, &memory{refuse: errors.New("the token is not valid")})
	if err := r.end(); err == nil || err.Error() != "cannot register the engine: the token is not valid" {
		t.Error(err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the engine was started")
	}
}

// A registry that refuses the worker later ends it without a wait for answers that never come.
func TestRefusedLater(t *testing.T) {
	t.Parallel()
	store := &memory{revoked: make(chan error)}
	r := beginEngine(t, Config{Drain: time.Hour}, store)
	store.setRefused(errors.New("another document has the place"))
	store.revoked <- store.refuse
	if err := r.end(); err == nil || err.Error() != "cannot register the engine: another document has the place" {
		t.Error(err)
	}
	if !strings.Contains(r.out.String(), "got SIGTERM") || strings.Contains(r.lines.String(), "drained") {
		t.Errorf("stopped? %s\n%s", r.out.String(), r.lines.String())
	}
}

// Abort kills the engine at once, whatever is in flight.
func TestAbortKillsTheEngine(t *testing.T) {
	t.Parallel()
	r := beginEngine(t, Config{}, &memory{inFlight: 1}, "-ignore")
	r.stop()
	r.await(fleet.WorkerDraining)
	r.Abort()
	r.endsWith(137, "by itself while it was drained (signal: killed)")
	if i := r.store.newest().Worker.Incidents; len(i) != 0 {
		t.Errorf("%+v", i)
	}
	if listens(r.c.URL) {
		t.Error("the engine is left")
	}
}

// While the kill command of an abort runs, the worker goes on: its pages and its documents wait for nothing.
func TestAbortHoldsNothingUp(t *testing.T) {
	t.Parallel()
	begun, end := filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "end")
	r := beginEngine(t, Config{KillCommand: "touch " + begun + "; while ! test -e " + end + "; do sleep 0.05; done"}, &memory{}, "-ignore")
	aborted := make(chan struct{})
	go func() {
		defer close(aborted)
		r.Abort()
	}()
	testkit.WaitFor(t, "the kill command", func() bool { _, err := os.Stat(begun); return err == nil })
	_ = r.process()
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-aborted
	<-r.ended
	if got := r.errors.String(); strings.Contains(got, "the kill command has failed") {
		t.Errorf("the worker has waited until it was killed: %s", got)
	}
}

// An engine that never answers is ended and started again, if that is wanted.
func TestStartTimeout(t *testing.T) {
	t.Parallel()
	r := begin(t, Config{URL: etcdtest.FreeAddress(t), Command: []string{"sleep", "1000"}, Restart: true, StartTimeout: 100 * time.Millisecond, StopTimeout: time.Second}, &memory{})
	got := r.await(fleet.WorkerBackoff)
	testkit.WaitFor(t, "another start", func() bool { return r.store.newest().Worker.Engine.Restarts >= 1 })
	if i := got.Worker.Incidents; len(i) != 1 || i[0].Kind != fleet.IncidentEngineHung || !strings.HasPrefix(i[0].Detail, "the engine has not answered within -start-timeout 100ms: waiting for ") {
		t.Errorf("%+v", i)
	}
	r.stop()
	if err := r.end(); err != nil {
		t.Error(err)
	}
}
