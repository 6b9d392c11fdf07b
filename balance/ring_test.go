package balance_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"colonnade/balance"
)

func ringConfig(factor float64) balance.Config {
	return balance.Config{Policy: balance.ConsistentHash, LoadFactor: factor}
}

func keyed(key uint64) *balance.Request { return &balance.Request{Key: key} }

// home returns the ID of the endpoint of a key in an idle pool.
func (p *pool) home(key uint64) string {
	p.t.Helper()
	c := p.Choose(0, keyed(key), nil)
	if c.At == balance.None || c.Prefers != balance.None || c.Why != balance.Ring {
		p.t.Fatalf("in an idle pool, the choice is %s", text(c))
	}
	return p.list[c.At].ID
}

// order returns the endpoints in the order of the ring from a key: each is made full before the next is asked for.
func (p *pool) order(key uint64) []int {
	p.t.Helper()
	before := slices.Clone(p.states)
	var order []int
	for range p.list {
		at := p.Choose(0, keyed(key), nil).At
		order = append(order, at)
		p.update(at, balance.State{})
	}
	for at, s := range before {
		p.update(at, s)
	}
	return order
}

// When an endpoint comes or goes, the keys that move are those of this endpoint, whatever the order of the list.
func TestRingMovesFewKeys(t *testing.T) {
	const keys = 5000
	all := engines(20, 1000)
	f := func(less []balance.Endpoint, lost balance.Endpoint) {
		t.Helper()
		p := newPool(t, ringConfig(1.25), all)
		before := make([]string, keys)
		for k := range before {
			before[k] = p.home(uint64(k))
		}
		p.set(less)
		moved := 0
		for k, was := range before {
			is := p.home(uint64(k))
			if (was == lost.ID) != (was != is) {
				t.Fatalf("without %s, key %d moves from %s to %s", lost.ID, k, was, is)
			}
			if was != is {
				moved++
			}
		}
		if moved < keys/40 || moved > keys/10 {
			t.Errorf("%d of %d keys move when one of 20 endpoints goes", moved, keys)
		}
		p.set(all)
		for k, was := range before {
			if is := p.home(uint64(k)); is != was {
				t.Fatalf("when all are back, key %d is at %s instead of %s", k, is, was)
			}
		}
	}
	for i := range 3 {
		f(slices.Delete(slices.Clone(all), i*7, i*7+1), all[i*7])
	}
	reversed := slices.Clone(all[1:])
	slices.Reverse(reversed)
	f(reversed, all[0])
}

// Keys are spread over endpoints by weight, also where there are so many points that each endpoint has fewer of them.
func TestRingSpreadsByWeight(t *testing.T) {
	f := func(weights ...int) {
		t.Helper()
		list, sum := engines(len(weights), 1<<20), 0
		for i, w := range weights {
			list[i].Weight = w
			sum += w
		}
		p := newPool(t, ringConfig(100), list)
		const keys = 20000
		count := map[string]int{}
		for k := range keys {
			count[p.home(uint64(k))]++
		}
		for i, w := range weights {
			got, want := float64(count[list[i].ID])/keys, float64(w)/float64(sum)
			if got < want*0.65 || got > want*1.35 {
				t.Errorf("with the weights %v, endpoint %d has %.3f of the keys, want about %.3f", weights, i, got, want)
			}
		}
	}
	f(1)
	f(1, 1)
	f(1, 1, 1, 1, 1, 1, 1, 1)
	f(1, 2, 4)
	f(1<<18, 1<<18, 1<<20)
}

// The keys of an endpoint that is not up go to the next ones, and come back.
func TestRingKeysComeBack(t *testing.T) {
	p := newPool(t, ringConfig(1.25), engines(5, 10))
	order := p.order(7)
	p.want(keyed(7), nil, balance.Choice{At: order[0], Prefers: balance.None, Why: balance.Ring})
	p.update(order[0], balance.State{})
	p.want(keyed(7), nil, balance.Choice{At: order[1], Prefers: balance.None, Why: balance.Ring})
	p.update(order[0], balance.State{Free: 10, Up: true})
	p.want(keyed(7), nil, balance.Choice{At: order[0], Prefers: balance.None, Why: balance.Ring})
}

func TestRingPrefers(t *testing.T) {
	p := newPool(t, ringConfig(100), engines(3, 2))
	order := p.order(1)
	p.full(order[0])
	p.want(keyed(1), nil, balance.Choice{At: order[1], Prefers: order[0], Why: balance.RingNext})
	p.full(order[1])
	p.want(keyed(1), nil, balance.Choice{At: order[2], Prefers: order[0], Why: balance.RingNext})
	barred := make([]bool, 3)
	barred[order[0]] = true
	p.want(keyed(1), barred, balance.Choice{At: order[2], Prefers: order[1], Why: balance.RingNext})
	p.full(order[2])
	p.want(keyed(1), nil, balance.Choice{At: balance.None, Prefers: balance.None})
}

// Two endpoints of four slots each and the factor 1: no endpoint has more than half of all, rounded up.
func TestRingBound(t *testing.T) {
	p := newPool(t, ringConfig(1), engines(2, 4))
	order := p.order(3)
	p.update(order[0], balance.State{Load: 1, Free: 3, Up: true})
	p.want(keyed(3), nil, balance.Choice{At: order[1], Prefers: balance.None, Why: balance.RingNext})
	p.update(order[1], balance.State{Load: 1, Free: 3, Up: true})
	p.want(keyed(3), nil, balance.Choice{At: order[0], Prefers: balance.None, Why: balance.Ring})
	barred := make([]bool, 2)
	barred[order[1]] = true
	p.update(order[0], balance.State{Load: 3, Free: 1, Up: true})
	p.want(keyed(3), barred, balance.Choice{At: order[0], Prefers: balance.None, Why: balance.RingFull})
	p.Resize(order[0], 12) // of 16 slots, it should have three quarters of five requests
	p.want(keyed(3), barred, balance.Choice{At: order[0], Prefers: balance.None, Why: balance.Ring})
}

func TestRingOfNone(t *testing.T) {
	none := balance.Choice{At: balance.None, Prefers: balance.None}
	p := newPool(t, ringConfig(1.25), nil)
	p.want(keyed(1), nil, none)
	p.set(engines(1, 1))
	if c := p.Choose(0, nil, nil); c.At != 0 {
		t.Errorf("of a request of which nothing is known: %s", text(c))
	}
	p.want(keyed(1), []bool{true}, none)
	p.set(nil)
	p.want(keyed(1), nil, none)
}

// prefix_affinity by the ring goes by the prefix as consistent_hash does by the key, also when a pool changes to it.
func TestRingByPrefix(t *testing.T) {
	byKey := newPool(t, ringConfig(1.25), engines(9, 4))
	byPrefix := newPool(t, balance.Config{}, engines(9, 4))
	byPrefix.Configure(balance.Config{Policy: balance.PrefixAffinity, ByRing: true, LoadFactor: 1.25})
	for k := range uint64(100) {
		want := byKey.Choose(0, keyed(k), nil)
		byPrefix.want(&balance.Request{Key: k * 31, Prefix: k}, nil, want)
	}
}

// Against a naive model: a walk over the order of the ring with the rule as the documentation tells it.
func TestRingAsDocumented(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	why := map[balance.Why]int{}
	for range 400 {
		list := engines(1+r.IntN(12), 1)
		for i := range list {
			list[i].Slots, list[i].Weight = 1+r.IntN(8), 1+r.IntN(3)
		}
		factor := 1 + float64(r.IntN(9))/4 // exact, so that the model need not round as the balancer does
		p := newPool(t, ringConfig(factor), list)
		key := r.Uint64()
		order := p.order(key)
		for range 10 {
			barred := p.scramble(r)
			want := p.byRule(order, factor, barred)
			p.want(keyed(key), barred, want)
			why[want.Why]++
		}
	}
	for _, w := range []balance.Why{balance.Ring, balance.RingNext, balance.RingFull} {
		if why[w] < 50 {
			t.Errorf("%d choices because of %v", why[w], w)
		}
	}
}

// scramble changes all states, and bars a request from some endpoints.
func (p *pool) scramble(r *rand.Rand) (barred []bool) {
	barred = make([]bool, len(p.list))
	for at, e := range p.list {
		held := r.IntN(e.Slots + 1)
		s := balance.State{Load: held + r.IntN(2)*r.IntN(20), Free: e.Slots - held, Up: r.IntN(8) > 0}
		if !s.Up || r.IntN(8) == 0 {
			s.Free = 0
		}
		p.update(at, s)
		barred[at] = r.IntN(4) == 0
	}
	if r.IntN(2) == 0 {
		return nil
	}
	return barred
}

func (p *pool) byRule(order []int, factor float64, barred []bool) balance.Choice {
	load, size := 1, 0
	for at, s := range p.states {
		if s.Up {
			load, size = load+s.Load, size+p.list[at].Slots*p.list[at].Weight
		}
	}
	c, first, open := balance.Choice{At: balance.None, Prefers: balance.None}, balance.None, balance.None
	for _, at := range order {
		s, e := p.states[at], p.list[at]
		if !s.Up || barred != nil && barred[at] {
			continue
		}
		if first == balance.None {
			first = at
		}
		// A whole number is below a bound that is rounded up if it is below the bound itself.
		below := func(n int) bool { return float64(n*size) < factor*float64(load*e.Slots*e.Weight) }
		switch {
		case s.Free > 0 && below(s.Load):
			c.At, c.Why = at, balance.RingNext
			if at == first {
				c.Why = balance.Ring
			}
			return c
		case s.Free > 0 && open == balance.None:
			open = at
		case s.Free == 0 && c.Prefers == balance.None && below(s.Load-1):
			c.Prefers = at
		}
	}
	if open == balance.None {
		return balance.Choice{At: balance.None, Prefers: balance.None}
	}
	c.At, c.Why = open, balance.RingFull
	return c
}

// As requests of few keys come and go, no endpoint gets more than its bound while all have free slots.
func TestRingKeepsTheBound(t *testing.T) {
	const n, factor = 10, 1.25
	p := newPool(t, ringConfig(factor), engines(n, 1000))
	r := rand.New(rand.NewPCG(7, 8))
	var running []int
	for range 5000 {
		if len(running) > 0 && r.IntN(5) < 2 {
			i := r.IntN(len(running))
			p.release(running[i], keyed(0))
			running = slices.Delete(running, i, i+1)
			continue
		}
		c := p.Choose(0, keyed(uint64(r.IntN(3))), nil)
		if most := factor * float64(len(running)+1) / n; c.Why == balance.RingFull || float64(p.states[c.At].Load) >= most {
			t.Fatalf("%s with the load %d, while %d requests run", text(c), p.states[c.At].Load, len(running))
		}
		p.take(c.At, keyed(0))
		running = append(running, c.At)
	}
}

func TestRingChoosesWithoutAllocation(t *testing.T) {
	for _, policy := range []balance.Policy{balance.ConsistentHash, balance.WeightedRoundRobin} {
		p := newPool(t, balance.Config{Policy: policy, LoadFactor: 1.25}, engines(50, 4))
		r, key := keyed(0), uint64(0)
		if n := testing.AllocsPerRun(100, func() {
			key++
			r.Key = key
			at := p.Choose(0, r, nil).At
			p.take(at, r)
			p.release(at, r)
		}); n != 0 {
			t.Errorf("policy %d: %v allocations", policy, n)
		}
	}
}

func FuzzRing(f *testing.F) {
	f.Add(uint64(1), uint8(5), uint8(2))
	f.Fuzz(func(t *testing.T, seed uint64, n, factor uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		list := make([]balance.Endpoint, n)
		for i := range list {
			list[i] = balance.Endpoint{ID: fmt.Sprint(seed, i), Slots: 1 + r.IntN(20), Weight: 1 + r.IntN(5)}
		}
		c := 1 + float64(factor%32)/8
		p := newPool(t, ringConfig(c), list)
		key := r.Uint64()
		order := p.order(key)
		for range 5 {
			barred := p.scramble(r)
			p.want(keyed(key), barred, p.byRule(order, c, barred))
			p.want(keyed(key), barred, p.WalkRing(key, barred))
		}
		for range 10 {
			barred, key := p.starve(r), r.Uint64()
			p.want(keyed(key), barred, p.WalkRing(key, barred))
		}
	})
}

// starve leaves few endpoints of a kind: most are barred, full, down or over their bounds.
func (p *pool) starve(r *rand.Rand) []bool {
	of := [...]int{1 << r.IntN(10), 1 << r.IntN(10), 1 << r.IntN(10), 1 << r.IntN(10)} // every how many are idle, full, over their bounds and not barred
	barred := make([]bool, len(p.list))
	for at, e := range p.list {
		s := balance.State{Load: e.Slots, Up: true}
		switch {
		case r.IntN(of[0]) == 0:
			s.Load, s.Free = 0, e.Slots
		case r.IntN(of[1]) == 0:
			s.Load = r.IntN(e.Slots)
		case r.IntN(of[2]) == 0:
			s.Load, s.Free = 3*e.Slots, 1
		default:
			s.Up = r.IntN(2) == 0
		}
		p.update(at, s)
		barred[at] = r.IntN(of[3]) > 0
	}
	return barred
}

// A choice among many endpoints is that of a walk around the ring that meets each point.
func TestRingIsThatOfAWalk(t *testing.T) {
	r, why, prefers := rand.New(rand.NewPCG(13, 14)), map[balance.Why]int{}, 0
	for _, weights := range []int{1, 9} {
		list := engines(700, 8)
		for i := range list {
			list[i].Weight = 1 + r.IntN(weights)
		}
		p := newPool(t, ringConfig(1.25), list)
		for range 1500 {
			barred, key := p.starve(r), r.Uint64()
			want := p.WalkRing(key, barred)
			p.want(keyed(key), barred, want)
			why[want.Why]++
			if want.Prefers != balance.None {
				prefers++
			}
		}
	}
	if why[balance.Ring] < 200 || why[balance.RingNext] < 200 || why[balance.RingFull] < 200 || prefers < 200 {
		t.Errorf("%v, with %d that prefer another", why, prefers)
	}
}

// A ring that was built ahead is used for its endpoints, by SetEndpoints or by Configure, and for no others.
func TestOfferedRing(t *testing.T) {
	list := engines(20, 4)
	own := newPool(t, ringConfig(1.25), list)
	for name, prepare := range map[string]func(p *pool){
		"SetEndpoints": func(p *pool) {
			p.OfferRing(balance.NewRing(list))
			p.set(list)
		},
		"Configure": func(p *pool) {
			p.Configure(balance.Config{})
			p.set(list)
			p.OfferRing(balance.NewRing(list))
			config := ringConfig(1.25)
			p.Configure(config)
		},
		"of others": func(p *pool) {
			p.OfferRing(balance.NewRing(list[:19]))
			p.set(list)
		},
	} {
		p := newPool(t, ringConfig(1.25), list[:3])
		config := ringConfig(1.25)
		if !p.LacksRing(&config, list) {
			t.Error("the ring of three endpoints is that of all")
		}
		prepare(p)
		if p.LacksRing(&config, list) {
			t.Errorf("%s: the ring is not that of the endpoints", name)
		}
		for k := range uint64(200) {
			p.want(keyed(k), nil, own.Choose(0, keyed(k), nil))
		}
	}
}

// Long walks, on which most endpoints are barred or over their bounds, choose as the rule says too.
func TestLongWalks(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	p := newPool(t, ringConfig(1.25), engines(200, 8))
	order := p.order(3)
	why := map[balance.Why]int{}
	for range 300 {
		barred, full := make([]bool, 200), r.IntN(10)
		for at := range barred {
			load := r.IntN(3)
			if r.IntN(10) < full {
				load = 8
			}
			p.update(at, balance.State{Load: load, Free: 8 - load, Up: r.IntN(50) > 0})
			barred[at] = r.IntN(30) > 0
			if load == 0 {
				barred[at] = true // so that the others are over their bounds
			}
		}
		want := p.byRule(order, 1.25, barred)
		p.want(keyed(3), barred, want)
		why[want.Why]++
	}
	if why[balance.RingFull] < 3 || why[balance.RingNext] < 20 {
		t.Errorf("the choices are %v", why)
	}
}
