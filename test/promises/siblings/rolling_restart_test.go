package siblings_test

import (
	"testing"
	"time"

	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// Restarting one server after the other fails no request, and cuts no stream that is shorter than the drain.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	f := proctest.Start(t, proctest.Config{
		Servers: servers, Entries: 2, Pools: 3, TTFT: 10 * time.Millisecond, ITL: 20 * time.Millisecond, Drain: 10 * time.Second,
	})
	load := f.Drive(mixedLoad())
	for range testkit.AtScale(1, 5) {
		for _, server := range f.Servers {
			load.WaitServed(t, 5)
			server.Leave()
			load.WaitServed(t, 5)
			server.Start()
			f.WaitReady()
		}
	}
	load.WaitServed(t, 5)
	results := load.Stop()
	results.Check(t)
	f.CheckRest()
	f.CheckPeaks()
	f.End(results)
}
