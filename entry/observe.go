package entry

import (
	"maps"
	"slices"
	"sync"
	"time"

	"colonnade/analytics/metrics"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/routing"
)

// hintLifetime is how long a colo that was reported full counts as full.
const hintLifetime = 2 * time.Second

// observations is what the answers of colos have reported about their load, and which servers do not answer. A change of the table removes
// the reports about colos, servers and pools that are no longer in it.
type observations struct {
	table func() *fleet.Table

	mu        sync.Mutex   // guards the fields below
	pruned    *fleet.Table // the table that the fields below agree with
	full      map[poolIn]time.Time
	slots     map[poolIn]slots
	unreached map[serverIn]Unreached
}

type poolIn struct{ pool, colo string }

// slots are those of a pool in a colo, as last reported.
type slots struct{ free, limit int }

func newObservations(table func() *fleet.Table) *observations {
	return &observations{
		table: table, full: map[poolIn]time.Time{}, slots: map[poolIn]slots{}, unreached: map[serverIn]Unreached{},
	}
}

// pruneLocked removes colos, servers and pools that the table in force does not have.
func (o *observations) pruneLocked() {
	t := o.table()
	if t == o.pruned {
		return
	}
	o.pruned = t
	pools := map[string]bool{}
	for _, p := range t.Pools() {
		pools[p.Name] = true
	}
	gone := func(at poolIn) bool {
		_, ok := t.Colo(at.colo)
		return !ok || !pools[at.pool]
	}
	maps.DeleteFunc(o.full, func(at poolIn, _ time.Time) bool { return gone(at) })
	maps.DeleteFunc(o.slots, func(at poolIn, _ slots) bool { return gone(at) })
	maps.DeleteFunc(o.unreached, func(at serverIn, _ Unreached) bool {
		return serverOf(t, at.colo, at.node) == nil
	})
}

// noteLoad notes the load of a pool as an answer reports it.
func (o *observations) noteLoad(at poolIn, load hop.Load, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pruneLocked()
	o.slots[at] = slots{load.Free, load.Limit}
	if load.Free == 0 {
		o.full[at] = now
	} else {
		delete(o.full, at)
	}
}

// seen returns a function that returns what is known of a pool in a colo. A pool is full if it was reported full within the last two
// seconds.
func (o *observations) seen(pool string, now time.Time) func(*fleet.Colo) routing.Seen {
	return func(c *fleet.Colo) routing.Seen {
		at := poolIn{pool, c.Name}
		o.mu.Lock()
		defer o.mu.Unlock()
		fullAt, full := o.full[at]
		reported, known := o.slots[at]
		return routing.Seen{Full: full && now.Sub(fullAt) < hintLifetime, Free: reported.free, Limit: reported.limit, Known: known}
	}
}

// slotsIn returns the last reported number of slots: 0 if none was reported, negative if the pool has none.
func (o *observations) slotsIn(at poolIn) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if reported, ok := o.slots[at]; ok && reported.limit <= 0 {
		return -1
	}
	return o.slots[at].limit
}

// activity counts requests in flight by model.
type activity struct {
	mu    sync.Mutex // guards the field below
	count map[string]int
}

func newActivity() *activity { return &activity{count: map[string]int{}} }

// add counts n more, which may be negative, for a model of the table.
func (a *activity) add(model string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count[model] += n
	if a.count[model] == 0 {
		delete(a.count, model)
	}
}

func (a *activity) total() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, count := range a.count {
		n += count
	}
	return n
}

// states lists the models of the table, sorted by name, and those that have left it while requests are still in flight.
func (a *activity) states(t *fleet.Table) []metrics.ModelState {
	a.mu.Lock()
	active := maps.Clone(a.count)
	a.mu.Unlock()
	for _, m := range t.Models() {
		active[m.Name] += 0
	}
	states := make([]metrics.ModelState, 0, len(active))
	for _, model := range slices.Sorted(maps.Keys(active)) {
		states = append(states, metrics.ModelState{Model: model, Active: active[model]})
	}
	return states
}
