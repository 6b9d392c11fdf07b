package siblings_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// mixedLoad is requests of all kinds, more than the engines have slots for.
func mixedLoad() proctest.LoadConfig {
	return proctest.LoadConfig{
		Clients:    map[proctest.Kind]int{proctest.Plain: 5, proctest.Streamed: 5, proctest.Cancelled: 5, proctest.Long: 3},
		LongTokens: testkit.AtScale(20, 400),
	}
}

// tokenTime is the engines' time for a token. Long ones cost little processor time.
func tokenTime() time.Duration { return time.Duration(testkit.AtScale(40, 20)) * time.Millisecond }

func randomFleet(t *testing.T, namespaces bool) *proctest.Fleet {
	return proctest.Start(t, proctest.Config{
		Servers: servers, Entries: 2, Pools: 6, Slots: 2, TTFT: 10 * time.Millisecond, ITL: tokenTime(),
		Drain: 2 * time.Second, Namespaces: namespaces,
	})
}

// Under a random history of faults and load of all kinds, no engine is over its limit but for the exception, every answer is
// honest, and afterwards all is at rest and served again.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	if !testkit.Soak() && proctest.CheckNamespaces() == nil {
		t.Skip("network namespaces work here: TestRandomFaultsOfHosts has the same faults and more, and a soak runs both")
	}
	seed := testkit.Seed(t)
	f := randomFleet(t, false)
	survive(t, f, proctest.RandomFaults(rand.New(rand.NewPCG(seed, 0)), randomConfig()))
}

func randomConfig() proctest.RandomConfig {
	return proctest.RandomConfig{
		Servers: servers, Entries: 2, Length: time.Duration(testkit.AtScale(4, 60)) * time.Second,
		Pause: time.Duration(testkit.AtScale(800, 2500)) * time.Millisecond, Longest: time.Duration(testkit.AtScale(1500, 4000)) * time.Millisecond,
		LongestStop: time.Duration(testkit.AtScale(2, 25)) * time.Second,
		Kinds:       proctest.ProcessFaults(),
	}
}

// survive injects a history under load, and checks everything that holds whatever happens.
func survive(t *testing.T, f *proctest.Fleet, history []proctest.Fault) {
	load := f.Drive(mixedLoad())
	load.WaitServed(t, 3)
	began := f.Inject(history)
	f.Settle()
	load.WaitServed(t, 3)
	gap := f.LongestGap(began, time.Now())
	t.Logf("the longest time in which no request was started on an engine is %v, on %s at %v",
		gap.Length().Round(time.Millisecond), gap.Engine, gap.From.Sub(began).Round(time.Millisecond))
	results := load.Stop()
	results.Check(t, proctest.Refused, proctest.Cut)
	f.CheckRest()
	f.CheckLimits(began, history)
	f.End(results)
}

// The same with hosts that vanish, and with servers that lose sight of each other.
func TestRandomFaultsOfHosts(t *testing.T) {
	t.Parallel()
	seed := testkit.Seed(t)
	f := randomFleet(t, true)
	c := randomConfig()
	c.Kinds = append(c.Kinds, proctest.CutHost, proctest.CutHost, proctest.Split, proctest.Split)
	survive(t, f, proctest.RandomFaults(rand.New(rand.NewPCG(seed, 0)), c))
}
