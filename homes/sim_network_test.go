package homes_test

import "time"

// host is a machine. A process on another one has another address.
type host struct {
	name     string
	lost     bool         // without a word: nothing answers there
	storeCut cut          // from the store
	netCut   cut          // from other hosts: the last one
	boots    []string     // of processes that ran here, and had the lock of the directory one after the other
	runs     *process     // the process that listens here; nil = its address refuses connections
	saved    *tableOfColo // the table that its last process kept on disk
}

// host returns the machine that has an address.
func (s *simulation) host(address string) *host {
	for _, h := range s.hosts {
		if h.name == address {
			return h
		}
	}
	panic("no host has the address " + address)
}

// cut is a cut of a host from something.
type cut struct {
	holds bool
	ended time.Duration // the last one
}

// now reports whether the cut holds, or ended so short a time ago that the process may not have noticed.
func (c *cut) now(at time.Duration) bool { return c.holds || c.ended > 0 && at < c.ended+2*time.Second }

// network has what is cut between hosts.
type network struct{ cuts map[[2]*host]bool }

func (n *network) setCut(a, b *host, cut bool) {
	if n.cuts == nil {
		n.cuts = map[[2]*host]bool{}
	}
	for _, pair := range [][2]*host{{a, b}, {b, a}} {
		if delete(n.cuts, pair); cut {
			n.cuts[pair] = true
		}
	}
}

// reaches reports whether a message between two hosts arrives.
func (n *network) reaches(a, b *host) bool {
	return !a.lost && !b.lost && !n.cuts[[2]*host{a, b}]
}

// toStore carries a call to the store. It may arrive after its caller has given up, also after a cut, or never.
func (s *simulation) toStore(from *host, arrive func()) {
	delay := s.hopTime()
	if s.likely(s.slowCalls) {
		delay += s.between(0, 15*time.Second)
	}
	s.after(delay, func() { s.arriveAtStore(from, arrive, 12) })
}

func (s *simulation) arriveAtStore(from *host, arrive func(), retransmissions int) {
	switch {
	case from.lost:
	case !s.store.away && !from.storeCut.holds:
		arrive()
	case retransmissions > 0 && s.likely(0.85):
		s.after(s.between(200*time.Millisecond, 2*time.Second), func() { s.arriveAtStore(from, arrive, retransmissions-1) })
	}
}

// call makes a call of the store. do runs there, perhaps after the caller has given up, perhaps never. done runs once in the process, and
// learns whether the answer came in time.
func (p *process) call(do func(*store), done func(answered bool)) {
	s, finished := p.sim, false
	finish := func(answered bool) {
		if !finished {
			finished = true
			done(answered)
		}
	}
	before := p.newest
	p.after(callTimeout, func() { finish(false) })
	s.toStore(p.host, func() {
		do(s.store)
		revision := s.store.revision
		s.after(s.hopTime(), func() {
			if !s.store.away && !p.host.storeCut.holds && !p.host.lost && !s.likely(s.slowCalls/2) {
				p.run(func() {
					p.sawRevision(before, revision)
					finish(true)
				})
			}
		})
	})
}

// sawRevision takes the store's revision from an answer; before is the newest one when the call began. A lower one is that of a store that
// was restored.
func (p *process) sawRevision(before, revision int64) {
	if revision >= before {
		p.newest = max(p.newest, revision)
		return
	}
	p.sim.tracef("%s sees that the store was restored: %d after %d", p, revision, before)
	p.newest = revision
	if !p.sim.without(cautionAfterRestore) {
		p.ownership.Restored(p.alone(), p.instant())
	}
	p.records.restored()
}

// result is how a question ended.
type result int

const (
	silent result = iota
	refused
	answered
)

// ask carries a question to the process that listens at a host. reply runs there and makes the answer; done runs in the asking process.
func (p *process) ask(to *host, reply func(*process), done func(result)) {
	s, finished := p.sim, false
	began := p.clock()
	finish := func(r result) {
		if finished {
			return
		}
		finished = true
		if p.clock()-began > askTimeout {
			r = silent
		}
		done(r)
	}
	p.after(askTimeout, func() { finish(silent) })
	back := func(r result) {
		s.after(s.hopTime(), func() {
			if s.net.reaches(p.host, to) {
				p.run(func() { finish(r) })
			}
		})
	}
	delay := s.hopTime()
	if s.likely(s.slowCalls) {
		delay += s.between(0, askTimeout)
	}
	s.after(delay, func() {
		switch {
		case !s.net.reaches(p.host, to):
		case to.runs == nil:
			back(refused)
		default:
			target := to.runs
			target.run(func() {
				reply(target)
				back(answered)
			})
		}
	})
}
