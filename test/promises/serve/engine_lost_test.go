package serve_test

import (
	"fmt"
	"strings"
	"testing"

	"colonnade/internal/faultproxy"
	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
	"colonnade/reasons"
)

// While one of the two engines of a pool is dead, requests are served by the other one; only those fail that were at the dead one. It is used
// again once it answers.
func TestEngineLeavesAndReturns(t *testing.T) {
	t.Parallel()
	c := smallPools()
	c.Pools = 1
	f, n := start(t, c)
	e := f.Engines[0]
	behind := testkit.NewProxy(t, strings.TrimPrefix(e.URL, "http://"))
	second := f.StartEngine("second", "pool-1")
	f.Apply(fmt.Sprintf("key: endpoints/ams/%s\nurl: http://%s\npool: pool-1\nconcurrency: %d\nhealth: {interval: 50ms}\n---\n"+
		"key: endpoints/ams/second\nurl: %s\npool: pool-1\nconcurrency: %d\n", e.ID, behind.Address, e.Limit, second.URL, second.Limit))
	up := func(engines int) func() bool {
		return func() bool {
			_, page := n.Get("/metrics")
			return strings.Contains(page, fmt.Sprintf(`colonnade_endpoints{pool="pool-1",role="colo",state="up"} %d`, engines))
		}
	}
	testkit.WaitFor(t, "both engines to be up", up(2))
	load := f.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Plain: 4, proctest.Streamed: 4}})
	for range testkit.AtScale(1, 20) {
		load.WaitServed(t, 10)
		behind.Refuse()
		behind.InjectOpen(faultproxy.Fault{Kind: faultproxy.Reset})
		testkit.WaitFor(t, "the engine to be taken out", up(1))
		load.WaitServed(t, 10)
		behind.Heal()
		testkit.WaitFor(t, "the engine to return", up(2))
	}
	load.WaitServed(t, 10)
	results := load.Stop()
	results.Check(t, proctest.Refused, proctest.Cut)
	for _, r := range results {
		if r.Outcome == proctest.Refused && !strings.HasPrefix(r.Detail, reasons.NoAnswer) && !strings.HasPrefix(r.Detail, reasons.Truncated) {
			t.Errorf("it was not at the dead engine: %v", r)
		}
	}
	f.CheckRest()
	f.CheckPeaks()
	f.End(results)
}
