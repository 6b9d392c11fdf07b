package onebox_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/homes"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// fourPools are pools of one simulated engine each, with a model of the same name.
func fourPools(f *fleettest.Fleet) (documents string) {
	for i := range 4 {
		documents += fmt.Sprintf("---\nkey: models/m%d\ntype: chat\npool: p%d\nupstream_name: demo-chat\n", i, i) + f.EndpointDocument(fmt.Sprintf("sim-%d", i+1), i, fmt.Sprintf("p%d", i), "concurrency: 2")
	}
	return documents
}

// The servers of a colo agree on one home for each pool, which alone owns the pool's engines, and requests for every pool are served.
func TestSeveralServers(t *testing.T) {
	t.Parallel()
	c := fleettest.SeveralServers(3, fleettest.QuickEngine(2))
	c.Engines = 4
	f := fleettest.Start(t, c, "")
	f.WatchShared(32)
	f.ApplyAndWait(fourPools(f), func() bool {
		return len(f.Pools("ams")) == 5 && f.FleetPage(f.Entry.Admin).Documents["models/m0"] != nil
	})
	docs := documents(f, f.Entry.Admin)
	for _, name := range []string{"ams-1", "ams-2", "ams-3"} {
		if _, known := docs["servers/ams/"+name]; !known {
			t.Errorf("the entry does not know %s", name)
		}
	}
	for i := range 4 {
		pool := fmt.Sprintf("p%d", i)
		home := f.Home("ams", pool).Node
		testkit.WaitFor(t, home+" to own the engine of "+pool, func() bool { return owner(f, pool) == home })
		if a := f.Chat(strings.Replace(fleettest.ChatBody(3, true), "demo-chat", fmt.Sprintf("m%d", i), 1)); a.Status != 200 || !strings.HasSuffix(a.Body, "data: [DONE]\n\n") {
			t.Errorf("a request for %s, whose home is %s: %d %s", pool, home, a.Status, a.Body)
		}
		if n := f.Pool("ams", pool).Granted; n != 1 {
			t.Errorf("%s, the home of %s, has granted %d permits", home, pool, n)
		}
	}
}

// owner returns the only server that reports that it owns all engines of a pool; empty if there is none.
func owner(f *fleettest.Fleet, pool string) string {
	var owners []string
	for _, p := range f.PoolPages("ams") {
		for _, o := range p.Ownership {
			if p.Pool == pool && o.State == homes.StateOwned {
				owners = append(owners, p.Node)
			}
		}
	}
	return strings.Join(owners, " ")
}

// A server that ends hands over its pools, and takes them back when it starts again. No request fails.
func TestServersTakeOver(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, fleettest.SeveralServers(2, fleettest.QuickEngine(2)), "")
	chat := func(when string) {
		t.Helper()
		if a := f.Chat(fleettest.ChatBody(2, false)); a.Status != 200 {
			t.Errorf("%s: %d %s", when, a.Status, a.Body)
		}
	}
	first := f.Home("ams", "demo").Node
	chat("with " + first)
	f.EndNode(first)()
	testkit.WaitFor(t, "another home", func() bool { return f.Home("ams", "demo").Node != first })
	chat("after " + first + " has ended")
	f.StartServer("ams", first)
	testkit.WaitFor(t, first+" to be the home again", func() bool { return f.Home("ams", "demo").Node == first && owner(f, "demo") == first })
	chat("after " + first + " has started again")
}

// The figures of a pool are known to its next home before that has served a request, also if the home before has ended by then.
func TestLearnedMovesWithTheHome(t *testing.T) {
	t.Parallel()
	c := fleettest.SeveralServers(2, fleettest.QuickEngine(2))
	c.Drain = 20 * time.Second // long enough for the next home to ask, on a busy machine
	f := fleettest.Start(t, c, "key: pools/demo\nqueue: {cost: tokens}\n")
	first := f.Home("ams", "demo").Node
	for range 40 {
		if a := f.Chat(fleettest.ChatBody(2, false)); a.Status != 200 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	f.EndNode(first)()
	testkit.WaitFor(t, "another home that knows what the first has learned", func() bool {
		for _, p := range f.PoolPages("ams") {
			if p.Pool == "demo" && p.Home != first {
				return p.MeanHeldMillis != nil && p.CostPerSlotSecond != nil
			}
		}
		return false
	})
	for _, p := range f.PoolPages("ams") {
		if p.Pool == "demo" && p.Granted > 0 {
			t.Errorf("it has granted %d permits itself", p.Granted)
		}
	}
}

// Servers register the pools that have an engine in their colo, and entries ask no colo without the model's pool.
func TestColosWithoutThePoolAreNotAsked(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams", "fra"}, Engine: fleettest.QuickEngine(2), Engines: 1}, "")
	f.WatchShared(32)
	f.Operator().Put("key: models/only-ams\npool: only-ams\nupstream_name: demo-chat\nrouting: {steps: [{colos: [fra, ams]}]}\n" +
		"---\nkey: endpoints/ams/sim-1\nurl: " + f.Engines[0].URL + "\npool: only-ams\n")
	registered := func(key string) []string {
		pools, _ := f.FleetPage(f.Entry.Admin).Field(key, "pools").(map[string]any)
		return slices.Sorted(maps.Keys(pools))
	}
	testkit.WaitFor(t, "the servers to register their pools", func() bool {
		return slices.Equal(registered("servers/ams/ams-1"), []string{"only-ams"}) && slices.Equal(registered("servers/fra/fra-1"), []string{"demo"})
	})
	a := f.Chat(strings.Replace(fleettest.ChatBody(1, false), "demo-chat", "only-ams", 1))
	if request, _ := f.LastEvents(a.Header.Get("x-request-id")); a.Status != 200 || len(request.ColoPath) != 1 || a.Header.Get("x-colonnade-colo") != "ams" {
		t.Errorf("answer %d by way of %v, want 200 from ams alone: %s", a.Status, request.ColoPath, a.Body)
	}
}
