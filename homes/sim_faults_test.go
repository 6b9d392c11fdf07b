package homes_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"time"
)

const (
	settleTime = 3 * time.Second  // before the first fault
	faultTime  = 40 * time.Second // in which faults begin
	healTime   = 25 * time.Second // after the last fault has healed, until every engine must be granted on
	quietTime  = 22 * time.Second // without requests, until nothing is held
)

// newSimulation returns a colo without servers, and with a few engines.
func newSimulation(seed uint64, broken rule) *simulation {
	s := &simulation{rng: rand.New(rand.NewPCG(seed, 12)), broken: broken, latency: 2 * time.Millisecond, sendLater: 0.05, servers: 2}
	if s.likely(0.5) {
		s.servers = 3
	}
	if s.likely(0.3) {
		s.latency = 50 * time.Millisecond
	}
	s.store = newStore(s)
	s.pools = []string{"llama", "qwen", "bge"}[:1+s.rng.IntN(3)]
	fleet := documents{}
	for i := range len(s.pools) + s.rng.IntN(2) {
		fleet[fmt.Sprintf("http://e%d:8000", i+1)] = engineDocument{pool: s.pools[i%len(s.pools)], limit: 1 + s.rng.IntN(4)}
	}
	s.store.fleet = fleet
	return s
}

// join starts a server of a new name on a new host.
func (s *simulation) join() *process {
	return s.start(fmt.Sprintf("ams-%d", len(s.hosts)+1), s.newHost())
}

func (s *simulation) newHost() *host {
	h := &host{name: fmt.Sprintf("10.0.0.%d:8443", len(s.hosts)+1)}
	s.hosts = append(s.hosts, h)
	return h
}

// living returns the processes that live, stopped or not.
func (s *simulation) living() []*process {
	var all []*process
	for _, p := range s.processes {
		if !p.dead {
			all = append(all, p)
		}
	}
	return all
}

// fault begins a fault, and returns the name of it for the report. It ends by itself, or when everything is healed.
type fault struct {
	name string
	do   func(*simulation, *process)
}

func faults() []fault {
	return []fault{
		{"join", func(s *simulation, _ *process) {
			if len(s.living()) < 5 {
				s.join()
			}
		}},
		{"drain", func(_ *simulation, p *process) { p.drain() }},
		{"kill", func(_ *simulation, p *process) { p.kill() }},
		{"restart", func(s *simulation, p *process) { s.restart(p) }},
		{"rolling restart", func(s *simulation, p *process) { s.restartGracefully(p) }},
		{"host lost", func(_ *simulation, p *process) { p.loseHost() }},
		{"replaced elsewhere", func(s *simulation, p *process) { s.replaceElsewhere(p) }},
		{"stop", func(s *simulation, p *process) { s.stopFor(p, s.between(300*time.Millisecond, 30*time.Second), false) }},
		{"suspend", func(s *simulation, p *process) { s.stopFor(p, s.between(300*time.Millisecond, 30*time.Second), true) }},
		{"cut from the store", func(s *simulation, p *process) {
			s.cutFromStore(p.host, s.between(500*time.Millisecond, 25*time.Second))
		}},
		{"cut from a server", func(s *simulation, p *process) {
			s.cutFrom(p.host, pick(s, s.hosts), s.between(500*time.Millisecond, 25*time.Second))
		}},
		{"cut from all", func(s *simulation, p *process) { s.cutFromAll(p, s.between(500*time.Millisecond, 25*time.Second)) }},
		{"store away", func(s *simulation, _ *process) { s.storeAway(s.between(500*time.Millisecond, 30*time.Second)) }},
		{"store restored", func(s *simulation, _ *process) { s.restoreStore() }},
		{"late records", func(s *simulation, p *process) { p.records.lateTill = s.now + s.between(time.Second, 20*time.Second) }},
		{"late tables", func(s *simulation, p *process) { p.tables.lateTill = s.now + s.between(time.Second, 20*time.Second) }},
		{"slow calls", func(s *simulation, _ *process) { s.slowFor(s.between(time.Second, 20*time.Second)) }},
		{"documents", func(s *simulation, _ *process) { s.changeDocuments() }},
	}
}

func (p *process) drain() {
	if p.dead || p.stopped || p.draining || !p.lease.registered {
		return
	}
	p.sim.tracef("%s drains", p)
	p.draining = true
	p.announceDrain()
}

// announceDrain puts the state into the registration, until it stands.
func (p *process) announceDrain() {
	id := p.lease.ids[len(p.lease.ids)-1]
	done := false
	p.call(func(st *store) {
		if r, ok := st.servers[p.Node]; ok && r.lease == id {
			r.draining, done = true, true
			st.commit(func(t *transaction) { t.putServer(r) })
		}
	}, func(bool) {
		if !done {
			p.after(time.Second, p.announceDrain)
		}
	})
}

func (s *simulation) restart(p *process) {
	p.kill()
	s.after(s.between(100*time.Millisecond, 3*time.Second), func() { s.startAgain(p) })
}

// startAgain starts the next process in the directory of a dead one.
func (s *simulation) startAgain(p *process) {
	if p.dead && p.host.runs == nil && !p.host.lost && len(s.living()) < 5 {
		s.start(p.Node, p.host)
	}
}

func (s *simulation) restartGracefully(p *process) {
	p.drain()
	var again func()
	again = func() {
		if p.dead {
			s.startAgain(p)
		} else if !s.quiet {
			s.after(300*time.Millisecond, again)
		}
	}
	again()
}

func (p *process) loseHost() {
	p.sim.tracef("%s is lost", p.host.name)
	p.host.lost = true
	p.kill()
}

// replaceElsewhere lets another process have the name of one that is stopped, or whose host is lost.
func (s *simulation) replaceElsewhere(p *process) {
	if s.likely(0.5) {
		p.loseHost()
	} else {
		s.stopFor(p, s.between(5*time.Second, 30*time.Second), false)
	}
	s.after(s.between(100*time.Millisecond, 5*time.Second), func() {
		if len(s.living()) < 5 {
			s.start(p.Node, s.newHost())
		}
	})
}

func (s *simulation) stopFor(p *process, d time.Duration, suspend bool) {
	if !p.stopped {
		p.stop(suspend)
		s.after(d, p.resume)
	}
}

func (s *simulation) cutFromStore(h *host, d time.Duration) {
	s.tracef("%s is cut from the store for %v", h.name, d)
	h.storeCut.holds = true
	s.after(d, func() { h.storeCut = cut{ended: s.now} })
}

func (s *simulation) cutFromAll(p *process, d time.Duration) {
	s.cutFromStore(p.host, d)
	for _, h := range s.hosts {
		s.cutFrom(p.host, h, d)
	}
}

func (s *simulation) cutFrom(a, b *host, d time.Duration) {
	if a == b {
		return
	}
	s.tracef("%s and %s are cut for %v", a.name, b.name, d)
	s.net.setCut(a, b, true)
	a.netCut.holds, b.netCut.holds = true, true
	s.after(d, func() {
		s.net.setCut(a, b, false)
		a.netCut, b.netCut = cut{ended: s.now}, cut{ended: s.now}
	})
}

func (s *simulation) storeAway(d time.Duration) {
	if s.store.away {
		return
	}
	s.tracef("the store is away for %v", d)
	s.store.setAway(true)
	s.after(d, func() {
		s.tracef("the store is back")
		s.store.setAway(false)
	})
}

func (s *simulation) slowFor(d time.Duration) {
	s.tracef("calls are slow for %v", d)
	s.slowCalls = 0.3
	s.after(d, func() { s.slowCalls = 0 })
}

// changeDocuments moves an engine to another pool, removes or adds one, or changes a limit.
func (s *simulation) changeDocuments() {
	fleet := maps.Clone(s.store.fleet)
	url := pick(s, sortedKeys(fleet))
	e := fleet[url]
	switch s.rng.IntN(4) {
	case 0:
		e.pool = pick(s, s.pools)
		fleet[url] = e
	case 1:
		e.limit = 1 + s.rng.IntN(4)
		fleet[url] = e
	case 2:
		if len(fleet) > 1 {
			delete(fleet, url)
			s.after(s.between(100*time.Millisecond, 5*time.Second), func() { s.putDocument(url, e) })
		}
	case 3:
		s.putDocument(fmt.Sprintf("http://n%d:8000", 1+s.rng.IntN(2)), e)
		return
	}
	s.putFleet(fleet)
}

func (s *simulation) putDocument(url string, e engineDocument) {
	fleet := maps.Clone(s.store.fleet)
	fleet[url] = e
	s.putFleet(fleet)
}

func (s *simulation) putFleet(fleet documents) {
	s.tracef("the documents become %v", fleet)
	s.store.fleet = fleet
	s.store.commit(func(t *transaction) { t.event.table = true })
}
