package cmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"colonnade/internal/etcdtest"
	"colonnade/internal/nvmltest"
	"colonnade/internal/testkit"
)

// nvidia puts colonnade-gpus and a library of a driver where the programs of this test look for them.
func nvidia(t *testing.T) *nvmltest.Machine {
	t.Helper()
	program, library, dir := nvmltest.Program(t), nvmltest.Library(t), t.TempDir()
	if err := os.Symlink(library, filepath.Join(dir, "libnvidia-ml.so.1")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
	t.Setenv("PATH", filepath.Dir(program)+string(os.PathListSeparator)+os.Getenv("PATH"))
	return nvmltest.NewMachine(t, nvmltest.H200)
}

// adminPage returns a page of a worker's admin listener.
func adminPage(t *testing.T, p *testkit.Process, path string) string {
	t.Helper()
	_, after, _ := strings.Cut(p.Output(), "admin pages: ")
	address, _, _ := strings.Cut(after, "\n")
	_, body := testkit.Get(address + path)
	return body
}

// An Xid that needs a reset takes the engine out, with the Xid as its reason; its process goes on. A worker that starts anew trusts the GPU.
func TestRegisterTakesOutAnEngineWithABrokenGPU(t *testing.T) {
	m := nvidia(t)
	r := newRegistered(t)
	address := etcdtest.FreeAddress(t)
	key := "endpoints/ams/" + strings.Replace(address, ":", "-", 1)
	p := r.start(address, append([]string{"-gpus", "all", "--"}, r.engine(address)...)...)
	await(t, p, "colonnade | serving: ")
	testkit.WaitFor(t, "the GPU in the worker's document", func() bool {
		d := r.document("workers/gpu-1")
		return strings.Contains(d, "driver: 570.133.20") && strings.Contains(d, nvmltest.H200GPU) && !strings.Contains(d, "no_gpus")
	})
	for _, line := range []string{"inference_gpu_telemetry_up 1", `inference_gpu_power_watts{UUID="` + nvmltest.H200GPU + `",gpu="0"} 612.345`,
		`,modelName="NVIDIA H200",pool="tiny"} 1`} {
		testkit.WaitFor(t, line, func() bool { return strings.Contains(adminPage(t, p, "/metrics"), line) })
	}

	m.Add("event 1 0 8 31") // a fault of the application
	m.Add("event 2 0 8 119")
	testkit.WaitFor(t, "the endpoint to be out", func() bool {
		d := r.document(key)
		return strings.Contains(d, "concurrency: 0\n") && strings.Contains(d, "Xid 119, GSP RPC timeout; it needs a reset")
	})
	testkit.WaitFor(t, "the incidents", func() bool {
		d := r.document("workers/gpu-1")
		return strings.Contains(d, "kind: gpu_xid") && strings.Contains(d, "Xid 31, ") && strings.Contains(d, "Xid 119, ") && strings.Contains(d, "state: out")
	})
	if status, _ := testkit.Get("http://" + address + "/health"); status != 200 {
		t.Errorf("the engine answers %d", status)
	}
	if err := p.Stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}

	m.Remove("event ")
	p = r.start(address, append([]string{"-gpus", "all", "--"}, r.engine(address)...)...)
	await(t, p, "colonnade | serving: ")
	testkit.WaitFor(t, "the engine to have a GPU", func() bool { return strings.Contains(r.document("workers/gpu-1"), nvmltest.H200GPU) })
	if d := r.document(key); strings.Contains(d, "concurrency: 0\n") {
		t.Errorf("%s", d)
	}
	_ = p.Stop(syscall.SIGTERM)
}

// With a driver that is not loaded, and without one, the engine is served, and the worker says why it knows no GPUs.
func TestRegisterWithoutGPUs(t *testing.T) {
	m := nvidia(t)
	r := newRegistered(t)
	f := func(want string) {
		t.Helper()
		address := etcdtest.FreeAddress(t)
		p := r.start(address, append([]string{"--"}, r.engine(address)...)...)
		await(t, p, "colonnade | serving: ")
		testkit.WaitFor(t, want, func() bool { return strings.Contains(r.document("workers/gpu-1"), "no_gpus: ") })
		if d := r.document("workers/gpu-1"); !strings.Contains(d, want) || !strings.Contains(d, "state: serving") {
			t.Errorf("want %q in\n%s", want, d)
		}
		if n := strings.Count(p.Output(), "nothing is known of GPUs"); n != 1 {
			t.Errorf("said %d times:\n%s", n, p.Output())
		}
		if err := p.Stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	m.Set("init 9")
	f("the driver of the GPUs is not ready: it is not loaded")
	t.Setenv("LD_LIBRARY_PATH", t.TempDir())
	if _, err := os.Stat("/proc/driver/nvidia/version"); err != nil {
		f("no driver of NVIDIA: libnvidia-ml.so.1: cannot open shared object file")
	}
}
