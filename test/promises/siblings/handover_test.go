package siblings_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/homes"
	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// stage is a fleet with one pool, whose only engine is kept busy.
type stage struct {
	*proctest.Fleet
	load *proctest.Load
	last *proctest.Node // the server that the last handover was about
}

func newStage(t testing.TB, n int, delay time.Duration) *stage {
	s := &stage{Fleet: proctest.Start(t, proctest.Config{Servers: n, TTFT: 10 * time.Millisecond, ITL: tokenTime(), Drain: 2 * time.Second, Delay: delay})}
	s.load = s.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Plain: 3, proctest.Streamed: 3}})
	return s
}

// handover is one way in which another server comes to grant on an engine.
type handover struct {
	name string
	mark time.Duration // the longest time in which no request may be started on the engine

	begin   func(*stage)       // what happens
	another bool               // it is over once a server grants that did not before; otherwise, once requests are served
	end     func(*stage)       // makes the fleet whole again
	allowed []proctest.Outcome // of requests, beside complete
}

var (
	joining = handover{
		name: "join", mark: 500 * time.Millisecond, another: true,
		begin: func(s *stage) { s.last = s.join(s.newHome()) },
		end:   func(s *stage) { s.last.Leave() },
	}
	draining = handover{
		name: "drain", mark: 500 * time.Millisecond, another: true,
		begin: func(s *stage) { s.last = s.home(); s.last.Terminate() },
		end:   func(s *stage) { s.Settle(); s.last.Start() },
	}
	killedAndStarted = handover{
		name: "kill-start", mark: 1500 * time.Millisecond, allowed: []proctest.Outcome{proctest.Cut},
		begin: func(s *stage) { s.last = s.home(); s.last.Kill(); s.last.Start() },
		end:   func(*stage) {},
	}
	killed = handover{
		name: "kill", mark: 6500 * time.Millisecond, another: true, allowed: []proctest.Outcome{proctest.Cut},
		begin: func(s *stage) { s.last = s.home(); s.last.Kill() },
		end:   func(s *stage) { s.last.Start() },
	}
	stopped = handover{
		name: "stop", mark: 17 * time.Second, another: true, allowed: []proctest.Outcome{proctest.Cut},
		begin: func(s *stage) { s.last = s.home(); s.last.Pause() },
		end:   func(s *stage) { s.last.Resume() },
	}
	cutFromEtcd = handover{
		name: "cut-from-etcd", mark: 2 * time.Second, another: true,
		begin: func(s *stage) { s.last = s.home(); s.last.CutEtcd() },
		end:   func(s *stage) { s.last.HealEtcd() },
	}
)

// perform performs a handover and returns the longest time meanwhile in which no request was started on the engine.
func (s *stage) perform(h handover) time.Duration {
	s.T.Helper()
	s.load.WaitServed(s.T, 20)
	before := s.served()
	began := time.Now()
	h.begin(s)
	if h.another {
		testkit.WaitFor(s.T, "another server to grant", func() bool {
			for name, n := range s.served() {
				if n >= before[name]+10 && s.isNew(name, before) {
					return true
				}
			}
			return false
		})
	}
	s.load.WaitServed(s.T, 20)
	gap := s.LongestGap(began, time.Now())
	h.end(s)
	s.WaitReady()
	s.T.Logf("%s of %s: no request was started on %s for %v", h.name, s.last.Name, gap.Engine, gap.Length().Round(time.Millisecond))
	return gap.Length()
}

// isNew reports whether a server is another than the one that granted before the handover.
func (s *stage) isNew(name string, before map[string]int) bool {
	if _, old := before[s.last.Name]; old {
		return name != s.last.Name
	}
	return name == s.last.Name // it has joined
}

var finished = regexp.MustCompile(`(?m)^inference_requests_total\{.*\} (\d+)$`)

// served returns how many requests each server has finished, by its name.
func (s *stage) served() map[string]int {
	all := map[string]int{}
	for _, n := range s.Servers {
		if n.Ended() || n.Paused() {
			continue
		}
		_, page := n.Get("/metrics")
		for _, found := range finished.FindAllStringSubmatch(page, -1) {
			k, err := strconv.Atoi(found[1])
			if err != nil {
				s.T.Fatal(err)
			}
			all[n.Name] += k
		}
	}
	return all
}

// home returns the home of the only pool.
func (s *stage) home() *proctest.Node { return s.Server(rank(s.Pools()[0], s.running())[0]) }

func (s *stage) running() (names []string) {
	for _, n := range s.Servers {
		if !n.Ended() {
			names = append(names, n.Name)
		}
	}
	return names
}

// newHome returns the name of a server that does not run, and would be the home of the only pool.
func (s *stage) newHome() string {
	running := s.running()
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s-%d", proctest.Colo, i)
		if !slices.Contains(running, name) && rank(s.Pools()[0], append(slices.Clone(running), name))[0] == name {
			return name
		}
	}
}

// join starts a server, which may have run before.
func (s *stage) join(name string) *proctest.Node {
	if i := slices.IndexFunc(s.Servers, func(n *proctest.Node) bool { return n.Name == name }); i >= 0 {
		s.Servers[i].Start()
		return s.Servers[i]
	}
	return s.StartServer(name)
}

// rank returns the names of servers in the order in which they are the home of a pool.
func rank(pool string, names []string) (ranked []string) {
	var all []*fleet.Server
	for _, name := range names {
		all = append(all, &fleet.Server{
			Colo: proctest.Colo, Node: name, State: fleet.StateActive,
			Protocol: fleet.ProtocolRange{Min: fleet.OldestProtocol, Max: fleet.Protocol},
		})
	}
	for _, s := range homes.Rank(pool, all) {
		ranked = append(ranked, s.Node)
	}
	return ranked
}

// After each handover, another server grants again within the time that is stated for it, no engine is over its limit, and no
// request fails but the streams of a server that was killed.
func TestHandovers(t *testing.T) {
	t.Parallel()
	f := func(handovers ...handover) {
		t.Helper()
		t.Run(handovers[0].name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, servers, 0)
			var allowed []proctest.Outcome
			for _, h := range handovers {
				mark := h.mark
				if !testkit.Soak() {
					mark *= 10
				}
				if gap := s.perform(h); gap > mark {
					t.Errorf("%s: no request was started for %v, want at most %v", h.name, gap, mark)
				}
				allowed = append(allowed, h.allowed...)
			}
			results := s.load.Stop()
			results.Check(t, allowed...)
			s.CheckRest()
			s.CheckPeaks()
			s.End(results)
		})
	}
	f(joining, draining, killedAndStarted)
	f(cutFromEtcd)
	f(killed)
	if testkit.Soak() { // it takes 17 s
		f(stopped)
	}
}

// The times of handovers, in which no request is started on an engine. Each iteration is one handover of a fleet of three
// servers; -benchtime 500x gives a p99 that means something.
func BenchmarkHandover(b *testing.B) {
	f := func(h handover, delay time.Duration) {
		name := h.name
		if delay > 0 {
			name = fmt.Sprintf("%s-etcd-%v-away", name, 2*delay)
		}
		b.Run(name, func(b *testing.B) {
			s := newStage(b, servers, delay)
			var gaps []time.Duration
			for b.Loop() {
				gaps = append(gaps, s.perform(h))
			}
			slices.Sort(gaps)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(gaps[len(gaps)/2].Milliseconds()), "p50-ms")
			b.ReportMetric(float64(gaps[(len(gaps)*99+99)/100-1].Milliseconds()), "p99-ms")
			b.ReportMetric(float64(gaps[len(gaps)-1].Milliseconds()), "max-ms")
			s.CheckPeaks()
		})
	}
	const half = 25 * time.Millisecond
	for _, h := range []handover{joining, draining} {
		f(h, 0)
		f(h, half)
	}
	for _, h := range []handover{killedAndStarted, killed, stopped, cutFromEtcd} {
		f(h, 0)
	}
}
