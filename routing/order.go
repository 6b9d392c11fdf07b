package routing

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// scratch is the memory in which one plan is made.
type scratch struct {
	routes  *routes
	request Request
	random  rand.PCG
	colos   []coloState // by index into routes.colos
	keys    []key
	classes [classes][]key // the keys of a step, while they are sorted
	sorter  sorter
}

// coloState is what a plan has found of one colo so far.
type coloState struct {
	planned  bool
	measured bool // distance is set
	asked    bool // class and seen are set
	class    key  // full, unreached, or 0
	seen     Seen
	distance time.Duration
}

// key is the place of a colo in the order of a step: a class, then a value, and the index of the member, by which it is found
// again. Lesser keys come first.
type key uint64

const (
	indexBits = 20
	valueBits = 41
	maxValue  = 1<<valueBits - 1
	classes   = 1 << (64 - valueBits - indexBits)

	// The classes, of which a key may have several bits.
	behind    = key(1) << (valueBits + indexBits) // the colo lacks the weight or the report by which the step orders
	full      = behind << 1
	unreached = full << 1
)

// plan appends the stops of all steps to dst.
func (s *scratch) plan(dst []Stop, r *routes, request Request) []Stop {
	s.routes, s.request = r, request
	s.random.Seed(request.Seed, 0)
	s.colos = slices.Grow(s.colos[:0], len(r.colos))[:len(r.colos)]
	clear(s.colos)
	for i := range r.steps {
		step := &r.steps[i]
		s.order(step)
		for _, k := range s.keys {
			at := step.members[k.index()].colo
			s.colos[at].planned = true
			dst = append(dst, Stop{Colo: r.colos[at], Step: i + 1, Last: k.reason()})
		}
	}
	return dst
}

// mostSelected is the greatest number of attempts for which the least keys are selected one by one; beyond it, sorting all is quicker.
const mostSelected = 16

// order sets the keys to the colos that a step yields, in order.
func (s *scratch) order(step *step) {
	s.keys = s.keys[:0]
	few := step.attempts > 0 && step.attempts <= mostSelected
	for i, m := range step.members {
		if s.colos[m.colo].planned || step.within > 0 && s.distance(m.colo) > step.within {
			continue
		}
		k := s.value(step, m) | key(i)
		if few && len(s.keys) == step.attempts && k >= s.keys[len(s.keys)-1] {
			continue // whether it is full cannot bring it forward
		}
		if s.request.Seen != nil {
			k |= s.ask(m.colo).class
		}
		if few {
			s.insert(k, step.attempts)
		} else {
			class := &s.classes[k>>(indexBits+valueBits)]
			*class = append(*class, k)
		}
	}
	if few {
		return
	}
	for i := range s.classes {
		class := s.classes[i]
		if step.pick != pickOrder {
			class = s.sorter.sort(class)
		}
		s.keys = append(s.keys, class...)
		s.classes[i] = s.classes[i][:0]
	}
	if step.attempts > 0 {
		s.keys = s.keys[:min(step.attempts, len(s.keys))]
	}
}

// insert inserts a key into the sorted keys, of which it keeps the least n.
func (s *scratch) insert(k key, n int) {
	if len(s.keys) < n {
		s.keys = append(s.keys, k)
	} else if k >= s.keys[n-1] {
		return
	}
	i := len(s.keys) - 1
	for ; i > 0 && s.keys[i-1] > k; i-- {
		s.keys[i] = s.keys[i-1]
	}
	s.keys[i] = k
}

// value returns the key of a member without its index, and as though it were neither full nor unreached.
func (s *scratch) value(step *step, m member) key {
	switch step.pick {
	case pickOrder:
		return 0
	case pickRandom:
		return s.randomValue()
	case pickLatency:
		return distanceValue(s.distance(m.colo))
	case pickLeastLoaded:
		return s.loadValue(m.colo)
	}
	switch {
	case m.weight > 0:
		return s.drawnValue(m.weight)
	case step.pick == pickFlow:
		return behind | distanceValue(s.distance(m.colo))
	}
	return behind
}

func (s *scratch) randomValue() key {
	return key(s.random.Uint64()>>(64-valueBits)) << indexBits
}

func distanceValue(d time.Duration) key {
	return key(min(max(d, 0), maxValue)) << indexBits
}

// loadValue puts the largest fraction of free slots first, and equal ones in random order.
func (s *scratch) loadValue(colo int) key {
	value := s.randomValue()
	if s.request.Seen == nil {
		return behind | value
	}
	seen := &s.ask(colo).seen
	if !seen.hasLoad() {
		return behind | value
	}
	const takenBits = 20
	limit := uint64(min(seen.Limit, math.MaxInt32)) // so that the product fits; the slots of a colo are far fewer
	taken := limit - uint64(min(max(seen.Free, 0), int(limit)))
	return key(taken*(1<<takenBits-1)/limit)<<(indexBits+valueBits-takenBits) | value>>(takenBits+indexBits)<<indexBits
}

// drawnValue returns an exponentially distributed number with the weight as its rate. The order of positive floating-point
// numbers is that of their bits, of which the lowest are dropped: 30 bits of the mantissa are left.
func (s *scratch) drawnValue(weight float64) key {
	uniform := (float64(s.random.Uint64()>>11) + 0.5) / (1 << 53)
	drawn := -math.Log(uniform) / weight
	return key(math.Float64bits(drawn)>>(63-valueBits)) << indexBits
}

// distance returns the round trip to a colo.
func (s *scratch) distance(colo int) time.Duration {
	if s.request.RoundTrip == nil {
		return s.routes.guesses[colo]
	}
	c := &s.colos[colo]
	if !c.measured {
		d, ok := s.request.RoundTrip(s.routes.colos[colo])
		if !ok {
			d = s.routes.guesses[colo]
		}
		c.distance, c.measured = d, true
	}
	return c.distance
}

// ask returns the state of a colo, with what is known of the pool there.
func (s *scratch) ask(colo int) *coloState {
	c := &s.colos[colo]
	if c.asked {
		return c
	}
	c.seen, c.asked = s.request.Seen(s.routes.colos[colo]), true
	switch { // as Seen.reason
	case c.seen.Unreached:
		c.class = unreached
	case c.seen.Full:
		c.class = full
	}
	return c
}

func (k key) index() int { return int(k & (1<<indexBits - 1)) }

// reason returns why the colo stands last in its step.
func (k key) reason() Reason {
	switch {
	case k&unreached != 0:
		return ReasonUnreached
	case k&full != 0:
		return ReasonFull
	}
	return ""
}
