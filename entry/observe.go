package entry

import (
	"slices"
	"strings"
	"sync"
	"time"

	"colonnade/analytics"
	"colonnade/forwarding"
)

// hintLifetime is how long a colo that was seen full is taken to be full.
const hintLifetime = 2 * time.Second

// observations is what the answers of colos told about their load, and which colos give none.
type observations struct {
	mu        sync.Mutex // guards the fields below
	full      map[poolIn]time.Time
	slots     map[poolIn]int
	unreached map[string]Unreached
}

type poolIn struct{ pool, colo string }

func newObservations() *observations {
	return &observations{full: map[poolIn]time.Time{}, slots: map[poolIn]int{}, unreached: map[string]Unreached{}}
}

// note takes the header x-colonnade-load of an answer.
func (o *observations) note(at poolIn, header string, now time.Time) {
	load, err := forwarding.ParseLoad(header)
	if err != nil {
		return // an answer that says nothing of load
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slots[at] = load.Limit
	if load.Free == 0 {
		o.full[at] = now
	} else {
		delete(o.full, at)
	}
}

// wasFull says whether the pool was last seen full, a moment ago.
func (o *observations) wasFull(at poolIn, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen, ok := o.full[at]
	return ok && now.Sub(seen) < hintLifetime
}

// slotsOf is how many slots the pool was last said to have: 0 if nothing was said, negative if it has none.
func (o *observations) slotsOf(at poolIn) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n, ok := o.slots[at]; ok && n <= 0 {
		return -1
	}
	return o.slots[at]
}

// activity counts the requests in hand by model.
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

// states is what the metrics read at each scrape.
func (a *activity) states() []analytics.ModelState {
	a.mu.Lock()
	defer a.mu.Unlock()
	states := make([]analytics.ModelState, 0, len(a.count))
	for model, n := range a.count {
		states = append(states, analytics.ModelState{Model: model, Active: n})
	}
	slices.SortFunc(states, func(x, y analytics.ModelState) int { return strings.Compare(x.Model, y.Model) })
	return states
}
