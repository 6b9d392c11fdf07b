package entry

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Unreached is a colo that has not answered the latest request of this entry.
type Unreached struct {
	Colo  string    `json:"colo"`
	Since time.Time `json:"since"` // of the first failure since the colo was last reached
	Last  time.Time `json:"last"`
	Times int       `json:"times"`
	Error string    `json:"error"` // the latest
}

// noteUnreached notes a request that did not reach a colo.
func (o *observations) noteUnreached(colo string, why error, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pruneLocked()
	u, ok := o.unreached[colo]
	if !ok {
		u = Unreached{Colo: colo, Since: now}
	}
	u.Last, u.Error = now, why.Error()
	u.Times++
	o.unreached[colo] = u
}

// noteReached notes a request that reached a colo.
func (o *observations) noteReached(colo string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.unreached, colo)
}

// Unreached returns the colos that have not answered the latest request to them, sorted by name.
func (e *Entry) Unreached() []Unreached {
	e.observed.mu.Lock()
	defer e.observed.mu.Unlock()
	e.observed.pruneLocked()
	return slices.SortedFunc(maps.Values(e.observed.unreached),
		func(a, b Unreached) int { return cmp.Compare(a.Colo, b.Colo) })
}
