package entry

import (
	"sync"
	"time"
)

const (
	// enoughTold is after how many answers a balancer sends nobody any more: most take three.
	enoughTold = 3
	// overdue is after how many of its intervals a prober has stopped to ask.
	overdue     = 3
	mostProbers = 64
)

// probers are who asks at intervals whether the entry is ready, by address. An entry that drains serves until each has
// been told often enough: to them, a port that closes before is a node that failed. Who asks only now and then is not
// waited for; nor is anybody, when nobody asks. Only questions at the public port count: who asks at the admin listener
// hears of a drain as long as the node runs.
type probers struct {
	mu        sync.Mutex // guards the field below
	byAddress map[string]*prober
}

type prober struct {
	last  time.Time
	every time.Duration // between its last two questions; 0 = it has asked once
	told  int           // how often it heard that we drain
}

// asked notes a question that is answered now.
func (p *probers) asked(address string, draining bool, now time.Time) {
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
			p.byAddress = map[string]*prober{}
		}
		who = &prober{last: now}
		p.byAddress[address] = who
	}
	who.last, who.every = now, now.Sub(who.last)
	if draining {
		who.told++
	}
}

// expected says that somebody will ask again who has not been told often enough.
func (p *probers) expected() bool {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, who := range p.byAddress {
		if who.told < enoughTold && who.isDue(now) {
			return true
		}
	}
	return false
}

// isDue says that a prober will ask again, if it goes on as before.
func (who *prober) isDue(now time.Time) bool { return now.Sub(who.last) < overdue*who.every }

// forgetLocked makes room: who has asked only once goes, too.
func (p *probers) forgetLocked(now time.Time) {
	for address, who := range p.byAddress {
		if !who.isDue(now) {
			delete(p.byAddress, address)
		}
	}
}
