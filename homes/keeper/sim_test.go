package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/testkit"
	"colonnade/permits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	pools       = 3
	engines     = 4
	concurrency = 3
	clients     = 30
	nodes       = 3
)

// simulation is a colo under load, in synthetic time: keepers, pools and permits as they are, over a model of the store. Its faults are
// those in which no engine may ever have more than its limit.
type simulation struct {
	testing.TB
	store     *store
	documents *document.Set
	boots     map[string][]string // of all processes, by node
	all       []*process
	clients   sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	processes map[string]*process
	inflight  map[string]int // requests of each engine
	served    map[string]int
}

// TestColoUnderFaults lets servers join, drain, restart and die, and cuts them from the store, while more requests come than fit.
func TestColoUnderFaults(t *testing.T) {
	t.Parallel()
	seed := testkit.Seed(t)
	for i := range uint64(testkit.AtScale(6, 200)) {
		t.Run(fmt.Sprint(seed+i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newSimulation(t).play(rand.New(rand.NewPCG(seed+i, 12))) })
		})
	}
}

func newSimulation(t testing.TB) *simulation {
	s := &simulation{
		TB: t, store: newStore(), documents: document.NewSet(), boots: map[string][]string{}, processes: map[string]*process{},
		inflight: map[string]int{}, served: map[string]int{},
	}
	for i := range engines {
		yaml := fmt.Sprintf("url: http://e%d:8000\npool: pool-%d\nconcurrency: %d\n", i, i%pools, concurrency)
		if err := s.documents.Put(fmt.Sprintf("endpoints/ams/e%d", i), []byte(yaml), 1); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// table returns the documents with these servers.
func (s *simulation) table(servers []*fleet.Server) *fleet.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	base := s.documents.Table()
	return fleet.NewTable(fleet.Contents{Servers: servers, Pools: base.Pools(), Endpoints: fleet.NewEndpointIndex(base.EndpointsOf("ams")), DefaultPool: *base.Pool("pool-0")})
}

func (s *simulation) setProcess(node string, p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes[node] = p
}

// process returns the process that listens at the address of a node; nil if it refuses connections.
func (s *simulation) process(node string) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.processes[node]
}

// play runs a history.
func (s *simulation) play(rng *rand.Rand) {
	for i := range nodes {
		s.start(fmt.Sprintf("ams-%d", i+1))
	}
	time.Sleep(2 * time.Second)
	ctx, stop := context.WithCancel(context.Background())
	for i := range clients {
		s.clients.Go(func() { s.client(ctx, fmt.Sprintf("pool-%d", i%pools)) })
	}
	for range 8 {
		time.Sleep(time.Duration(rng.IntN(5000)) * time.Millisecond)
		s.fault(rng)
	}
	s.heal()
	time.Sleep(15 * time.Second)
	s.checkServed()
	stop()
	s.clients.Wait()
	time.Sleep(2 * time.Second)
	s.checkQuiet()
	for _, p := range s.all {
		p.kill()
		p.running.Wait()
	}
}

// fault lets something happen to one of the servers, or to the store.
func (s *simulation) fault(rng *rand.Rand) {
	node := fmt.Sprintf("ams-%d", 1+rng.IntN(nodes))
	p := s.process(node)
	switch what := rng.IntN(5); {
	case p == nil:
		s.start(node)
	case what == 0:
		s.end(p)
	case what == 1:
		s.end(p)
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
		s.start(node)
	case what == 2:
		p.draining.Store(true)
	case what == 3:
		p.cut.Store(true)
		time.AfterFunc(time.Duration(rng.IntN(12000))*time.Millisecond, func() { p.cut.Store(false) })
	case what == 4:
		s.store.setAway(true)
		time.AfterFunc(time.Duration(rng.IntN(12000))*time.Millisecond, func() { s.store.setAway(false) })
	}
}

// end kills a process.
func (s *simulation) end(p *process) {
	s.setProcess(p.Node, nil)
	p.kill()
}

// heal ends all faults, and starts the servers that are missing.
func (s *simulation) heal() {
	time.Sleep(12 * time.Second)
	for i := range nodes {
		node := fmt.Sprintf("ams-%d", i+1)
		if p := s.process(node); p == nil {
			s.start(node)
		}
	}
}

// client sends requests, one after the other.
func (s *simulation) client(ctx context.Context, pool string) {
	for ctx.Err() == nil {
		if err := s.request(ctx, pool); err != nil {
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// request sends one request to the home of its pool, and to where it moves.
func (s *simulation) request(ctx context.Context, pool string) error {
	r := permits.Request{Account: "acme", MaxWait: 4 * time.Second, MaxExpected: -1, Arrived: time.Now()}
	node := fmt.Sprintf("ams-%d", 1+rand.IntN(nodes))
	for range 5 {
		p := s.process(node)
		if p == nil {
			return errRefused
		}
		moved, err := p.serve(ctx, pool, r)
		if moved == "" {
			return err
		}
		node, r.Rejoin = moved, true
		time.Sleep(5 * time.Millisecond)
	}
	return errors.New("moved too often")
}

// run is a request at its engine, of a process that has a permit. If the process is killed, the engine notices a little later.
func (s *simulation) run(p *process, url string) error {
	s.count(url, 1)
	defer s.count(url, -1)
	took := time.Duration(20+rand.IntN(400)) * time.Millisecond
	if rand.IntN(10) == 0 {
		took *= 10
	}
	select {
	case <-time.After(took):
		return nil
	case <-p.killed.Done():
		time.Sleep(min(took, time.Duration(rand.IntN(250))*time.Millisecond))
		return errRefused
	}
}

// count counts the requests of an engine.
func (s *simulation) count(url string, change int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inflight[url] += change
	if change > 0 {
		s.served[url]++
	}
	if n := s.inflight[url]; n > concurrency {
		s.Errorf("%s has %d requests in flight, and a limit of %d", url, n, concurrency)
	}
}

// checkServed checks that every engine gets requests again.
func (s *simulation) checkServed() {
	before := s.servedSoFar()
	time.Sleep(6 * time.Second) // longer than any request
	for url, n := range s.servedSoFar() {
		if n == before[url] {
			s.Errorf("%s gets no requests any more: %s", url, s.states(url))
		}
	}
	if len(before) != engines {
		s.Errorf("%d engines got requests, want %d", len(before), engines)
	}
}

// states returns what the servers know of an engine.
func (s *simulation) states(url string) string {
	var b strings.Builder
	for _, p := range s.all {
		if p.killed.Err() != nil {
			continue
		}
		fmt.Fprintf(&b, "%s: may grant %v, holds %d", p, p.manager.GrantsEnabled(), p.manager.Held()[url])
		for i := range pools {
			for _, e := range p.keeper.Engines(fmt.Sprintf("pool-%d", i)) {
				if e.URL == url {
					fmt.Fprintf(&b, ", %+v", e)
				}
			}
		}
		b.WriteString("; ")
	}
	return b.String()
}

func (s *simulation) servedSoFar() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	served := map[string]int{}
	for url, n := range s.served {
		served[url] = n
	}
	return served
}

// checkQuiet checks that nothing is held any more, and that the records say so.
func (s *simulation) checkQuiet() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		if p == nil {
			continue
		}
		if held := p.manager.Held(); len(held) > 0 {
			s.Errorf("%s holds %v", p, held)
		}
		if n := p.keeper.Stats().WrittenOff; n > 0 {
			s.Errorf("%s has written off %d servers, which all answered or refused connections", p, n)
		}
		if err := p.manager.Check(); err != nil {
			s.Error(err)
		}
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for of, r := range s.store.records {
		if !s.store.registered(of) || len(r.Held) > 0 {
			s.Errorf("the record of %s remains: %+v", of, r)
		}
	}
}
