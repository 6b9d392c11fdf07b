package entry

import (
	"sync"
	"time"
)

const (
	// enoughAnswers is after how many failed health checks a load balancer sends no more requests: most need three.
	enoughAnswers = 3
	// overdue is after how many of its intervals without a check a health checker has stopped.
	overdue     = 3
	mostProbers = 64
)

// healthCheckers are the clients that check readiness at intervals, by address. A draining entry serves until each of them has got enough
// answers: a port that closes earlier looks like a failed node to a load balancer. Clients that check only now and then are not waited
// for. Only checks at the public port count: the admin listener answers as long as the node runs.
type healthCheckers struct {
	mu        sync.Mutex // guards the field below
	byAddress map[string]*healthChecker
}

type healthChecker struct {
	last         time.Time
	every        time.Duration // between its last two checks; 0 = there was one check
	drainAnswers int           // answers that said that the entry drains
}

// asked notes a health check that is answered now.
func (p *healthCheckers) asked(address string, draining bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	who := p.byAddress[address]
	if who == nil {
		if len(p.byAddress) >= mostProbers {
			if p.forgetLocked(now); len(p.byAddress) >= mostProbers {
				return
			}
		}
		if p.byAddress == nil {
			p.byAddress = map[string]*healthChecker{}
		}
		who = &healthChecker{last: now}
		p.byAddress[address] = who
	}
	who.last, who.every = now, now.Sub(who.last)
	if draining {
		who.drainAnswers++
	}
}

// forgetDrain makes the next drain wait again until each health checker has got enough answers.
func (p *healthCheckers) forgetDrain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, who := range p.byAddress {
		who.drainAnswers = 0
	}
}

// expected reports whether a health checker that has not got enough answers will check again.
func (p *healthCheckers) expected() bool {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, who := range p.byAddress {
		if who.drainAnswers < enoughAnswers && who.isDue(now) {
			return true
		}
	}
	return false
}

// isDue reports whether the health checker will check again, if it goes on as before.
func (who *healthChecker) isDue(now time.Time) bool { return now.Sub(who.last) < overdue*who.every }

// forgetLocked removes health checkers that have stopped, and those that have checked only once.
func (p *healthCheckers) forgetLocked(now time.Time) {
	for address, who := range p.byAddress {
		if !who.isDue(now) {
			delete(p.byAddress, address)
		}
	}
}
