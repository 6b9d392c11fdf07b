package nvml_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"colonnade/internal/nvmltest"
	"colonnade/internal/testkit"
	"colonnade/worker/gpu"
)

// program is a running colonnade-gpus.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer
	lines chan gpu.Line // closed when it has ended
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.Command(nvmltest.Program(t), args...), lines: make(chan gpu.Line, 1000)}
	p.stdin, _ = p.cmd.StdinPipe()
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(out)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		for range p.lines {
		}
		_ = p.cmd.Wait()
	})
	return p
}

func (p *program) read(out io.Reader) {
	defer close(p.lines)
	for s := bufio.NewScanner(out); s.Scan(); {
		line, err := gpu.ParseLine(s.Bytes())
		if err != nil {
			p.t.Errorf("%s: %v", s.Text(), err)
			return
		}
		p.lines <- line
	}
}

// next returns the next line that a test waits for.
func (p *program) next(what string, is func(gpu.Line) bool) gpu.Line {
	p.t.Helper()
	late := time.After(testkit.Timeout)
	for {
		select {
		case l, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the program has ended without %s", what)
			}
			if is(l) {
				return l
			}
		case <-late:
			p.t.Fatalf("no %s", what)
		}
	}
}

func (p *program) reading() gpu.Reading {
	p.t.Helper()
	return *p.next("reading", func(l gpu.Line) bool { return l.Reading != nil }).Reading
}

// waitEnd waits until the program has ended.
func (p *program) waitEnd(why string) {
	p.t.Helper()
	late := time.After(testkit.Timeout)
	for {
		select {
		case _, ok := <-p.lines:
			if !ok {
				return
			}
		case <-late:
			p.t.Fatalf("the program runs on after %s", why)
		}
	}
}

// of returns a pointer to a figure.
func of[T any](figure T) *T { return &figure }

func h200() gpu.GPU {
	return gpu.GPU{
		Index: 0, UUID: nvmltest.H200GPU, Name: "NVIDIA H200", MemoryTotal: 150754820096, MemoryUsed: 136365211648,
		Utilization: of[uint32](97), Power: of(612.345), PowerLimit: of(700.0), Temperature: of[uint32](58), MemoryTemperature: of[uint32](67),
		SMClock: of[uint32](1980), MemoryClock: of[uint32](3201), ClockReasons: of[uint64](4), ECC: &gpu.ECC{Corrected: 2},
		Processes: []gpu.Process{{PID: 4242, Memory: of[uint64](136200000000), GPUInstance: gpu.NoInstance, Compute: gpu.NoInstance}},
	}
}

func wantGPU(t *testing.T, got, want gpu.GPU) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		a, _ := json.MarshalIndent(got, "", " ")
		b, _ := json.MarshalIndent(want, "", " ")
		t.Errorf("got %s\nwant %s", a, b)
	}
}

func TestReading(t *testing.T) {
	nvmltest.NewMachine(t, nvmltest.H200)
	r := start(t, "-library", nvmltest.Library(t)).reading()
	if r.Driver != "570.133.20" || r.CUDA != "12.8" || r.None != "" || len(r.GPUs) != 1 || r.Time.IsZero() {
		t.Fatalf("%+v", r)
	}
	wantGPU(t, r.GPUs[0], h200())
}

// A driver without the newer functions is read without them, and without a call of one, which would end the process.
func TestOldDriver(t *testing.T) {
	nvmltest.NewMachine(t, strings.Replace(nvmltest.H200, "570.133.20", "384.183", 1))
	p := start(t, "-library", nvmltest.OldLibrary(t), "-interval", "10ms")
	r := p.reading()
	want := h200()
	want.MemoryTemperature, want.MemoryUsed = nil, want.MemoryUsed+595591168 // what is reserved is not known apart
	if r.Driver != "384.183" || r.CUDA != "12.8" {
		t.Errorf("driver %s, CUDA %s", r.Driver, r.CUDA)
	}
	wantGPU(t, r.GPUs[0], want)
	p.reading() // it lives on without events
}

func TestMIG(t *testing.T) {
	nvmltest.NewMachine(t, nvmltest.A100MIG)
	r := start(t, "-library", nvmltest.Library(t)).reading()
	if len(r.GPUs) != 2 {
		t.Fatalf("%+v", r)
	}
	first, other := r.GPUs[0], r.GPUs[1]
	if !first.MIG || first.Utilization != nil || other.MIG || len(other.Instances) != 0 || *other.Utilization != 0 {
		t.Errorf("%+v\n%+v", first, other)
	}
	if want := []gpu.Instance{
		{UUID: nvmltest.A100Part1, GPUInstance: 1, MemoryTotal: 42302701568, MemoryUsed: 39728447488},
		{UUID: nvmltest.A100Part2, GPUInstance: 2, MemoryTotal: 42302701568, MemoryUsed: 26214400},
	}; !reflect.DeepEqual(first.Instances, want) {
		t.Errorf("instances %+v", first.Instances)
	}
	if len(first.Processes) != 1 || first.Processes[0].GPUInstance != 1 || first.Processes[0].Compute != 0 {
		t.Errorf("processes %+v", first.Processes)
	}
}

// Readings that were recorded from GPUs: without ECC and with a process of an engine, and of a divided GPU with a driver that knows no recovery
// action.
func TestRecordedGPUs(t *testing.T) {
	nvmltest.NewMachine(t, nvmltest.RecordedA5000)
	r := start(t, "-library", nvmltest.Library(t)).reading()
	if r.Driver != "590.44.01" || r.CUDA != "13.1" || len(r.GPUs) != 2 {
		t.Fatalf("%+v", r)
	}
	wantGPU(t, r.GPUs[0], gpu.GPU{
		UUID: "GPU-12345678-aaaa-bbbb-cccc-0123456789ab", Name: "NVIDIA RTX A5000", MemoryTotal: 24564 << 20, MemoryUsed: 22437 << 20,
		Utilization: of[uint32](0), Power: of(6.41), PowerLimit: of(230.0), Temperature: of[uint32](13), SMClock: of[uint32](210), MemoryClock: of[uint32](405),
		ClockReasons: of[uint64](1),
		Processes:    []gpu.Process{{PID: 100477, Memory: of[uint64](22430 << 20), GPUInstance: gpu.NoInstance, Compute: gpu.NoInstance}},
	})
	nvmltest.NewMachine(t, nvmltest.RecordedA100)
	r = start(t, "-library", nvmltest.Library(t)).reading()
	if r.Driver != "535.54.03" || r.CUDA != "12.2" || len(r.GPUs) != 1 {
		t.Fatalf("%+v", r)
	}
	want := gpu.GPU{
		UUID: "GPU-513536b6-7d19-9063-b049-1e69664bb298", Name: "NVIDIA A100-SXM4-80GB", MemoryTotal: 81920 << 20, MemoryUsed: 50 << 20,
		Power: of(67.03), PowerLimit: of(500.0), Temperature: of[uint32](27), MemoryTemperature: of[uint32](44), SMClock: of[uint32](1275), MemoryClock: of[uint32](1593),
		ClockReasons: of[uint64](0), ECC: &gpu.ECC{}, MIG: true,
	}
	for i := range uint32(4) {
		want.Instances = append(want.Instances, gpu.Instance{
			UUID: fmt.Sprint("MIG-00000000-0000-5000-8000-00000000000", 3+i), GPUInstance: 3 + i, MemoryTotal: 19968 << 20, MemoryUsed: 12 << 20,
		})
	}
	wantGPU(t, r.GPUs[0], want)
}

func TestHealthFigures(t *testing.T) {
	m := nvmltest.NewMachine(t, nvmltest.H200)
	p := start(t, "-library", nvmltest.Library(t), "-interval", "10ms")
	f := func(line string, want func(*gpu.GPU) bool) {
		t.Helper()
		m.Set(line)
		p.next(line, func(l gpu.Line) bool { return l.Reading != nil && want(&l.Reading.GPUs[0]) })
	}
	f("gpu 0 ecc_uncorrected 3", func(g *gpu.GPU) bool { return g.ECC.Uncorrected == 3 })
	f("gpu 0 remap_pending 1", func(g *gpu.GPU) bool { return g.RemapPending && !g.RemapFailed })
	f("gpu 0 remap_failed 1", func(g *gpu.GPU) bool { return g.RemapFailed })
	f("gpu 0 recovery_action 2", func(g *gpu.GPU) bool { return g.RecoveryAction == 2 })
	f("gpu 0 recovery_action 0", func(g *gpu.GPU) bool { return g.RecoveryAction == 0 })
	f("gpu 0 nvmlDeviceGetPowerUsage status 16", func(g *gpu.GPU) bool { return g.RecoveryAction == 1 && g.Power == nil }) // RESET_REQUIRED
	f("gpu 0 nvmlDeviceGetPowerUsage status 4", func(g *gpu.GPU) bool { return g.PartlyForbidden && g.Lost == "" })        // NO_PERMISSION
	m.Remove("gpu 0 remap_")
	f("gpu 0 retired_pending 1", func(g *gpu.GPU) bool { return g.RetiredPending && !g.RemapPending })
	m.Remove("process ")
	f("gpu 0 utilization 0", func(g *gpu.GPU) bool { return len(g.Processes) == 0 && *g.Utilization == 0 })
}

// A GPU that does not answer keeps its name and UUID, and the others are read.
func TestLostGPU(t *testing.T) {
	m := nvmltest.NewMachine(t, nvmltest.A100MIG)
	p := start(t, "-library", nvmltest.Library(t), "-interval", "10ms")
	p.reading()
	for _, call := range []string{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetMemoryInfo_v2"} {
		m.Set("gpu 1 " + call + " status 15") // GPU_IS_LOST
		r := *p.next(call, func(l gpu.Line) bool { return l.Reading != nil && l.Reading.GPUs[1].Lost != "" }).Reading
		if lost := r.GPUs[1]; lost.UUID != nvmltest.A100Other || lost.Name == "" || !strings.Contains(lost.Lost, "lost") {
			t.Errorf("%+v", lost)
		}
		if r.GPUs[0].Lost != "" || r.GPUs[0].Power == nil {
			t.Errorf("the other: %+v", r.GPUs[0])
		}
		m.Remove("gpu 1 " + call)
		p.next("the GPU again", func(l gpu.Line) bool { return l.Reading != nil && l.Reading.GPUs[1].Lost == "" })
	}
}

func TestEvents(t *testing.T) {
	m := nvmltest.NewMachine(t, nvmltest.A100MIG)
	p := start(t, "-library", nvmltest.Library(t), "-interval", "50ms")
	p.reading()
	m.Add("event 1 1 8 79", "event 2 0 8 94 2 0", "event 3 1 2 0", "event 4 1 16 0", "event 5 1 8 31")
	for _, want := range []gpu.Event{
		{GPU: nvmltest.A100Other, Xid: 79, GPUInstance: gpu.NoInstance, Compute: gpu.NoInstance},
		{GPU: nvmltest.A100First, Xid: 94, GPUInstance: 2, Compute: 0},
		{GPU: nvmltest.A100Other, GPUInstance: gpu.NoInstance, Compute: gpu.NoInstance}, // a double-bit error
		{GPU: nvmltest.A100Other, Xid: 31, GPUInstance: gpu.NoInstance, Compute: gpu.NoInstance},
	} {
		got := *p.next("event", func(l gpu.Line) bool { return l.Event != nil }).Event
		if got.Time.IsZero() {
			t.Error("an event without a time")
		}
		if got.Time = want.Time; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// After a GPU was lost, as which drivers may report by the call that waits for events, the events of the others are still seen, and so is one of
// the GPU that does not say its UUID any more.
func TestEventsAfterAGPUIsLost(t *testing.T) {
	m := nvmltest.NewMachine(t, nvmltest.A100MIG)
	m.Add("fail nvmlEventSetWait_v2 15", "gpu 0 nvmlDeviceRegisterEvents status 15")
	p := start(t, "-library", nvmltest.Library(t), "-interval", "20ms")
	lost := p.next("the failure", func(l gpu.Line) bool { return l.Reading != nil && l.Reading.NoEvents != "" }).Reading.NoEvents
	if !strings.Contains(lost, "cannot be waited for") || !strings.Contains(lost, "NVML status 15") {
		t.Errorf("it says %q", lost)
	}
	m.Remove("fail ")
	m.Add("gpu 1 nvmlDeviceGetUUID status 15", "event 1 1 8 79")
	if e := p.next("event", func(l gpu.Line) bool { return l.Event != nil }).Event; e.GPU != nvmltest.A100Other || e.Xid != 79 {
		t.Errorf("%+v", e)
	}
	p.next("the end of the failure", func(l gpu.Line) bool { return l.Reading != nil && l.Reading.NoEvents == "" })
}

// While the only GPU is lost, nothing is used up by the tries to have its events again, which are seen once it is back.
func TestEventsAfterTheOnlyGPUIsBack(t *testing.T) {
	m := nvmltest.NewMachine(t, nvmltest.H200)
	p := start(t, "-library", nvmltest.Library(t), "-interval", "10ms")
	p.reading()
	m.Add("fail nvmlEventSetWait_v2 15", "gpu 0 nvmlDeviceRegisterEvents status 15")
	for range 50 {
		p.next("no events", func(l gpu.Line) bool {
			return l.Reading != nil && strings.Contains(l.Reading.NoEvents, "no GPU reports events any more")
		})
	}
	m.Remove("fail ")
	m.Remove("gpu 0 nvmlDeviceRegisterEvents")
	m.Add("event 1 0 8 79")
	if e := p.next("event", func(l gpu.Line) bool { return l.Event != nil }).Event; e.Xid != 79 {
		t.Errorf("%+v", e)
	}
}

// Without a library, a driver or a GPU, the program says so in one line, and does not crash.
func TestNothingToRead(t *testing.T) {
	dir := t.TempDir()
	noLibrary := filepath.Join(dir, "none.so")
	if err := os.WriteFile(filepath.Join(dir, "text.so"), []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(library, want string, machine ...string) {
		t.Helper()
		nvmltest.NewMachine(t, strings.Join(machine, "\n")+"\n")
		p := start(t, "-library", library, "-interval", "10ms")
		if r := p.reading(); !strings.Contains(r.None, want) || len(r.GPUs) != 0 {
			t.Errorf("%s: %q, want %q", library, r.None, want)
		}
	}
	f(noLibrary, "no driver of NVIDIA: "+noLibrary+": cannot open")
	f(filepath.Join(dir, "text.so"), "no driver of NVIDIA")
	f("libpthread.so.0", "has no nvmlInit_v2")
	f(nvmltest.Library(t), "the driver of the GPUs is not ready: it is not loaded (NVML status 9)", "init 9")
	f(nvmltest.Library(t), "another version than the driver that is loaded", "init 18")
	f(nvmltest.Library(t), "the driver sees no GPU", "driver 570.133.20", "count 0")
	p := start(t, "-library", noLibrary)
	p.reading()
	p.waitEnd("it had nothing to read")
}

// The program ends with its parent, which is to say with its standard input, also while the driver hangs.
func TestEndsWithItsParent(t *testing.T) {
	m := nvmltest.NewMachine(t, nvmltest.H200)
	for _, hangs := range []string{"", "hang nvmlDeviceGetPowerUsage x"} {
		p := start(t, "-library", nvmltest.Library(t), "-interval", "10ms")
		p.reading()
		if hangs != "" {
			m.Add(hangs)
		}
		_ = p.stdin.Close()
		p.waitEnd("its standard input has ended, " + hangs)
	}
}

func TestOnce(t *testing.T) {
	nvmltest.NewMachine(t, nvmltest.A100MIG)
	out, err := exec.Command(nvmltest.Program(t), "-once", "-library", nvmltest.Library(t)).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"driver 550.90.07, CUDA 12.4", "NVIDIA A100-SXM4-80GB", nvmltest.A100Other, nvmltest.A100Part2, "gpu_idle"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, err = exec.Command(nvmltest.Program(t), "-once", "-library", "none.so").CombinedOutput()
	if err == nil || !bytes.HasPrefix(out, []byte("colonnade-gpus: no driver of NVIDIA")) {
		t.Errorf("without a library: %v\n%s", err, out)
	}
}

// The answers of a real driver can be read.
func TestRealGPU(t *testing.T) {
	if _, err := os.Stat("/proc/driver/nvidia/version"); err != nil {
		t.Skip("needs a GPU of NVIDIA and its driver")
	}
	p := start(t, "-interval", "100ms")
	r := p.reading()
	if r.None != "" || r.Driver == "" || r.CUDA == "" || len(r.GPUs) == 0 {
		t.Fatalf("%+v", r)
	}
	for _, g := range r.GPUs {
		t.Logf("%+v", g)
		if !strings.HasPrefix(g.UUID, "GPU-") || g.Name == "" || g.MemoryTotal == 0 || g.Temperature == nil || g.Lost != "" {
			t.Errorf("%+v", g)
		}
	}
	p.reading()
}
