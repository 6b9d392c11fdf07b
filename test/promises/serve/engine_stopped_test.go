package serve_test

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"colonnade/internal/etcdtest"
	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// startEngineProcess starts a simulated engine in a process of its own, and returns its URL.
func startEngineProcess(t *testing.T, flags ...string) (*testkit.Process, string) {
	t.Helper()
	address := etcdtest.FreeAddress(t)
	args := append([]string{"engine", "-listen", address}, flags...)
	return testkit.Start(t, exec.Command(testkit.Binary(t, "colonnade"), args...)), "http://" + address
}

// An engine that is stopped (SIGSTOP) while clients ask it is taken out although it is busy, and status, log and metrics say so. The other
// engine serves meanwhile, also while clients give up on the stopped one. Once the engine continues, it is used again, and answers what waited in it.
func TestEngineStoppedUnderLoad(t *testing.T) {
	t.Parallel()
	c := smallPools()
	c.Pools = 1
	f, n := start(t, c)
	engine, url := startEngineProcess(t, "-slots", "2", "-ttft", "10ms", "-itl", "20ms")
	f.Apply(fmt.Sprintf("key: endpoints/ams/stopped\nurl: %s\npool: pool-1\nconcurrency: 2\n"+
		"health: {interval: 50ms, timeout: 200ms, silence: 500ms}\n", url))
	states := func(want string) func() bool {
		return func() bool {
			_, page := n.Get("/metrics")
			return strings.Contains(page, fmt.Sprintf(`colonnade_endpoints{pool="pool-1",role="colo",state=%s`, want))
		}
	}
	testkit.WaitFor(t, "both engines to be up", states(`"up"} 2`))
	load := f.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Plain: 3, proctest.Cancelled: 3}})
	load.WaitServed(t, 10)
	if err := engine.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, "the stopped engine to be taken out", states(`"silent"} 1`))
	const line = `level=WARN msg="endpoint state changed" role=colo endpoint=stopped url=%s pool=pool-1 state=silent was=up error="no byte to any request, and `
	if log := n.Output(); !strings.Contains(log, fmt.Sprintf(line, url)) {
		t.Errorf("the log says %s", log)
	}
	if out, _ := f.Run("status", "-admin", n.Admin); !strings.Contains(out, "silent for ") || !strings.Contains(out, "no byte to any request, and ") {
		t.Errorf("status says %s", out)
	}
	load.WaitServed(t, 10)
	if _, page := n.Get("/metrics"); !strings.Contains(page, `state="silent"} 1`) {
		t.Error("the engine is not silent any more")
	}
	if err := engine.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, "the engine to return", states(`"up"} 2`))
	if log := n.Output(); !strings.Contains(log, "state=up was=silent") {
		t.Errorf("the log says %s", log)
	}
	load.WaitServed(t, 10)
	results := load.Stop()
	results.Check(t)
	f.CheckRest()
	f.CheckPeaks()
	f.End(results)
}
