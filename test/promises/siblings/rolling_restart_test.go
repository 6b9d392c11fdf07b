package siblings_test

import (
	"testing"
	"time"

	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// Restarting one server after the other fails no request, and cuts no stream that is shorter than the drain; also not at an entry
// that is cut off from etcd meanwhile, and so has an old table: it finds the home of a pool by what draining servers answer, and
// past the ports of those that have ended or were started again.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	f := proctest.Start(t, proctest.Config{
		Servers: servers, Entries: 2, Pools: 3, TTFT: 10 * time.Millisecond, ITL: tokenTime(), Drain: 4 * time.Second,
	})
	load := f.Drive(mixedLoad())
	for round := range testkit.AtScale(1, 5) {
		for i, server := range f.Servers {
			load.WaitServed(t, 3)
			stale := (round+i)%servers == 0
			if stale {
				f.Entries[1].CutEtcd()
			}
			server.Leave()
			load.WaitServed(t, 3)
			server.Start()
			server.WaitReady()
			if stale {
				load.WaitServed(t, 3)
				f.Entries[1].HealEtcd()
			}
			f.WaitReady()
		}
	}
	load.WaitServed(t, 3)
	results := load.Stop()
	results.Check(t)
	f.CheckRest()
	f.CheckPeaks()
	f.End(results)
}
