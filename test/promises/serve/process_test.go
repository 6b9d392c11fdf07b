package serve_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// mixedLoad is requests of all kinds, more than the engines of two pools have slots for.
func mixedLoad() proctest.LoadConfig {
	return proctest.LoadConfig{
		Clients:    map[proctest.Kind]int{proctest.Plain: 4, proctest.Streamed: 4, proctest.Cancelled: 2, proctest.Long: 2},
		LongTokens: 30,
	}
}

func smallPools() proctest.Config {
	return proctest.Config{Pools: 2, Slots: 2, TTFT: 10 * time.Millisecond, ITL: 20 * time.Millisecond}
}

// awaitIdle expects that the engines are idle soon, and not only when their answers would have ended.
func awaitIdle(t *testing.T, f *proctest.Fleet) {
	t.Helper()
	testkit.Within(t, 500*time.Millisecond, "the engines to be idle", func() bool {
		for _, e := range f.Engines {
			if s := e.Stats(); s.Running+s.Waiting > 0 {
				return false
			}
		}
		return true
	})
}

// When the process is killed under load, the engines stop at once. After each start it serves again, no engine is over its limit, and each
// request that was answered has one final event.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	f, n := start(t, smallPools())
	load := f.Drive(mixedLoad())
	for range testkit.AtScale(2, 20) {
		load.WaitServed(t, 3)
		n.Kill()
		awaitIdle(t, f)
		n.Start()
		n.WaitReady()
	}
	load.WaitServed(t, 3)
	results := load.Stop()
	results.Check(t, proctest.Refused, proctest.Lost)
	f.CheckRest()
	f.CheckPeaks()
	f.End(results)
}

// A process that is started again at once after it was killed sends an engine nothing beside the requests that the engine still has of the
// killed one.
func TestStartedAtOnceAfterKill(t *testing.T) {
	t.Parallel()
	f, n := start(t, smallPools())
	load := f.Drive(mixedLoad())
	for range testkit.AtScale(2, 30) {
		load.WaitServed(t, 1)
		n.Kill()
		n.Start()
	}
	load.WaitServed(t, 3)
	results := load.Stop()
	results.Check(t, proctest.Refused, proctest.Lost)
	f.CheckRest()
	f.CheckPeaks()
	f.End(results)
}

// While the process stands still, as with a debugger or on a machine that sleeps, its requests wait. Then they are served.
func TestPausedUnderLoad(t *testing.T) {
	t.Parallel()
	f, n := start(t, smallPools())
	load := f.Drive(mixedLoad())
	for range testkit.AtScale(2, 20) {
		load.WaitServed(t, 3)
		n.Pause()
		time.Sleep(300 * time.Millisecond)
		n.Resume()
	}
	load.WaitServed(t, 3)
	results := load.Stop()
	results.Check(t)
	f.CheckRest()
	f.CheckPeaks()
	f.End(results)
}

// After SIGTERM, requests that run have the time of the drain, and waiting ones too or a refusal with a reason. The process then ends with the
// status 0, and the next one finds nothing to repair.
func TestTerminatedUnderLoad(t *testing.T) {
	t.Parallel()
	f, n := start(t, smallPools())
	c := mixedLoad()
	c.LongTokens = 100 // for longer than the process waits until its clients have noticed
	load := f.Drive(c)
	load.WaitServed(t, 3)
	terminated := time.Now()
	n.Leave()
	n.Start()
	n.WaitReady()
	if _, page := n.Get("/metrics"); !strings.Contains(page, "\ncolonnade_events_crashed_total 0\n") {
		t.Error("requests of the process that has drained were ended as crashed")
	}
	load.WaitServed(t, 3)
	results := load.Stop()
	results.Check(t, proctest.Refused, proctest.Lost)
	for _, r := range results {
		drained := r.Outcome == proctest.Refused && strings.HasPrefix(r.Detail, "draining:")
		if r.Began.Before(terminated) && (r.Outcome == proctest.Lost || r.Outcome == proctest.Refused && !drained) {
			t.Errorf("it was sent before SIGTERM at %s: %v", terminated.Format("15:04:05.000"), r)
		}
	}
	f.CheckRest()
	f.CheckPeaks()
	f.End(results)
}

// A stream that is longer than the drain ends by an error event.
func TestDrainIsOver(t *testing.T) {
	t.Parallel()
	c := smallPools()
	c.Drain = 300 * time.Millisecond
	f, n := start(t, c)
	load := f.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Long: 2}, LongTokens: 1000, Requests: 1})
	testkit.WaitFor(t, "both streams to run", func() bool { return f.Engines[0].Stats().Running+f.Engines[1].Stats().Running == 2 })
	n.Leave()
	awaitIdle(t, f)
	results := load.Stop()
	if results.Count(proctest.Cut) != 2 {
		t.Errorf("%v, want two streams with an error event at their end", results)
	}
	n.Start()
	f.End(results)
}

// SIGHUP has the documents read at once: bad ones change nothing, also not for the requests that run.
func TestReloadSignal(t *testing.T) {
	t.Parallel()
	f, n := start(t, smallPools())
	load := f.Drive(mixedLoad())
	load.WaitServed(t, 3)
	good, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	hangUp := func() {
		t.Helper()
		if err := n.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	refused := func() int { return strings.Count(n.Output(), f.Path+":") }
	f.Write(string(good) + "---\nkey: pools/pool-1\nqueue: {limit: none}\n")
	hangUp()
	testkit.WaitFor(t, "a log line with the file and the line", func() bool { return refused() > 0 })
	before := refused()
	hangUp()
	testkit.WaitFor(t, "the same after the next signal", func() bool { return refused() > before })
	load.WaitServed(t, 3)
	f.Write(string(good) + "---\nkey: pools/pool-1\nqueue: {limit: 1234}\n")
	hangUp()
	testkit.Within(t, time.Second, "the change to be in force", func() bool {
		_, page := n.Get("/debug/fleet")
		return strings.Contains(page, "1234")
	})
	load.WaitServed(t, 3)
	results := load.Stop()
	results.Check(t)
	f.CheckRest()
	f.End(results)
}
