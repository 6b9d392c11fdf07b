package worker

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	"colonnade/worker/process"
)

// The pool is the operator's, else that of the model's document, else as serve names it.
func TestPoolOfTheEngine(t *testing.T) {
	t.Parallel()
	f := func(c Config, store *memory, want string) {
		t.Helper()
		r := beginEngine(t, c, store, "-models", "tiny")
		got := r.store.newest()
		if e := endpointOf(t, got); e.Pool != want || got.Worker.Engine.Pool != want {
			t.Errorf("pool %s, want %s", e.Pool, want)
		}
		if c.NoModels != (len(got.Models) == 0) {
			t.Errorf("models: %v", got.Models)
		}
	}
	f(Config{Pool: "mine", NoModels: true}, &memory{pools: map[string]string{"tiny": "documented"}}, "mine")
	f(Config{}, &memory{pools: map[string]string{"tiny": "documented"}}, "documented")
	f(Config{ID: "gpu-0"}, &memory{}, "tiny")
}

// A broken GPU takes the engine out for as long as it is broken. Incidents are numbered, and only the last ones are kept.
func TestGPUsTakeTheEngineOut(t *testing.T) {
	t.Parallel()
	reports := make(chan GPUState)
	gpu := prometheus.NewGauge(prometheus.GaugeOpts{Name: "inference_gpu_test"})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan EngineProcess, 1)
	source := GPUSource{
		Run: func(ctx context.Context, engine func() EngineProcess, report func(GPUState)) {
			for {
				select {
				case g := <-reports:
					report(g)
					select {
					case seen <- engine():
					default:
					}
				case <-ctx.Done():
					return
				}
			}
		},
		Metrics: gpu, Live: func() any { return map[string]int{"temperature": 61} },
	}
	r := beginEngine(t, Config{GPUs: source, Admin: ln}, &memory{})
	page := func(path string, status int, want ...string) {
		t.Helper()
		got, body := testkit.Get("http://" + ln.Addr().String() + path)
		for _, text := range want {
			if got != status || !strings.Contains(body, text) {
				t.Errorf("%s: %d, without %q:\n%s", path, got, text, body)
			}
		}
	}
	page("/health/ready", http.StatusOK, "ready")
	page("/metrics", http.StatusOK, "inference_gpu_test 0", `colonnade_worker_state{state="serving"} 1`, `colonnade_worker_state{state="out"} 0`)

	xid := fleet.Incident{Kind: fleet.IncidentXid, GPU: "GPU-1", Detail: "Xid 79"}
	reports <- GPUState{Driver: "580.1", GPUs: []fleet.WorkerGPU{{UUID: "GPU-1", Problem: "lost"}}, Engine: []string{"GPU-1"}, Out: "GPU 0 has fallen off the bus",
		Incidents: []fleet.Incident{xid}}
	got := r.await(fleet.WorkerOut)
	if e := endpointOf(t, got); e.Serves() || e.StateReason != "GPU 0 has fallen off the bus" {
		t.Errorf("%+v", e)
	}
	if w := got.Worker; w.Driver != "580.1" || w.Engine.GPUs[0] != "GPU-1" || w.GPUs[0].Problem != "lost" || w.Incidents[0].Number != 1 || w.Incidents[0].Time.IsZero() {
		t.Errorf("%+v", w)
	}
	if p := <-seen; p.PID == 0 || p.URL != r.c.URL || p.Pool != "tiny" || p.Endpoint != r.c.ID {
		t.Errorf("%+v", p)
	}
	page("/health/ready", http.StatusServiceUnavailable, "out: GPU 0 has fallen off the bus")
	page("/debug/worker", http.StatusOK, `"node": "gpu-1"`, `"driver": "580.1"`, `"temperature": 61`, "concurrency: 0")
	page("/metrics", http.StatusOK, `colonnade_worker_incidents_total{kind="gpu_xid"} 1`, `colonnade_worker_state{state="out"} 1`, "colonnade_worker_restarts_total 0")

	reports <- GPUState{Incidents: make20(xid)}
	got = r.await(fleet.WorkerServing)
	if i := got.Worker.Incidents; len(i) != fleet.MaxIncidents || i[len(i)-1].Number != 21 {
		t.Errorf("%d incidents: %+v", len(i), i)
	}
	if len(r.store.all[0].Worker.Incidents) > 0 {
		t.Error("an older registration was modified")
	}
}

func make20(i fleet.Incident) (all []fleet.Incident) {
	for range 20 {
		all = append(all, i)
	}
	return all
}

// When an engine is out, and when it hangs.
func TestFailure(t *testing.T) {
	t.Parallel()
	began := time.Now()
	silent, refused := fmt.Errorf("no answer"), fmt.Errorf("x: %w", syscall.ECONNREFUSED)
	f := func(hungAfter time.Duration, err error, after time.Duration, out, hung bool) {
		t.Helper()
		x := failure{hungAfter: hungAfter}
		x.checked(began, began, err)
		x.checked(began.Add(time.Second), began.Add(after), err)
		if x.out() != out || x.hung() != hung {
			t.Errorf("%v for %v of %v: out %v, hung %v", err, after, hungAfter, x.out(), x.hung())
		}
		x.checked(began, began.Add(after), nil)
		if x.out() || x.hung() || x.failing() {
			t.Errorf("well: %+v", x)
		}
	}
	f(time.Minute, silent, 29*time.Second, false, false)
	f(time.Minute, silent, 30*time.Second, true, false)
	f(time.Minute, silent, time.Minute, true, true)
	f(time.Minute, refused, 2*time.Second, true, false)
	f(0, silent, 59*time.Second, false, false)
	f(0, silent, time.Hour, true, false)
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	f := func(c Config, want string) {
		t.Helper()
		c.Registry = (&memory{}).registry()
		_, err := New(c)
		if err == nil {
			err = c.CheckFields()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	f(Config{URL: "ftp://x"}, "cannot use the URL of an engine")
	f(Config{URL: etcdtest.FreeAddress(t), Fields: map[string]any{"weight": 0}}, "weight: 0: must be at least 1")
	f(Config{URL: etcdtest.FreeAddress(t), Pool: "a b"}, "pool")
}

// Texts of others that documents do not accept are made to fit: a document that is refused would end the engine.
func TestTextsFitDocuments(t *testing.T) {
	t.Parallel()
	odd := "line\n\x1b[31m" + strings.Repeat("long ", 1000)
	reported := make(chan struct{})
	source := GPUSource{Run: func(ctx context.Context, _ func() EngineProcess, report func(GPUState)) {
		report(GPUState{
			Driver: odd, None: odd, Out: odd, GPUs: []fleet.WorkerGPU{{UUID: "GPU-1", Name: odd, Problem: odd}},
			Incidents: []fleet.Incident{{Kind: fleet.IncidentXid, Detail: odd}},
		})
		close(reported)
		<-ctx.Done()
	}}
	r := begin(t, Config{URL: etcdtest.FreeAddress(t), GPUs: source}, &memory{}) // checks all documents
	<-reported
	if got := r.store.newest().Worker; !strings.HasPrefix(got.NoGPUs, "line [31mlong long ") || len(got.Incidents) != 1 {
		t.Errorf("%+v", got)
	}
	s := state{backoff: odd}
	if s.derive(); len(s.worker.Engine.Reason) > document.MaxText || strings.Contains(s.worker.Engine.Reason, "\n") {
		t.Errorf("%q", s.worker.Engine.Reason)
	}
}

// A process that outlives SIGKILL, as one that hangs in a driver, does not keep the worker from noticing that it is to end.
func TestProcessThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if exited(ctx, &process.Process{}) {
		t.Error("it has ended")
	}
}

// A command is shown without its keys.
func TestCommandIsShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	f := func(want string, command ...string) {
		t.Helper()
		if got := strings.Join(withoutSecrets(command), " "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f("vllm serve m --tokenizer t --max-num-batched-tokens 8", "vllm", "serve", "m", "--tokenizer", "t", "--max-num-batched-tokens", "8")
	f("vllm serve m --api-key … --port 8000", "vllm", "serve", "m", "--api-key", "sk-1", "--port", "8000")
	f("x --api_key=… --hf-token=… -api-key", "x", "--api_key=sk-1", "--hf-token=hf_1", "-api-key")
	f("docker run --env=HF_TOKEN=… --env=A=b", "docker", "run", "--env=HF_TOKEN=hf_1=x", "--env=A=b")
	f("sh -c A=b HF_TOKEN=…", "sh", "-c", "A=b HF_TOKEN=hf_1 vllm serve m")
	f("docker run -e HF_TOKEN=… -e HF_TOKEN -e N=1 key", "docker", "run", "-e", "HF_TOKEN=hf_1", "-e", "HF_TOKEN", "-e", "N=1", "key")
}
