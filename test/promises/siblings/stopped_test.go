package siblings_test

import (
	"testing"
	"time"

	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// A server that is stopped (SIGSTOP) while it carries long streams, for longer than its lease, still holds their slots: a server of
// another name that joins meanwhile grants none of them before SilentHold has passed. When the stopped server continues, its
// streams complete. Their excess after SilentHold is the exception.
func TestStoppedServerWithStreams(t *testing.T) {
	t.Parallel()
	const itl = 100 * time.Millisecond
	stop := time.Duration(testkit.AtScale(8, 22)) * time.Second
	lasts := stop + time.Duration(testkit.AtScale(2, 8))*time.Second
	s := &stage{Fleet: proctest.Start(t, proctest.Config{Servers: servers, Entries: 2, ITL: itl, Drain: 2 * time.Second})}
	streams := s.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Long: 3}, LongTokens: int(lasts / itl), Requests: 1})
	testkit.WaitFor(t, "the streams to run", func() bool { return s.Engines[0].Stats().Running == 3 })
	load := s.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Plain: 4, proctest.Streamed: 4}, Tokens: 2})
	load.WaitServed(t, 3)

	history := []proctest.Fault{
		{Kind: proctest.Stop, Target: s.home().Name, For: stop},
		{At: 500 * time.Millisecond, Kind: proctest.Join, Target: s.newHome(), For: stop},
	}
	began := s.Inject(history)
	s.Settle()
	load.WaitServed(t, 3)
	results := append(load.Stop(), streams.Stop()...)
	results.Check(t, proctest.Cut)
	s.CheckRest()
	s.CheckLimits(began, history)
	s.End(results)
}

// Without etcd, nothing is refused: the servers go on with the documents and the engines that they had.
func TestEtcdAway(t *testing.T) {
	t.Parallel()
	f := randomFleet(t, false)
	load := f.Drive(mixedLoad())
	load.WaitServed(t, 3)
	const renewed = 2 * time.Second // servers that have just registered do without etcd only once it has confirmed them again
	began := f.Inject([]proctest.Fault{{At: renewed, Kind: proctest.KillEtcd, For: time.Duration(testkit.AtScale(5, 600)) * time.Second}})
	if gap := f.LongestGap(began, time.Now()); gap.Length() > 3*time.Second {
		t.Errorf("without etcd, no request was started on %s for %v", gap.Engine, gap.Length())
	}
	f.Settle()
	load.WaitServed(t, 3)
	results := load.Stop()
	results.Check(t)
	f.CheckRest()
	f.CheckPeaks()
	f.End(results)
}
