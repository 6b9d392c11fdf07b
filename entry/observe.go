package entry

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/analytics/metrics"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/openai"
	"colonnade/roundtrip"
	"colonnade/routing"
)

// hintLifetime is how long a colo that was reported full counts as full.
const hintLifetime = 2 * time.Second

// observations is what an entry has observed of the colos and servers in its table. A change of the table removes what was observed of colos,
// servers and pools that are no longer in it. Plans read it for each colo, so that takes no lock.
type observations struct {
	table   func() *fleet.Table
	isLocal func(*fleet.Server) bool // whether a server runs in this process
	random  func() float64           // from [0, 1)

	colos atomic.Pointer[coloStates]

	mu           sync.Mutex // guards changes of colos, and the field below
	unresponsive map[serverIn]Unresponsive
}

type poolIn struct{ pool, colo string }

// coloStates are the states of the colos of a table. Later tables have the same states.
type coloStates struct {
	table  *fleet.Table
	byName map[string]*coloState // is not changed
}

// coloState is what an entry has observed of one colo.
type coloState struct {
	name      string
	isLocal   atomic.Bool                          // a server of the colo runs in this process
	unreached atomic.Bool                          // of reach
	roundTrip atomic.Int64                         // of estimator, in ns; negative = not measured
	belief    atomic.Int32                         // whether the colo accepts the hop tokens of this entry; see disbelieving
	asked     atomic.Bool                          // a plan has asked for the distance since the last ping
	loads     atomic.Pointer[map[string]*poolLoad] // by pool; a map is not changed

	mu         sync.Mutex // guards changes of the fields above, and the fields below
	estimator  roundtrip.Estimator
	reach      reach
	rejections int // answers in a row that have rejected this entry
	pings      pings
}

// poolLoad is the latest load of a pool that its colo has reported.
type poolLoad struct {
	free, limit atomic.Int64
	engines     atomic.Uint32             // of hop.Load, as a request has reported them that wanted to know; 0 = none has
	fullAt      atomic.Pointer[time.Time] // nil = there was a free slot
}

func newObservations(table func() *fleet.Table, isLocal func(*fleet.Server) bool) *observations {
	o := &observations{table: table, isLocal: isLocal, random: rand.Float64, unresponsive: map[serverIn]Unresponsive{}}
	o.colos.Store(&coloStates{})
	return o
}

func newColoState(name string) *coloState {
	s := &coloState{name: name}
	s.roundTrip.Store(-1)
	s.loads.Store(&map[string]*poolLoad{})
	return s
}

// states returns the states of the colos in the table in force.
func (o *observations) states() *coloStates {
	if s := o.colos.Load(); s.table == o.table() {
		return s
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pruneLocked()
}

// state returns the state of a colo, or nil if the table in force does not have it.
func (o *observations) state(colo string) *coloState { return o.states().byName[colo] }

// pruneLocked removes colos, servers and pools that the table in force does not have, and adds the colos that it has.
func (o *observations) pruneLocked() *coloStates {
	t, before := o.table(), o.colos.Load()
	if t == before.table {
		return before
	}
	after := &coloStates{table: t, byName: make(map[string]*coloState, len(t.Colos()))}
	pools := map[string]bool{}
	for _, p := range t.Pools() {
		pools[p.Name] = true
	}
	for _, c := range t.Colos() {
		s := before.byName[c.Name]
		if s == nil {
			s = newColoState(c.Name)
		}
		s.isLocal.Store(slices.ContainsFunc(t.Servers(c.Name), o.isLocal))
		s.prunePools(pools)
		after.byName[c.Name] = s
	}
	maps.DeleteFunc(o.unresponsive, func(at serverIn, _ Unresponsive) bool { return serverOf(t, at.colo, at.node) == nil })
	o.colos.Store(after)
	return after
}

// prunePools removes the loads of pools that are not in a table.
func (s *coloState) prunePools(inTable map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isGone := func(pool string) bool { return !inTable[pool] }
	for pool := range *s.loads.Load() {
		if isGone(pool) {
			kept := maps.Clone(*s.loads.Load())
			maps.DeleteFunc(kept, func(pool string, _ *poolLoad) bool { return isGone(pool) })
			s.loads.Store(&kept)
			return
		}
	}
}

// load returns the load of a pool, which it adds if there is none.
func (s *coloState) load(pool string) *poolLoad {
	if l := (*s.loads.Load())[pool]; l != nil {
		return l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := *s.loads.Load()
	if l := known[pool]; l != nil {
		return l
	}
	more := maps.Clone(known)
	l := new(poolLoad)
	more[pool] = l
	s.loads.Store(&more)
	return l
}

// noteLoad notes the load of a pool as an answer reports it.
func (o *observations) noteLoad(at poolIn, load hop.Load, now time.Time) {
	s := o.state(at.colo)
	if s == nil {
		return
	}
	l := s.load(at.pool)
	l.free.Store(int64(load.Free))
	l.limit.Store(int64(load.Limit))
	if load.Engines != 0 {
		l.engines.Store(load.Engines)
	}
	switch {
	case load.Free == 0:
		at := now // so that now stays on the stack of all others
		l.fullAt.Store(&at)
	case l.fullAt.Load() != nil:
		l.fullAt.Store(nil)
	}
}

// seen returns what is known of a pool in a colo. A pool is full if it was reported full within the last two seconds.
func (o *observations) seen(at poolIn, now time.Time) routing.Seen {
	s := o.state(at.colo)
	if s == nil {
		return routing.Seen{}
	}
	seen := routing.Seen{Unreached: s.unreached.Load()}
	if l := (*s.loads.Load())[at.pool]; l != nil {
		fullAt := l.fullAt.Load()
		seen.Full = fullAt != nil && now.Sub(*fullAt) < hintLifetime
		seen.Free, seen.Limit, seen.Known = int(l.free.Load()), int(l.limit.Load()), true
	}
	return seen
}

// engines returns the kinds of the engines of a pool, in all colos that have reported them.
func (o *observations) engines(pool string) (all openai.Engines) {
	for _, s := range o.states().byName {
		if l := (*s.loads.Load())[pool]; l != nil {
			all |= openai.Engines(l.engines.Load())
		}
	}
	return all
}

// slotsIn returns the last reported number of slots: 0 if none was reported, negative if the pool has none.
func (o *observations) slotsIn(at poolIn) int {
	s := o.state(at.colo)
	if s == nil {
		return 0
	}
	l := (*s.loads.Load())[at.pool]
	if l == nil {
		return 0
	}
	if n := int(l.limit.Load()); n > 0 {
		return n
	}
	return -1
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
