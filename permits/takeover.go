package permits

import (
	"runtime"
	"time"

	"colonnade/fairqueue"
)

// Learned is what a pool has learned of the requests that it served, so that a pool of another server can go on with it. Its JSON is what
// servers tell each other.
type Learned struct {
	Released   int     `json:"released,omitempty"`     // permits whose holds were measured
	HeldMillis float64 `json:"mean_held_ms,omitempty"` // from their grant to their release, on the mean

	// The fields below are in the unit of Cost, and nothing ByRequests.
	Cost              string                   `json:"cost,omitempty"`
	CostPerSlotSecond float64                  `json:"cost_per_slot_second,omitempty"` // what requests use while they hold a slot
	Served            int                      `json:"served,omitempty"`               // requests of which that is the mean
	Costs             fairqueue.Costs          `json:"costs,omitzero"`                 // of all accounts
	Accounts          []fairqueue.AccountCosts `json:"accounts,omitempty"`             // the busiest first
}

// Bounds of what is taken over.
const (
	maxAdoptedReleases = 1 << 30
	maxAdoptedHold     = 24 * time.Hour
	maxAdoptedCost     = 1e12 // per second
	// MaxAdoptedAccounts is how many accounts Adopt takes over at most.
	MaxAdoptedAccounts = 256
)

// Learned returns what the pool has learned, with the costs of at most so many accounts. Like DetailedStats, it looks at every account that
// is kept, and releases the mutex meanwhile.
func (p *Pool) Learned(accounts int) Learned {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := Learned{Released: p.holds.completions, HeldMillis: p.holds.mean / float64(time.Millisecond)}
	if p.config.Cost == ByRequests {
		return l
	}
	seen := 0
	var busiest fairqueue.Busiest
	p.queue.Visit(func(a fairqueue.Account) {
		if seen++; seen%accountsPerVisit == 0 {
			p.mu.Unlock()
			runtime.Gosched() // as in DetailedStats
			p.mu.Lock()
		}
		busiest.Add(a, accounts)
	})
	l.Cost, l.Costs = p.config.Cost.String(), p.queue.Costs()
	l.Served, l.CostPerSlotSecond = p.holds.slotCost.served, p.holds.slotCost.perSecond
	for _, b := range busiest {
		l.Accounts = append(l.Accounts, b.AccountCosts)
	}
	return l
}

// Adopt takes over what the pool of another server has learned, where this one knows too little to use it. Values that cannot be true are left
// out. It reports whether it has taken over the mean hold.
func (p *Pool) Adopt(l *Learned) (holds bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holds.completions < minCompletions && l.holdsUsable() {
		// The few permits that were released here are those held for the shortest time.
		p.holds.completions += min(l.Released, maxAdoptedReleases)
		p.holds.mean = l.HeldMillis * float64(time.Millisecond)
		holds = true
	}
	if p.config.Cost == ByRequests || l.Cost != p.config.Cost.String() {
		return holds
	}
	if c := &p.holds.slotCost; c.served < minCompletions && l.Served >= minCompletions && l.CostPerSlotSecond > 0 && l.CostPerSlotSecond <= maxAdoptedCost {
		c.served, c.perSecond = c.served+min(l.Served, meanWindow), l.CostPerSlotSecond
	}
	p.queue.AdoptCosts(l.Costs)
	for _, a := range l.Accounts[:min(len(l.Accounts), MaxAdoptedAccounts)] {
		p.queue.AdoptAccount(a)
	}
	return holds
}

// holdsUsable reports whether the mean hold can be true, and is one that is used; NaN is not.
func (l *Learned) holdsUsable() bool {
	return l.Released >= minCompletions && l.HeldMillis > 0 && l.HeldMillis <= float64(maxAdoptedHold.Milliseconds())
}
