package onebox_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/fleet"
	"colonnade/homes"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// BenchmarkSeveralServers is what several servers of a colo add to a request, and to a chunk of a stream: the processor time of the whole
// path with three servers, of which one serves, in ratio to that with one.
func BenchmarkSeveralServers(b *testing.B) {
	engine := "http://" + benchEngine(b)
	start := func(name string, servers int, gossip bool) path {
		c := fleettest.SeveralServers(servers, fleettest.QuickEngine(4096))
		c.EngineURL, c.NoGossip = engine, !gossip
		return path{name, fleettest.Start(b, c, "").URL()}
	}
	one, three, silent := start("one", 1, true), start("three", 3, true), start("three-without-gossip", 3, false)
	f := func(name string, a, other path) {
		b.Run(name+"/plain", func(b *testing.B) { turns(b, [2]path{a, other}, benchBlock, "req", plainRequests(b)) })
		b.Run(name+"/chunk", func(b *testing.B) { turns(b, [2]path{a, other}, benchStreams*benchChunks, "chunk", streams(b)) })
	}
	f("servers", one, three)
	f("gossip", silent, three)
}

const (
	manyPools   = 100
	manyEngines = 1000
)

// engineUnderPaths serves as many engines, each at a path of its own: /e0, /e1 and so on. It answers a stream with an event every 100 ms,
// for one to three seconds, and counts the health checks of each engine.
type engineUnderPaths struct {
	streams atomic.Int64

	mu     sync.Mutex // guards the field below
	checks map[string]int
}

func startEngineUnderPaths(b *testing.B) (e *engineUnderPaths, address string) {
	e = &engineUnderPaths{checks: map[string]int{}}
	return e, serveBench(b, e.serve)
}

// manyDocuments are the documents of models and endpoints: in ams, engines at address in as many pools.
func manyDocuments(address string, engines, pools int, rest string) string {
	var all strings.Builder
	for i := range pools {
		fmt.Fprintf(&all, "---\nkey: models/m%d\ntype: chat\npool: p%d\n", i, i)
	}
	for i := range engines {
		fmt.Fprintf(&all, "---\nkey: endpoints/ams/e%d\nurl: http://%s/e%d\npool: p%d\n%s", i, address, i, i%pools, rest)
	}
	return all.String()[len("---\n"):]
}

func (e *engineUnderPaths) serve(rc *fasthttp.RequestCtx) {
	switch {
	case !rc.IsPost():
		e.mu.Lock()
		e.checks[string(rc.Path())]++
		e.mu.Unlock()
		rc.SetBodyString(`{"data":[]}`)
	case bytes.Contains(rc.PostBody(), []byte(`"stream":true`)):
		rc.SetContentType("text/event-stream")
		events := 10 + int(e.streams.Add(1)*7%20)
		rc.SetBodyStreamWriter(func(w *bufio.Writer) {
			for range events {
				_, _ = w.WriteString(`data: {"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n")
				if w.Flush() != nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
			_, _ = w.WriteString("data: [DONE]\n\n")
		})
	default:
		rc.SetContentType("application/json")
		rc.SetBodyString(`{"choices":[{"index":0,"message":{"role":"assistant","content":"word"},"finish_reason":"stop"}]}`)
	}
}

// join is what one server that joins costs.
type join struct {
	puts   map[string][]time.Time // of each server's record, by node
	owned  time.Duration          // from the registration until the server may grant on the engines of all pools that are now at home there
	served time.Duration          // and until it has served a request for each of these pools
}

// BenchmarkFourthServerJoins is the join of a fourth server to a colo of 1000 engines in 100 pools: how often the servers put their
// records, and how long it takes until the new server may grant on all engines that it is to grant on, and has served a request for each of
// its pools. Without requests, and with a stream on each pool, which lasts for one to three seconds.
func BenchmarkFourthServerJoins(b *testing.B) {
	e, address := startEngineUnderPaths(b)
	f := fleettest.Start(b, fleettest.SeveralServers(3, fleettest.QuickEngine(1)), manyDocuments(address, manyEngines, manyPools, ""))
	for _, held := range []bool{false, true} {
		b.Run(fmt.Sprintf("streams=%v", held), func(b *testing.B) {
			var joins []join
			for b.Loop() {
				joins = append(joins, observeJoin(b, f.In(b), e, held))
			}
			reportJoins(b, joins, held)
		})
	}
}

func observeJoin(b *testing.B, f *fleettest.Fleet, e *engineUnderPaths, held bool) join {
	awaitOwned(b, f, "ams-1", "ams-2", "ams-3")
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var streaming sync.WaitGroup
	if begun := e.streams.Load(); held {
		for i := range manyPools {
			streaming.Go(func() { send(b, f, i, true) })
		}
		testkit.WaitFor(b, "all streams to begin", func() bool { return e.streams.Load() == begun+manyPools })
	}
	changes := f.Operator().Client.Watch(ctx, node.Prefix, clientv3.WithPrefix())
	j := join{puts: map[string][]time.Time{}}
	var registered time.Time
	var watching sync.WaitGroup
	watching.Go(func() { registered = j.follow(changes) })
	f.StartServer("ams", "ams-4")
	pools := awaitOwned(b, f, "ams-4")
	owned := time.Now()
	var serving sync.WaitGroup
	for _, pool := range pools {
		serving.Go(func() { send(b, f, pool, false) })
	}
	serving.Wait()
	served := time.Now()
	streaming.Wait()
	time.Sleep(time.Second) // of puts that follow
	cancel()
	watching.Wait()
	j.owned, j.served = owned.Sub(registered), served.Sub(registered)
	f.EndNode("ams-4")()
	return j
}

// follow notes the puts of records, and returns when ams-4 has registered.
func (j *join) follow(changes clientv3.WatchChan) (registered time.Time) {
	for change := range changes {
		revision := int64(0)
		for _, event := range change.Events {
			key := strings.Split(strings.TrimPrefix(string(event.Kv.Key), node.Prefix), "/")
			if key[0] == "servers" && key[2] == "ams-4" && registered.IsZero() {
				registered = time.Now()
			}
			if key[0] == "owners" && event.Kv.ModRevision != revision {
				revision = event.Kv.ModRevision
				j.puts[key[2]] = append(j.puts[key[2]], time.Now())
			}
		}
	}
	return registered
}

// awaitOwned waits until each of the servers may grant on all engines of all pools that have their home there, which no other server
// shows as its own, and returns these pools.
func awaitOwned(b *testing.B, f *fleettest.Fleet, nodes ...string) (pools []int) {
	var servers []*fleet.Server
	for _, n := range f.Colos {
		if !f.HasEnded(n.Node) {
			servers = append(servers, &fleet.Server{Node: n.Node, State: fleet.StateActive, Protocol: fleet.ProtocolRange{Min: 1, Max: fleet.Protocol}})
		}
	}
	expected := map[string]int{}
	for i := range manyPools {
		home := homes.Rank(fmt.Sprintf("p%d", i), servers)[0].Node
		if expected[home] += manyEngines / manyPools; home == nodes[0] {
			pools = append(pools, i)
		}
	}
	expected[homes.Rank("demo", servers)[0].Node]++ // the simulated engine
	for _, name := range nodes {
		owned := fmt.Sprintf(`colonnade_engines{state="owned"} %d`, expected[name])
		testkit.WaitFor(b, name+" to own its engines", func() bool {
			return bytes.Contains(f.Page(f.Server(name).Admin, "/metrics"), []byte(owned+"\n"))
		})
	}
	return pools
}

func send(b *testing.B, f *fleettest.Fleet, pool int, stream bool) {
	a, err := f.Post(b.Context(), "/chat/completions", fmt.Sprintf(`{"model":"m%d","stream":%v,"messages":[]}`, pool, stream))
	if err != nil || a.Status != 200 {
		b.Errorf("%d %v %.200q", a.Status, err, a.Body)
	}
}

func reportJoins(b *testing.B, joins []join, held bool) {
	var puts, putsOfNew, rate float64
	var owned, served []time.Duration
	for _, j := range joins {
		owned, served = append(owned, j.owned), append(served, j.served)
		for name, at := range j.puts {
			if name == "ams-4" {
				putsOfNew = max(putsOfNew, float64(len(at)))
				continue
			}
			puts = max(puts, float64(len(at)))
			if n := len(at); n > 1 {
				rate = max(rate, float64(n-1)/at[n-1].Sub(at[0]).Seconds())
			}
		}
	}
	slices.Sort(owned)
	slices.Sort(served)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(puts, "puts/server")
	b.ReportMetric(putsOfNew, "puts/new-server")
	if held {
		b.ReportMetric(rate, "puts/s-while-held")
	}
	b.ReportMetric(owned[len(owned)/2].Seconds(), "s-until-owned-p50")
	b.ReportMetric(served[len(served)/2].Seconds(), "s-until-served-p50")
	b.ReportMetric(served[len(served)-1].Seconds(), "s-until-served-max")
}

// BenchmarkHealthChecks counts the health checks of each engine with three servers, in ratio to those with one.
func BenchmarkHealthChecks(b *testing.B) {
	const engines, window = 100, 5 * time.Second
	start := func(servers int) *engineUnderPaths {
		e, address := startEngineUnderPaths(b)
		f := fleettest.Start(b, fleettest.SeveralServers(servers, fleettest.QuickEngine(1)), manyDocuments(address, engines, 10, "health: {interval: 250ms}\n"))
		testkit.WaitFor(b, "all engines to be owned", func() bool {
			owned := 0
			for _, p := range f.PoolPages("ams") {
				for _, e := range p.Ownership {
					if e.State == homes.StateOwned {
						owned++
					}
				}
			}
			return owned == engines+1
		})
		return e
	}
	all := []*engineUnderPaths{start(1), start(3)}
	var rates [2]float64
	for b.Loop() {
		for _, e := range all {
			e.take()
		}
		time.Sleep(window)
		for i, e := range all {
			n := e.take()
			if len(n) != engines {
				b.Errorf("%d engines were checked, want %d", len(n), engines)
			}
			for _, k := range n {
				rates[i] += float64(k)
			}
		}
	}
	per := float64(b.N) * engines * window.Seconds()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(rates[0]/per, "one-checks/engine-s")
	b.ReportMetric(rates[1]/per, "three-checks/engine-s")
	b.ReportMetric(rates[1]/rates[0], "ratio")
}

// take returns the health checks since the last call, by path.
func (e *engineUnderPaths) take() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.checks
	e.checks = map[string]int{}
	return n
}

// BenchmarkIdleServer is what each of two more servers costs that are the home of nothing, in a colo of 1000 engines in one pool: memory of
// this process, and its processor time without requests. The home is measured likewise, by how much less there is without it.
func BenchmarkIdleServer(b *testing.B) {
	for _, gossip := range []bool{true, false} {
		b.Run(fmt.Sprintf("gossip=%v", gossip), func(b *testing.B) {
			_, address := startEngineUnderPaths(b)
			c := fleettest.SeveralServers(1, fleettest.QuickEngine(1))
			c.NoGossip = !gossip
			f := fleettest.Start(b, c, manyDocuments(address, manyEngines, 1, "health: {interval: 1h}\n"))
			f.Home("ams", "p0")
			var home, idle cost
			for b.Loop() {
				home = home.least(idleCost())
				successors := idleServers(f, 2)
				idle = idle.least(idleCost())
				for _, name := range successors {
					f.EndNode(name)()
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric((idle.bytes-home.bytes)/2/(1<<20), "MiB/idle-server")
			b.ReportMetric((idle.processor-home.processor)/2*1000, "cpu-ms/s/idle-server")
			f.EndNode("ams-1")()
			without := idleCost()
			b.ReportMetric((home.bytes-without.bytes)/(1<<20), "MiB/only-server")
			b.ReportMetric((home.processor-without.processor)*1000, "cpu-ms/s/only-server")
		})
	}
}

// idleServers starts as many servers that are not the home of pool p0.
func idleServers(f *fleettest.Fleet, n int) (names []string) {
	home := &fleet.Server{Node: "ams-1", State: fleet.StateActive, Protocol: fleet.ProtocolRange{Min: 1, Max: fleet.Protocol}}
	for i := 2; len(names) < n; i++ {
		other := *home
		other.Node = fmt.Sprintf("ams-%d", i)
		both := []*fleet.Server{home, &other}
		if homes.Rank("p0", both)[0] == home && homes.Rank("demo", both)[0] == home {
			f.StartServer("ams", other.Node)
			names = append(names, other.Node)
		}
	}
	return names
}

// cost is what this process costs: its live bytes, and its processor time as a part of the time.
type cost struct{ bytes, processor float64 }

// least returns the lesser of two costs, of which the first may be missing: other processes disturb that one less.
func (c cost) least(other cost) cost {
	if c == (cost{}) {
		return other
	}
	return cost{min(c.bytes, other.bytes), min(c.processor, other.processor)}
}

// idleCost returns the cost of this process while nothing happens.
func idleCost() cost {
	time.Sleep(3 * time.Second) // what has begun ends
	began, before := time.Now(), cpu()
	time.Sleep(5 * time.Second)
	used := (cpu() - before).Seconds() / time.Since(began).Seconds()
	return cost{float64(fleettest.LiveBytes()), used}
}
