package entry

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Unreached is a colo from which requests come back without a word of it, as far as this entry has tried.
type Unreached struct {
	Colo  string    `json:"colo"`
	Since time.Time `json:"since"` // the first failure since it was last reached
	Last  time.Time `json:"last"`
	Times int       `json:"times"`
	Why   string    `json:"why"` // of the last
}

// missed notes a request that has not reached a colo.
func (o *observations) missed(colo string, why error, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pruneLocked()
	u, ok := o.unreached[colo]
	if !ok {
		u = Unreached{Colo: colo, Since: now}
	}
	u.Last, u.Why = now, why.Error()
	u.Times++
	o.unreached[colo] = u
}

// reached notes one that has.
func (o *observations) reached(colo string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.unreached, colo)
}

// Unreached returns the colos that the last request to each has not reached.
func (e *Entry) Unreached() []Unreached {
	e.observed.mu.Lock()
	defer e.observed.mu.Unlock()
	e.observed.pruneLocked()
	return slices.SortedFunc(maps.Values(e.observed.unreached),
		func(a, b Unreached) int { return cmp.Compare(a.Colo, b.Colo) })
}
