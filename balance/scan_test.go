package balance_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"colonnade/balance"
)

// fleetOf is a balancer and its model, and what a random sequence of events has made of the endpoints.
type fleetOf struct {
	*testing.T
	*rand.Rand
	b       *balance.Balancer
	model   *balance.Scan
	config  balance.Config
	list    []balance.Endpoint
	states  []balance.State
	now     time.Duration
	running []had
	chosen  map[int]int
	uniform bool // all endpoints are alike, so that ties are many
}

// scanned is a policy, with what its choices are to go by.
var scanned = map[string]balance.Config{
	"least_loaded":         {},
	"round_robin":          {Policy: balance.RoundRobin},
	"weighted_round_robin": {Policy: balance.WeightedRoundRobin},
	"least_latency":        {Policy: balance.LeastLatency},
	"adapter_affinity":     {Policy: balance.AdapterAffinity, AdapterPending: 4},
	"score":                {Policy: balance.Score, IndexBytes: 8 << 20, MaxAge: time.Minute, Weights: balance.Weights{Prefix: 3, Load: 1, Latency: 1}},
	"score_load":           {Policy: balance.Score, Weights: balance.Weights{Load: 1}},
	"score_latency":        {Policy: balance.Score, Weights: balance.Weights{Latency: 2}},
	"score_prefix":         {Policy: balance.Score, IndexBytes: 8 << 20, Weights: balance.Weights{Prefix: 1}},
}

// Every choice is that of a look at each endpoint, for fleets of one group and of many, whatever has happened before.
func TestChoicesAreThoseOfAScan(t *testing.T) {
	for name, c := range scanned {
		for _, n := range []int{1, 3, 32, 33, 70, 300} {
			for _, uniform := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/endpoints=%d/uniform=%v", name, n, uniform), func(t *testing.T) {
					f := newFleetOf(t, c, n, uint64(n))
					f.uniform = uniform
					f.set(n)
					for range 1500 {
						f.event(n)
					}
					if len(f.chosen) < min(n, 20)/2 {
						t.Errorf("only %d endpoints were chosen", len(f.chosen))
					}
				})
			}
		}
	}
}

// An endpoint that is measured again, and is no faster than was expected, decays faster from then on: a bound from before holds then, too. The
// endpoint 5 is in the first group of 32 and is compared first, 40 is in the second, and all others are slow.
func TestMeasuredAsExpected(t *testing.T) {
	type firstByte struct{ now, at, millis int } // tenths of seconds; endpoint
	tenths := func(n int) time.Duration { return time.Duration(n) * time.Second / 10 }
	f := func(name string, before int, again []firstByte, now, want int) {
		for _, policy := range []string{"least_latency", "score_latency"} {
			t.Run(name+"/"+policy, func(t *testing.T) {
				f := newFleetOf(t, scanned[policy], 96, 1)
				f.uniform, f.now = true, 0
				f.set(96)
				latencies := slices.Repeat([]time.Duration{20 * time.Second}, 96)
				latencies[5], latencies[40] = 200*time.Millisecond, time.Second
				for at := range f.list {
					f.b.FirstByte(0, at, 0, latencies[at])
				}
				f.now = tenths(before)
				f.choose(&balance.Request{}, nil)
				for _, b := range again {
					f.b.FirstByte(tenths(b.now), b.at, 0, time.Duration(b.millis)*time.Millisecond)
				}
				f.now = tenths(now)
				if got := f.choose(&balance.Request{}, nil); got != want {
					t.Errorf("got endpoint %d, want %d", got, want)
				}
			})
		}
	}
	f("again", 0, []firstByte{{50, 40, 667}, {100, 5, 470}}, 100, 40)       // 445 ms, and not 500
	f("long ago", 0, []firstByte{{100, 40, 500}, {200, 5, 300}}, 200, 40)   // 250 ms, and not 333
	f("late", 100, []firstByte{{20, 40, 834}, {100, 5, 480}}, 101, 5)       // of an instant before the bound's
	f("in the past", 0, []firstByte{{100, 40, 500}, {100, 5, 550}}, 50, 40) // the choice read the clock before the measurement
}

func newFleetOf(t *testing.T, c balance.Config, n int, seed uint64) *fleetOf {
	f := &fleetOf{T: t, Rand: rand.New(rand.NewPCG(seed, 9)), b: balance.New(c), config: c, now: time.Second, chosen: map[int]int{}}
	f.model = balance.NewScan(f.b)
	return f
}

// set replaces the endpoints by n others, of which most were there before.
func (f *fleetOf) set(n int) {
	before := f.list
	f.list, f.running = nil, nil
	for i := range n {
		e := balance.Endpoint{ID: fmt.Sprint("e", i+f.IntN(2)*n), Slots: 4, Weight: 1}
		if !f.uniform {
			e.Slots, e.Weight = 1+f.IntN(8), 1+f.IntN(4)
		}
		f.list = append(f.list, e)
	}
	f.states = make([]balance.State, n)
	f.b.SetEndpoints(f.list)
	f.model.Keep(before, f.list)
	for at, e := range f.list {
		f.update(at, balance.State{Free: e.Slots, Up: true})
	}
}

func (f *fleetOf) update(at int, s balance.State) {
	f.states[at] = s
	f.b.Update(at, s)
}

// request returns a request of one of a few conversations, many of which begin alike.
func (f *fleetOf) request() *balance.Request {
	r := &balance.Request{Input: f.IntN(20_000)}
	if f.config.Policy == balance.AdapterAffinity {
		r.Adapter = f.adapter()
	}
	shared, conversation := f.IntN(6), uint64(f.IntN(40))
	for d := range uint64(f.IntN(24)) {
		hash := d + 1
		if int(d) >= shared*2 {
			hash |= uint64(shared+1)<<40 | conversation<<32
		}
		r.Blocks = append(r.Blocks, hash)
	}
	return r
}

// adapter returns one that no endpoint has, or one of those that many have.
func (f *fleetOf) adapter() string {
	if f.IntN(3) == 0 {
		return fmt.Sprint("new", f.Uint64())
	}
	return fmt.Sprint("adapter", f.IntN(1+f.IntN(12)))
}

// barred returns endpoints that a request must not get: often none, and sometimes all.
func (f *fleetOf) barred() []bool {
	if f.IntN(3) > 0 {
		return nil
	}
	barred, part := make([]bool, len(f.list)), f.IntN(8)
	for i := range barred {
		barred[i] = f.IntN(7) < part
	}
	return barred
}

// event lets something happen, and mostly a choice and its grant.
func (f *fleetOf) event(n int) {
	f.now += time.Duration(f.IntN(1 << f.IntN(32)))
	at := f.IntN(len(f.list))
	switch f.IntN(40) {
	case 0:
		f.b.Configure(f.config)
	case 1:
		if f.IntN(10) == 0 {
			f.set(n)
		}
	case 2, 3: // down or up, or with other requests beside
		s := f.states[at]
		s.Up = f.IntN(4) > 0
		if s.Load += f.IntN(3); !s.Up {
			s.Free = 0
		}
		f.update(at, s)
	case 4:
		f.list[at].Slots = max(1, f.list[at].Slots+f.IntN(3)-1)
		f.b.Resize(at, f.list[at].Slots)
		f.update(at, balance.State{Load: f.states[at].Load, Free: max(0, f.list[at].Slots-f.states[at].Load), Up: true})
	case 5:
		names := []string{f.adapter(), f.adapter(), f.adapter()}
		switch f.IntN(4) {
		case 0:
			f.b.ForgetAdapters(at)
		case 1:
			f.b.UseAdapters(at, names)
		default:
			f.b.SetAdapters(at, names, f.IntN(2) == 0)
		}
	case 6, 7, 8, 9, 10:
		f.b.FirstByte(f.now-f.delay(), at, f.IntN(20_000), time.Duration(f.IntN(1<<(20+f.IntN(12)))))
	case 11, 12, 13: // as was expected, or somewhat later
		now, input := f.now-f.delay(), f.IntN(20_000)
		f.b.FirstByte(now, at, input, f.model.Expected(now, input, at)*time.Duration(100+f.IntN(10))/100+1)
	case 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24:
		if len(f.running) > 0 {
			f.release(f.IntN(len(f.running)))
		}
	case 25:
		present := f.now
		f.now -= f.delay()
		f.choose(f.request(), f.barred()) // without a grant, and of a moment ago
		f.now = present
	default:
		r, barred := f.request(), f.barred()
		if at := f.choose(r, barred); at != balance.None {
			s := f.states[at]
			f.update(at, balance.State{Load: s.Load + 1, Free: s.Free - 1, Up: true})
			f.b.Granted(f.now, at, r)
			f.model.Granted(at)
			f.running = append(f.running, had{at, r})
		}
	}
}

// delay returns for how long an instant may be the present until it reaches the balancer: often not at all, and sometimes so long that others
// overtake it by far.
func (f *fleetOf) delay() time.Duration { return time.Duration(f.IntN(1 << f.IntN(30))) }

func (f *fleetOf) release(i int) {
	at, r := f.running[i].at, f.running[i].prompt
	f.running[i] = f.running[len(f.running)-1]
	f.running = f.running[:len(f.running)-1]
	s := f.states[at]
	s.Load = max(0, s.Load-1)
	s.Free = max(0, f.list[at].Slots-s.Load)
	f.update(at, s)
	f.b.Released(at, f.list[at].ID, r)
}

func (f *fleetOf) choose(r *balance.Request, barred []bool) int {
	want := f.model.Choose(f.now, r, barred)
	got := f.b.Choose(f.now, r, barred)
	if f.config.Policy == balance.AdapterAffinity {
		if !f.model.GoodAdapterChoice(r, barred, got) {
			f.Fatalf("%s for %s", text(got), r.Adapter)
		}
	} else if got != want {
		f.Fatalf("%s, want %s", text(got), text(want))
	}
	f.chosen[got.At]++
	return got.At
}
