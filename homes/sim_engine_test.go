package homes_test

import (
	"slices"
	"time"

	"colonnade/homes"
)

// engineNotices is the most that an engine takes to notice that a process has ended.
const engineNotices = 250 * time.Millisecond

// simEngine counts the requests that it has in hand, of all processes, dead or alive.
type simEngine struct {
	url      string
	inflight int // without those of the exception
}

// request is a permit of a process, from its grant to the end of its response.
type request struct {
	p          *process
	e          *simEngine
	epoch      uint64 // of the fence, at the grant
	ended      bool
	excepted   bool // its process was written off: it counts no more
	writtenOff bool // its process was written off since the grant
}

func (s *simulation) engine(url string) *simEngine {
	for _, e := range s.engines {
		if e.url == url {
			return e
		}
	}
	e := &simEngine{url: url}
	s.engines = append(s.engines, e)
	return e
}

// applyShares brings into force where the process may grant.
func (p *process) applyShares() {
	before := p.shares
	p.shares = p.ownership.Shares()
	if p.sim.without(grantsEndBeforePut) && p.lease.registered && !p.lease.lost {
		for url, share := range before {
			if _, standing := p.put.owns[url]; standing {
				p.shares[url] = share
			}
		}
	}
	if p.sim.without(laterPut) {
		p.takeUpAgain(before)
	}
	if p.sim.without(takenByOthers) {
		for url := range p.shares {
			p.shares[url] = homes.Share{}
		}
	}
	p.fillAll()
}

// takeUpAgain grants on engines that were given up, while no put is known to stand that says so.
func (p *process) takeUpAgain(before map[string]homes.Share) {
	wanted := p.wanted()
	for url, share := range before {
		if !wanted[url] {
			p.dropped[url] = share
		}
	}
	for url, share := range p.dropped {
		if _, standing := p.put.owns[url]; !standing || !p.lease.registered || p.lease.lost {
			delete(p.dropped, url)
		} else if wanted[url] {
			p.shares[url] = share
		}
	}
}

func (p *process) fillAll() {
	for _, url := range sortedKeys(p.shares) {
		p.fill(url)
	}
}

// fill grants every slot that is free: there are always requests.
func (p *process) fill(url string) {
	for p.mayGrant(url) && !p.sim.quiet {
		share, limit := p.shares[url], p.table.fleet[url].limit
		if share.Taken+len(p.permits[url]) >= limit {
			return
		}
		p.grant(url)
	}
}

func (p *process) mayGrant(url string) bool {
	_, owned := p.shares[url]
	_, known := p.table.fleet[url]
	return owned && known && !p.dead && (p.fence.valid(p.clock()) || p.sim.without(comparisonAtGrant))
}

// grant gives a permit to a request. It is sent at once, or a little later.
func (p *process) grant(url string) {
	s := p.sim
	r := &request{p: p, e: s.engine(url), epoch: p.fence.epoch}
	p.permits[url] = append(p.permits[url], r)
	r.e.inflight++
	s.checkGrant(r)
	if !s.likely(s.sendLater) {
		r.send()
		return
	}
	p.after(s.between(0, 50*time.Millisecond), func() {
		switch {
		case !s.without(comparisonBeforeSending) && (!p.fence.valid(p.clock()) || p.fence.epoch != r.epoch):
			r.end()
		case r.writtenOff && !p.suspended:
			s.problemf("%s sends a request to %s that it granted before it was written off", p, url)
		default:
			r.send()
		}
	})
}

// send sends the request to its engine, where it ends some time later.
func (r *request) send() {
	s := r.p.sim
	took := s.between(20*time.Millisecond, 2*time.Second)
	if s.likely(0.15) {
		took = s.between(time.Second, 20*time.Second)
	}
	r.p.after(took, r.end)
	s.after(took, func() {
		if r.p.dead {
			r.vanish() // its host was lost, and the engine did not notice
		}
	})
}

// end ends a request as its process sees it.
func (r *request) end() {
	url := r.e.url
	r.vanish()
	r.p.permits[url] = slices.DeleteFunc(r.p.permits[url], func(other *request) bool { return other == r })
	r.p.fill(url)
}

// vanish takes the request from its engine.
func (r *request) vanish() {
	if !r.ended && !r.excepted {
		r.e.inflight--
	}
	r.ended = true
}

// held returns how many permits the process has on each engine.
func (p *process) held() map[string]int {
	held := map[string]int{}
	for url, list := range p.permits {
		if len(list) > 0 {
			held[url] = len(list)
		}
	}
	return held
}

// writeOff takes the requests of a process out of the count: its record was deleted because nothing was heard of it.
func (s *simulation) writeOff(dead homes.Process) {
	for _, p := range s.processes {
		if p.Process == dead {
			s.tracef("%s is written off", p)
			p.writtenOff = true
			p.except()
			for _, url := range sortedKeys(p.permits) {
				for _, r := range p.permits[url] {
					r.writtenOff = true
				}
			}
		}
	}
}

// checkSilent notes a problem if a process that is found silent answered a moment ago, or was registered, or would have answered.
func (s *simulation) checkSilent(found homes.Process, by *process) {
	if heard, ok := by.heardFrom[found]; ok && s.now-heard < homes.SilentHold*98/100 {
		s.problemf("%s finds %s silent after %v", by, found, s.now-heard)
	}
	for _, p := range s.living() {
		since := max(p.resumed, p.host.netCut.ended) + 7*time.Second
		if p.Process == found && !p.stopped && p.host.runs == p && s.net.reaches(p.host, by.host) && s.now > since {
			s.problemf("%s finds %s silent, which would have answered", by, p)
		}
	}
}

// except takes the requests that a process has in hand out of the count.
func (p *process) except() {
	for _, url := range sortedKeys(p.permits) {
		for _, r := range p.permits[url] {
			if !r.ended && !r.excepted {
				r.e.inflight--
			}
			r.excepted = true
		}
	}
}

// standsStill reports whether the machine of a process was suspended, and its clock with it, so that it cannot know yet that it has lost
// an engine. Its fence ends soon.
func (p *process) standsStill(url string) bool {
	_, owns := p.sim.store.records[p.Process].Owns[url]
	return p.suspended && !owns
}

// cannotKnow reports whether the process goes on without the store, and cannot know of another one that has registered meanwhile: it is cut
// off from that too.
func (p *process) cannotKnow(other *process) bool {
	return !p.fence.confirmed && !p.table.registered(other.Process) &&
		p.host.storeCut.now(p.sim.now) && (p.host.netCut.now(p.sim.now) || other.host.netCut.now(p.sim.now))
}

// checkGrant checks the promise when a permit was granted.
func (s *simulation) checkGrant(r *request) {
	p, url := r.p, r.e.url
	if s.restoring() && s.restored.excepted {
		return
	}
	if p.standsStill(url) || slices.ContainsFunc(s.living(), p.cannotKnow) {
		r.excepted = true
		r.e.inflight--
		return
	}
	if p.writtenOff {
		s.problemf("%s grants on %s after it was written off", p, url)
	}
	if limit := p.table.fleet[url].limit; r.e.inflight > limit {
		s.problemf("%s has %d requests in flight, and a limit of %d; the last is of %s", url, r.e.inflight, limit, p)
	}
	for _, other := range s.processes {
		if other != p && !other.dead && !other.stopped && !other.standsStill(url) && !other.cannotKnow(p) && other.mayGrant(url) {
			s.problemf("%s and %s may grant on %s", p, other, url)
		}
	}
}
