package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"colonnade/fleet"
)

const (
	gpuA = "GPU-5a2c9e44-0f5e-4f6b-8a59-4d1d3c0a7e11"
	gpuB = "GPU-0b1e55c2-9a7d-47c0-8a3d-51c2f0b7d022"
)

// workerPageOf returns the page of a worker.
func workerPageOf(t *testing.T, w *fleet.Worker) string {
	t.Helper()
	document, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"node": %q, "worker": %s, "gpus": {"reading": {"driver": "580.65.06", "gpus": [
		{"index": 0, "uuid": %q, "memory_total": 150754820096, "memory_used": 104857600000, "utilization": 85, "power": 512.4, "power_limit": 700, "temperature": 64, "clock_reasons": 32},
		{"index": 1, "uuid": %q, "lost": "the driver does not list it any more", "memory_used": 0}]},
		"engine": [{"uuid": %q, "gpu": %q}]}}`, w.Node, document, gpuA, gpuB, gpuA, gpuA)
}

// serveWorker serves the page of a worker, and sets its admin address.
func serveWorker(t *testing.T, w *fleet.Worker) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/worker", func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprint(answer, workerPageOf(t, w)) })
	w.Admin = serveHandler(t, mux)
}

// sampleWorkers are those of two machines, of which the first can be asked.
func sampleWorkers(t *testing.T) []*fleet.Worker {
	t.Helper()
	since := time.Now().Add(-3 * time.Hour)
	both := []fleet.WorkerGPU{
		{Index: 0, UUID: gpuA, Name: "NVIDIA H200", MemoryMiB: 143771}, {Index: 1, UUID: gpuB, Name: "NVIDIA H200", MemoryMiB: 143771},
	}
	first := &fleet.Worker{
		Node: "gpu-7-8000", Colo: "ams", Boot: "a1", Machine: "gpu-7", Driver: "580.65.06", GPUs: both,
		Engine: fleet.WorkerEngine{
			Endpoint: "gpu-7-8000", Pool: "llama-3.1-8b", URL: "http://10.0.0.7:8000", Software: "vLLM 0.11.0", State: fleet.WorkerServing, Since: since, GPUs: []string{gpuA},
		},
	}
	second := &fleet.Worker{
		Node: "gpu-7-8001", Colo: "ams", Boot: "b1", Machine: "gpu-7", Driver: "580.65.06", GPUs: both, Admin: "127.0.0.1:1",
		Engine: fleet.WorkerEngine{
			Endpoint: "gpu-7-8001", Pool: "llama-3.1-8b", URL: "http://10.0.0.7:8001", State: fleet.WorkerBackoff, Since: since, Restarts: 12, GPUs: []string{gpuB},
			Reason: "exit status 1; started again at 12:00:04",
		},
		Incidents: []fleet.Incident{{Number: 1, Time: time.Now().Add(-5 * time.Minute), Kind: fleet.IncidentEngineExit, Detail: "the engine has ended with exit status 1"}},
	}
	third := &fleet.Worker{
		Node: "gpu-8-8000", Colo: "ams", Boot: "c1", Machine: "gpu-8", NoGPUs: "no libnvidia-ml.so.1",
		Engine: fleet.WorkerEngine{Endpoint: "gpu-8-8000", URL: "http://10.0.0.8:8000", State: fleet.WorkerStarting},
	}
	serveWorker(t, first)
	return []*fleet.Worker{first, second, third}
}

func workerDocuments(t *testing.T, workers []*fleet.Worker) map[string]string {
	t.Helper()
	docs := map[string]string{}
	for _, w := range workers {
		value, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		docs[fleet.KindWorker.Key(w.Node)] = string(value)
	}
	return docs
}

const wantWorkers = `TIME  etcd ETCD

warnings:
- workers/gpu-7-8001: endpoints/ams/gpu-7-8001 of pool llama-3.1-8b has ended by itself, and is started again after a pause (12 restarts so far): exit status 1; started again at 12:00:04
    effect: none while other engines of the pool have room
    action: look at the engine's output, which is in the log of colonnade register

MACHINE  COLO        GPUS                    MEMORY  UTIL      POWER  ENGINES
gpu-7    ams   1/2 BROKEN  ███░░░░░░░  97.7/281 GiB   85%  512/700 W  1 serving, 1 BACKOFF
gpu-8    ams            0                                             1 starting

gpu-7 in ams  driver 580.65.06
  GPU  NAME                           MEMORY  UTIL      POWER  TEMP  ENGINES
    0  NVIDIA H200  ███████░░░  97.7/140 GiB   85%  512/700 W  64°C  ams/gpu-7-8000  slowed by heat
    1  NVIDIA H200                   140 GiB                         ams/gpu-7-8001  lost: the driver does not list it any more
  ENGINE          POOL          SOFTWARE     RESTARTS  GPUS  STATE
  ams/gpu-7-8000  llama-3.1-8b  vLLM 0.11.0         0  0     serving for 3h
  ams/gpu-7-8001  llama-3.1-8b                     12  1     BACKOFF for 3h
  BACKOFF  gpu-7-8001: exit status 1; started again at 12:00:04
  5m ago  gpu-7-8001: the engine has ended with exit status 1 (engine_exit)

gpu-8 in ams  no GPUs known: no libnvidia-ml.so.1
  ENGINE          POOL  RESTARTS  GPUS  STATE
  ams/gpu-8-8000  -            0  -     starting
`

func TestStatusOfWorkers(t *testing.T) {
	s := startEtcd(t)
	run(t, "", "status", "-workers").want(t, "no engine with a worker; colonnade register starts one")
	workers := sampleWorkers(t)
	put(t, s, workerDocuments(t, workers))
	if got := normalized(run(t, "", "status", "-workers").want(t)); got != wantWorkers {
		t.Errorf("got\n%s\nwant\n%s", got, wantWorkers)
	}
	page, err := os.ReadFile("../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sample, _ := strings.Cut(string(page), "```text\nMACHINE")
	sample, _, _ = strings.Cut(sample, "```\n")
	if sample == "" || !strings.Contains(wantWorkers, "\nMACHINE"+sample) {
		t.Errorf("the sample in docs/status.md is not what status -workers prints:\n%s", sample)
	}
	if out := run(t, "", "status", "-workers", "-pool", "llama-3.1-8b").want(t, "gpu-7 in ams"); strings.Contains(out, "gpu-8") {
		t.Errorf("-pool shows another:\n%s", out)
	}
	if out := run(t, "", "status", "-workers", "-colo", "fra").want(t, "no engine with a worker"); strings.Contains(out, "warning") {
		t.Errorf("-colo shows another's problem:\n%s", out)
	}
	var state workersState
	if err := json.Unmarshal([]byte(run(t, "", "status", "-workers", "-json").want(t)), &state); err != nil {
		t.Fatal(err)
	}
	if len(state.Machines) != 2 || len(state.Machines[0].GPUs) != 2 || len(state.Machines[0].Workers) != 2 || len(state.Problems) != 1 {
		t.Fatalf("got %+v", state)
	}
	g, w := state.Machines[0].GPUs[0], state.Machines[0].Workers[1]
	if g.UUID != gpuA || g.MemoryMiB != 143771 || g.Live == nil || *g.Live.Power != 512.4 || len(g.Engines) != 1 || w.Node != "gpu-7-8001" || w.Engine.Restarts != 12 || w.Error == "" {
		t.Errorf("got %+v\n%+v", g, w)
	}
}

// A node at an address, as of serve, knows its workers; a worker is known at its own. Neither needs etcd.
func TestStatusOfWorkersWithoutEtcd(t *testing.T) {
	workers := sampleWorkers(t)
	var documents []string
	for key, value := range workerDocuments(t, workers) {
		documents = append(documents, fmt.Sprintf("%q: %s", key, value))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/fleet", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"documents": {"models/m": {"pool": "p"}, %s}}`, strings.Join(documents, ", "))
	})
	node := serveHandler(t, mux)
	run(t, "", "status", "-workers", "-admin", node).want(t, "slowed by heat", "gpu-8 in ams", "1 serving, 1 BACKOFF")
	out := run(t, "", "status", "-workers", "-admin", workers[0].Admin).want(t, "slowed by heat", "ams/gpu-7-8000")
	if strings.Contains(out, "gpu-8") || strings.Contains(out, "no live figures") {
		t.Errorf("one worker shows\n%s", out)
	}
	run(t, "", "status", "-workers", "-admin", node+",127.0.0.1:1").fail(t, "127.0.0.1:1: cannot be asked: ", "gpu-8 in ams", "1 error found")
}

// An address that belongs to another worker by now, or to another machine's, gives no figures.
func TestFiguresOfAnotherWorker(t *testing.T) {
	s := startEtcd(t)
	workers := sampleWorkers(t)
	workers[1].Admin = workers[0].Admin
	restarted := *workers[0]
	restarted.Boot = "a0"
	put(t, s, workerDocuments(t, []*fleet.Worker{&restarted, workers[1]}))
	out := run(t, "", "status", "-workers").want(t, "no live figures: gpu-7-8000: another worker answers at "+workers[0].Admin)
	if strings.Contains(out, "97.7") {
		t.Errorf("figures of another process are shown:\n%s", out)
	}
}

// On a terminal of 80 columns, no line is longer, and what matters stands.
func TestWorkersFitTheTerminal(t *testing.T) {
	t.Parallel()
	workers := sampleWorkers(t)
	figures := []liveWorker{{gpus: []gpuFigures{{UUID: gpuA, MemoryTotal: 1 << 37, MemoryUsed: 1 << 36}}}, {}, {}}
	state := &workersState{Time: time.Now(), Etcd: "http://127.0.0.1:2379", Machines: machinesOf(workers, figures)}
	for _, width := range []int{60, 80, 120, 200} {
		out := &screen{width: width, colour: true}
		state.draw(out, "")
		plain := text.StripEscape(out.String())
		for line := range strings.Lines(plain) {
			if n := text.StringWidthWithoutEscSequences(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns on a terminal of %d: %s", n, width, line)
			}
		}
		for _, want := range []string{"64/128", "BACKOFF", "gpu-8 in ams"} {
			if !strings.Contains(plain, want) {
				t.Errorf("no %q on a terminal of %d columns:\n%s", want, width, plain)
			}
		}
	}
}

// Of many machines, those that need attention have details.
func TestManyMachines(t *testing.T) {
	t.Parallel()
	var workers []*fleet.Worker
	for n := range 20 {
		name := fmt.Sprintf("gpu-%02d", n)
		w := &fleet.Worker{Node: name, Colo: "ams", Machine: name, Engine: fleet.WorkerEngine{Endpoint: name, State: fleet.WorkerServing}}
		if n == 17 {
			w.Engine.State = fleet.WorkerOut
		}
		workers = append(workers, w)
	}
	out := &screen{}
	(&workersState{Machines: machinesOf(workers, make([]liveWorker, len(workers)))}).draw(out, "")
	if got := out.String(); !strings.Contains(got, "gpu-17 in ams") || !strings.Contains(got, "gpu-06 in ams") || strings.Contains(got, "gpu-07 in ams") ||
		!strings.Contains(got, "12 machines without details") {
		t.Errorf("got\n%s", got)
	}
}

// status -pool names the GPUs below an endpoint.
func TestGPUsOfAPool(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{
		"colos/ams": "{}", "models/m": "pool: chat\n", "endpoints/ams/gpu-1": "url: http://10.0.0.1:8000\npool: chat\n",
		"workers/w": `{"colo":"ams","boot":"x","machine":"gpu-7","engine":{"endpoint":"gpu-1","url":"http://h:1","state":"serving","gpus":["GPU-b","MIG-1"]},` +
			`"gpus":[{"index":2,"uuid":"GPU-b"},{"index":0,"uuid":"GPU-a","mig":["MIG-1"]}]}`,
	})
	pooled("ams-1", busyPage).register(t, s, "servers/ams/ams-1")
	run(t, "", "status", "-pool", "chat").want(t, "auto 2-64; GPU 0,2 of gpu-7\n")
	if out := run(t, "", "status").want(t); strings.Contains(out, "gpu-7") {
		t.Errorf("without -pool, it shows GPUs:\n%s", out)
	}
}
