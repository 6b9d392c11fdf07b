package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"colonnade/fleet"
	"colonnade/internal/nvmltest"
	"colonnade/internal/testkit"
	"colonnade/worker"
	"colonnade/worker/gpu"
)

// engine starts a process in the place of an engine, with a child in the place of what computes on a GPU, and returns the PIDs of both.
func engine(t testing.TB, env ...string) (leader, computes int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	if _, err := fmt.Fscan(out, &computes); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, computes
}

// watch runs a source for an engine, and returns what it reports.
func watch(t *testing.T, e worker.EngineProcess) chan worker.GPUState {
	t.Helper()
	return watchAs(t, Auto, e)
}

// watchAs does so for an engine with GPUs that the operator has named.
func watchAs(t *testing.T, devices string, e worker.EngineProcess) chan worker.GPUState {
	t.Helper()
	s := newSource(Config{Devices: devices, Program: nvmltest.Program(t), Library: nvmltest.Library(t), Interval: 20 * time.Millisecond})
	s.reader.pause = func(int) time.Duration { return 10 * time.Millisecond }
	states := make(chan worker.GPUState, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx, func() worker.EngineProcess { return e }, func(s worker.GPUState) { states <- s })
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return states
}

func nextState(t *testing.T, states chan worker.GPUState, what string, is func(worker.GPUState) bool) worker.GPUState {
	t.Helper()
	late := time.After(testkit.Timeout)
	for {
		select {
		case s := <-states:
			if is(s) {
				return s
			}
		case <-late:
			t.Fatalf("no state with %s", what)
		}
	}
}

func isUsed(s worker.GPUState) bool { return len(s.Engine) > 0 }

// onHost skips a test of PIDs in a container, where the driver's lists are not believed.
func onHost(t *testing.T) {
	t.Helper()
	if !gpu.Proc("/proc").HasHostPIDs() {
		t.Skip("needs the PIDs of the host; this is a container")
	}
}

// The GPU of an engine is that of its process tree. An Xid which needs a reset takes the engine out; one of the application does not.
func TestEngineIsTakenOutByAnXid(t *testing.T) {
	onHost(t)
	m := nvmltest.NewMachine(t, nvmltest.A100MIG)
	leader, computes := engine(t)
	m.Remove("process ")
	m.Add(fmt.Sprintf("process 1 %d 3000000000 4294967295 4294967295", computes), "process 0 1 1000 1 0")
	states := watch(t, worker.EngineProcess{PID: leader})
	s := nextState(t, states, "an engine's GPU", isUsed)
	if !slices.Equal(s.Engine, []string{nvmltest.A100Other}) || s.Out != "" || s.Driver != "550.90.07" || s.None != "" || len(s.Incidents) != 0 {
		t.Errorf("%+v", s)
	}
	want := []fleet.WorkerGPU{
		{Index: 0, UUID: nvmltest.A100First, Name: "NVIDIA A100-SXM4-80GB", MemoryMiB: 81920, MIG: []string{nvmltest.A100Part1, nvmltest.A100Part2}},
		{Index: 1, UUID: nvmltest.A100Other, Name: "NVIDIA A100-SXM4-80GB", MemoryMiB: 81920},
	}
	if fmt.Sprint(s.GPUs) != fmt.Sprint(want) {
		t.Errorf("GPUs %+v", s.GPUs)
	}

	m.Add("event 1 1 8 31", "event 2 0 8 48") // the second is on the GPU of others
	s = nextState(t, states, "an incident", func(s worker.GPUState) bool { return len(s.Incidents) > 0 })
	if s.Out != "" || len(s.Incidents) != 1 || s.Incidents[0].Kind != fleet.IncidentXid || !strings.Contains(s.Incidents[0].Detail, "Xid 31, GPU memory page fault") {
		t.Errorf("after an Xid of the application: %+v", s)
	}
	m.Add("event 3 1 8 119")
	s = nextState(t, states, "a reason to be out", func(s worker.GPUState) bool { return s.Out != "" })
	if reason := "GPU 1 (" + nvmltest.A100Other + "): Xid 119, GSP RPC timeout; it needs a reset"; s.Out != reason || s.GPUs[1].Problem != reason {
		t.Errorf("out because of %q, GPU %q", s.Out, s.GPUs[1].Problem)
	}
	if len(s.Incidents) != 1 || s.Incidents[0].GPU != nvmltest.A100Other {
		t.Errorf("incidents %+v", s.Incidents)
	}
	if s.GPUs[0].Problem == "" {
		t.Error("the GPU of others is well")
	}

	// The engine ends, and uses no GPU any more. It is out all the same, and after the driver has been lost, too.
	m.Remove("process 1")
	m.Add("die nvmlDeviceGetTemperature x")
	s = nextState(t, states, "no GPUs", func(s worker.GPUState) bool { return s.None != "" })
	if s.Out == "" || !slices.Equal(s.Engine, []string{nvmltest.A100Other}) {
		t.Errorf("without a driver: %+v", s)
	}
	m.Remove("die ")
	if s = nextState(t, states, "GPUs", func(s worker.GPUState) bool { return s.None == "" }); s.Out == "" {
		t.Errorf("with the driver again: %+v", s)
	}
}

// An engine whose GPU is lost is out for as long as it is.
func TestLostGPUTakesOut(t *testing.T) {
	onHost(t)
	m := nvmltest.NewMachine(t, nvmltest.H200)
	leader, computes := engine(t)
	m.Add(fmt.Sprintf("process 0 %d 3000000000 4294967295 4294967295", computes))
	states := watch(t, worker.EngineProcess{PID: leader})
	nextState(t, states, "an engine's GPU", isUsed)
	m.Add("gpu 0 nvmlDeviceGetHandleByIndex_v2 status 15")
	s := nextState(t, states, "a reason to be out", func(s worker.GPUState) bool { return s.Out != "" })
	if !strings.Contains(s.Out, "is lost") || len(s.Incidents) != 1 || s.Incidents[0].Kind != fleet.IncidentGPULost {
		t.Errorf("%+v", s)
	}
	m.Remove("gpu 0 nvmlDeviceGetHandleByIndex_v2")
	nextState(t, states, "no reason to be out", func(s worker.GPUState) bool { return s.Out == "" })
}

// In a container, where the driver has other PIDs, the environment of the engine says which GPUs it uses.
func TestVisibleDevices(t *testing.T) {
	onHost(t)
	m := nvmltest.NewMachine(t, nvmltest.A100MIG)
	m.Remove("process ")
	f := func(value string, want ...string) {
		t.Helper()
		leader, _ := engine(t, "CUDA_VISIBLE_DEVICES="+value)
		states := watch(t, worker.EngineProcess{PID: leader})
		if s := nextState(t, states, "an engine's GPU", isUsed); !slices.Equal(s.Engine, want) {
			t.Errorf("%q: %q, want %q", value, s.Engine, want)
		}
	}
	f("1", nvmltest.A100Other)
	f(nvmltest.A100Part2, nvmltest.A100Part2)
}

// Names of GPUs by the operator count more than what is found.
func TestDevices(t *testing.T) {
	m := nvmltest.NewMachine(t, nvmltest.A100MIG)
	m.Remove("process ")
	f := func(devices string, want ...string) {
		t.Helper()
		states := watchAs(t, devices, worker.EngineProcess{})
		if s := nextState(t, states, "an engine's GPU", isUsed); !slices.Equal(s.Engine, want) {
			t.Errorf("%q: %q, want %q", devices, s.Engine, want)
		}
	}
	f("1", nvmltest.A100Other)
	f("MIG-22,GPU-4c", nvmltest.A100Part2, nvmltest.A100Other)
	f(All, nvmltest.A100Part1, nvmltest.A100Part2, nvmltest.A100Other)
	for value, ok := range map[string]bool{Auto: true, All: true, Off: true, "0": true, "0,1": true, "GPU-aa,MIG-b": true, "": false, "0,": false, "-1": false, "some": false} {
		if err := CheckDevices(value); (err == nil) != ok {
			t.Errorf("%q: %v", value, err)
		}
	}
	if off := Source(Config{Devices: Off}); off.Run != nil || off.Metrics != nil || off.Live != nil {
		t.Error("GPUs are read although they are switched off")
	}
}

// The process of an engine that others have started is the one that listens at its port.
func TestEngineOfOthers(t *testing.T) {
	onHost(t)
	m := nvmltest.NewMachine(t, nvmltest.H200)
	m.Add(fmt.Sprintf("process 0 %d 3000000000 4294967295 4294967295", os.Getpid()))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	states := watch(t, worker.EngineProcess{URL: "http://" + l.Addr().String()})
	nextState(t, states, "the engine's GPU", isUsed)
	// The command of the worker may only ask a service to start the engine.
	leader, _ := engine(t)
	states = watch(t, worker.EngineProcess{PID: leader, URL: "http://" + l.Addr().String()})
	nextState(t, states, "the engine's GPU beside a command", isUsed)
}

// syncBuffer is a log that tests read while it is written.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Without GPUs, the worker says so once.
func TestNoGPUsIsSaidOnce(t *testing.T) {
	var log syncBuffer
	s := newSource(Config{Program: script(t, `echo '{"reading":{"none":"no driver"}}'`), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	rounds := make(chan int, 100)
	s.reader.pause = func(n int) time.Duration { rounds <- n; return 10 * time.Millisecond }
	ctx, cancel := context.WithCancel(t.Context())
	var reported []worker.GPUState
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx, func() worker.EngineProcess { return worker.EngineProcess{} }, func(s worker.GPUState) { reported = append(reported, s) })
	}()
	for range 3 {
		<-rounds
	}
	cancel()
	<-ended
	if len(reported) != 1 || reported[0].None != "no driver" || reported[0].Out != "" {
		t.Errorf("%+v", reported)
	}
	if n := strings.Count(log.String(), `reason="no driver"`); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
}

func TestMetrics(t *testing.T) {
	onHost(t)
	m := nvmltest.NewMachine(t, nvmltest.A100MIG)
	leader, computes := engine(t)
	m.Remove("process ")
	m.Add(fmt.Sprintf("process 0 %d 39700000000 1 0", computes), fmt.Sprintf("process 1 %d 3000000000 4294967295 4294967295", computes))
	c := Config{Program: nvmltest.Program(t), Library: nvmltest.Library(t), Interval: 20 * time.Millisecond}
	source := Source(c)
	ctx, cancel := context.WithCancel(context.Background())
	states, ended := make(chan worker.GPUState, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		e := worker.EngineProcess{PID: leader, Endpoint: "ams/e1", Pool: "p"}
		source.Run(ctx, func() worker.EngineProcess { return e }, func(s worker.GPUState) { states <- s })
	}()
	defer func() {
		cancel()
		<-ended
	}()
	nextState(t, states, "an engine's GPU", isUsed)
	m.Add("event 1 1 8 31")
	nextState(t, states, "an incident", func(s worker.GPUState) bool { return len(s.Incidents) > 0 })

	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(source.Metrics)
	const first, other = `gpu="0"`, `UUID="` + nvmltest.A100Other + `",gpu="1"`
	want := `
# HELP inference_gpu_engine_memory_bytes Memory of the engine's processes on the GPU, if the driver can tell.
# TYPE inference_gpu_engine_memory_bytes gauge
inference_gpu_engine_memory_bytes{UUID="` + nvmltest.A100First + `",` + first + `} 3.97e+10
inference_gpu_engine_memory_bytes{` + other + `} 3e+09
# HELP inference_gpu_last_xid Number of the last Xid of the GPU since the worker began, 0 if there was none.
# TYPE inference_gpu_last_xid gauge
inference_gpu_last_xid{UUID="` + nvmltest.A100First + `",` + first + `} 0
inference_gpu_last_xid{` + other + `} 31
# HELP inference_gpu_memory_total_bytes Memory of the GPU, or of the MIG instance.
# TYPE inference_gpu_memory_total_bytes gauge
inference_gpu_memory_total_bytes{UUID="` + nvmltest.A100Part1 + `",` + first + `} 4.2302701568e+10
inference_gpu_memory_total_bytes{` + other + `} 8.589934592e+10
# HELP inference_gpu_power_watts Power draw of the GPU.
# TYPE inference_gpu_power_watts gauge
inference_gpu_power_watts{UUID="` + nvmltest.A100First + `",` + first + `} 212
inference_gpu_power_watts{` + other + `} 61
# HELP inference_gpu_sm_clock_hertz Clock of the streaming multiprocessors.
# TYPE inference_gpu_sm_clock_hertz gauge
inference_gpu_sm_clock_hertz{UUID="` + nvmltest.A100First + `",` + first + `} 1.41e+09
inference_gpu_sm_clock_hertz{` + other + `} 2.1e+08
# HELP inference_gpu_utilization_percent Share of the last sample period in which something ran on the GPU; a divided GPU (MIG) has none.
# TYPE inference_gpu_utilization_percent gauge
inference_gpu_utilization_percent{` + other + `} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "inference_gpu_engine_memory_bytes", "inference_gpu_last_xid",
		"inference_gpu_memory_total_bytes", "inference_gpu_power_watts", "inference_gpu_sm_clock_hertz", "inference_gpu_utilization_percent"); err != nil {
		t.Error(err)
	}
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	text := recorder.Body.String()
	for _, line := range []string{
		`inference_gpu_info{UUID="` + nvmltest.A100Other + `",driver="550.90.07",endpoint="ams/e1",gpu="1",modelName="NVIDIA A100-SXM4-80GB",pool="p"} 1`,
		`inference_gpu_clocks_event_reason{` + other + `,reason="gpu_idle"} 1`, `inference_gpu_clocks_event_reason{` + other + `,reason="sw_power_cap"} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
	page, err := json.Marshal(source.Live())
	if err != nil || !bytes.Contains(page, []byte(nvmltest.A100Part1)) || !bytes.Contains(page, []byte(`"engine":[{"uuid":`)) {
		t.Errorf("%v\n%s", err, page)
	}
}

func TestLocalPort(t *testing.T) {
	f := func(address string, want int, ok bool) {
		t.Helper()
		if port, found := localPort(address); port != want && ok || found != ok {
			t.Errorf("%s: %d %v", address, port, found)
		}
	}
	f("http://127.0.0.1:8000", 8000, true)
	f("http://[::1]:8000/v1", 8000, true)
	f("localhost:8000", 8000, true)
	f("http://gpu-1:8000", 8000, true)
	f("https://gpu-1", 443, true)
	f("http://192.0.2.1:8000", 0, false) // of documentation, and no machine's
	f("", 0, false)
}
