package proctest

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/internal/etcdtest"
	"colonnade/internal/faultproxy"
	"colonnade/internal/oracle"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

// Worker is a process of colonnade register, and the simulated engine that it has started, a process too. It keeps its address and arguments
// when it is started again.
type Worker struct {
	*testkit.Process

	Name  string
	URL   string // of the engine
	Admin string

	fleet *Fleet
	run   []string          // the command line without that of the engine
	start []string          // the command line of the engine
	etcd  *faultproxy.Proxy // its own way to etcd

	mu   sync.Mutex // guards the field below
	last simengine.Stats
}

// engineKind is a kind of engine that says how many slots it has.
const engineKind = "sglang"

// StartWorker starts a worker in the first colo with an engine that serves the models of all pools, and does not wait for it. args are further
// flags of colonnade register.
func (f *Fleet) StartWorker(name string, args ...string) *Worker {
	f.T.Helper()
	w := &Worker{Name: name, fleet: f, Admin: etcdtest.FreeAddress(f.T), etcd: testkit.NewProxy(f.T, f.Etcd.Address)}
	address := etcdtest.FreeAddress(f.T)
	w.URL = "http://" + address
	program := testkit.Binary(f.T, "colonnade")
	w.run = append([]string{
		program, "register", "-etcd", "http://" + w.etcd.Address, "-colo", f.config.Colos[0], "-node", name, "-url", w.URL, "-admin", w.Admin, "-drain", "1m",
	}, args...)
	w.start = []string{
		program, "engine", "-listen", address, "-kind", engineKind, "-models", strings.Join(f.Pools(), ","), "-slots", strconv.Itoa(f.config.Slots),
		"-ttft", f.config.TTFT.String(), "-itl", f.config.ITL.String(),
	}
	f.T.Cleanup(func() { w.killEngine() })
	w.Start()
	f.Workers = append(f.Workers, w)
	return w
}

// Start starts the worker with its engine, also after it has ended.
func (w *Worker) Start() { w.launch(slices.Concat(w.run, []string{"--"}, w.start)) }

// Watch starts the worker for an engine that runs. args are further flags, which override earlier ones.
func (w *Worker) Watch(args ...string) { w.launch(slices.Concat(w.run, args)) }

func (w *Worker) launch(command []string) {
	w.fleet.T.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), w.fleet.config.Environment...)
	w.Process = testkit.Start(w.fleet.T, cmd)
}

// Kill ends the worker at once (SIGKILL), and not its engine.
func (w *Worker) Kill() { _ = w.Stop(syscall.SIGKILL) }

// CutEtcd has everything between the worker and etcd lost, without the end of a connection.
func (w *Worker) CutEtcd() { w.etcd.Swallow() }

// HealEtcd ends CutEtcd. Connections that lost bytes are closed.
func (w *Worker) HealEtcd() { w.etcd.Heal() }

// EnginePID returns the process of the engine; 0 if none runs.
func (w *Worker) EnginePID() int {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		content, err := os.ReadFile(path)
		if err != nil || strings.TrimRight(string(content), "\x00") != strings.Join(w.start, "\x00") {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		return pid
	}
	return 0
}

// KillEngine ends the engine at once (SIGKILL).
func (w *Worker) KillEngine() {
	w.fleet.T.Helper()
	if !w.killEngine() {
		w.fleet.T.Errorf("no engine of %s runs", w.Name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = simengine.Stats{}
}

func (w *Worker) killEngine() bool {
	pid := w.EnginePID()
	return pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil
}

// Stats returns the engine's counts; while it does not answer, those of its last answer.
func (w *Worker) Stats() simengine.Stats {
	status, page := testkit.Get(w.URL + "/stats")
	w.mu.Lock()
	defer w.mu.Unlock()
	var s simengine.Stats
	if status == http.StatusOK && json.Unmarshal([]byte(page), &s) == nil {
		w.last = s
	}
	return w.last
}

// Follow keeps asking for the engine's counts until the test ends, so that Stats has those of a moment before the engine's end.
func (w *Worker) Follow() {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-tick.C:
				_ = w.Stats()
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	})
	w.fleet.T.Cleanup(func() { cancel(); done.Wait() })
}

// WaitServing waits until the engine was sent n requests since it was started.
func (w *Worker) WaitServing(n uint64) {
	w.fleet.T.Helper()
	testkit.WaitFor(w.fleet.T, w.Name+"'s engine to be sent requests", func() bool { return w.Stats().Requests >= n })
}

// Ended reports whether the worker's process has ended.
func (w *Worker) Ended() bool { return w.Signal(syscall.Signal(0)) != nil }

// Document returns a document in etcd; "" if there is none.
func (f *Fleet) Document(key string) string {
	f.T.Helper()
	client := f.Etcd.Client(f.T)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	answer, err := client.Get(ctx, etcd.DefaultPrefix+key)
	if err != nil {
		f.T.Fatal(err)
	}
	if len(answer.Kvs) == 0 {
		return ""
	}
	return string(answer.Kvs[0].Value)
}

// workerStats returns the loads of the workers' engines that run.
func (f *Fleet) workerStats() (all []oracle.EngineStats) {
	for _, w := range f.Workers {
		if w.EnginePID() != 0 {
			s := w.Stats()
			all = append(all, oracle.EngineStats{Name: w.Name, Running: s.Running, Waiting: s.Waiting})
		}
	}
	return all
}
