package siblings_test

import (
	"strings"
	"testing"
	"time"

	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// A firewall that swallows what servers gossip changes nothing else: servers that take each other for dead fail no request, and pools change
// their homes as fast as before.
func TestGossipPortShutByTheNetwork(t *testing.T) {
	t.Parallel()
	s := &stage{Fleet: proctest.Start(t, proctest.Config{
		Servers: servers, Entries: 2, TTFT: 10 * time.Millisecond, ITL: tokenTime(), Drain: 2 * time.Second, Namespaces: true, Gossip: true,
	})}
	said := func(text string) func() bool {
		return func() bool {
			for _, n := range s.Servers {
				if strings.Count(n.Output(), text) < servers-1 {
					return false
				}
			}
			return true
		}
	}
	testkit.WaitFor(t, "the servers to gossip", said("gossip: a sibling is alive"))
	s.load = s.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Plain: 3, proctest.Streamed: 3}})
	s.load.WaitServed(t, 3)
	for _, n := range s.Servers {
		n.ShutGossip()
	}
	testkit.WaitFor(t, "the servers to take each other for dead", said("gossip: a sibling is dead"))
	s.load.WaitServed(t, 3)
	for _, h := range []handover{draining, killedAndStarted} {
		if gap := s.perform(h); gap > 10*h.mark {
			t.Errorf("%s: no request was started for %v", h.name, gap)
		}
	}
	results := s.load.Stop()
	results.Check(t, killedAndStarted.allowed...)
	s.CheckRest()
	s.CheckPeaks()
	s.End(results)
}
