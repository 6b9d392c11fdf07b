package balance_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"colonnade/balance"
)

// adapterFleet is a balancer whose endpoints have as many slots, and the load of each.
type adapterFleet struct {
	*balance.Balancer
	slots int
	load  []int
}

func newAdapterFleet(endpoints, slots, pending int) *adapterFleet {
	f := &adapterFleet{balance.New(balance.Config{Policy: balance.AdapterAffinity, AdapterPending: pending}), slots, make([]int, endpoints)}
	f.SetEndpoints(listOf(endpoints, slots))
	for at := range endpoints {
		f.add(at, 0)
	}
	return f
}

func listOf(endpoints, slots int) (list []balance.Endpoint) {
	for i := range endpoints {
		list = append(list, balance.Endpoint{ID: fmt.Sprint("e", i), Slots: slots, Weight: 1})
	}
	return list
}

func (f *adapterFleet) add(at, n int) {
	f.load[at] += n
	f.Update(at, balance.State{Load: f.load[at], Free: max(0, f.slots-f.load[at]), Up: true})
}

func (f *adapterFleet) grant(at int, r *balance.Request) {
	f.add(at, 1)
	f.Granted(0, at, r)
}

func (f *adapterFleet) release(at int, r *balance.Request) {
	f.add(at, -1)
	f.Released(at, fmt.Sprint("e", at), r)
}

func asks(adapter string) *balance.Request { return &balance.Request{Adapter: adapter} }

func TestAdapterChoices(t *testing.T) {
	const none = balance.None
	f := func(what string, prepare func(f *adapterFleet), adapter string, barred []bool, want balance.Choice) {
		t.Helper()
		fleet := newAdapterFleet(3, 4, 2)
		prepare(fleet)
		if got := fleet.Choose(0, asks(adapter), barred); got != want {
			t.Errorf("%s: %+v (%s), want %+v (%s)", what, got, got.Why, want, want.Why)
		}
	}
	f("no adapter", func(f *adapterFleet) { f.add(0, 2); f.add(1, 1); f.add(2, 2) }, "", nil, balance.Choice{At: 1, Prefers: none, Why: balance.Load})
	f("new to all", func(f *adapterFleet) { f.add(0, 1) }, "a", nil, balance.Choice{At: 1, Prefers: none, Why: balance.AdapterNew})
	f("fewest adapters before least load", func(f *adapterFleet) {
		f.grant(1, asks("b"))
		f.grant(2, asks("c"))
		f.add(0, 2)
	}, "a", nil, balance.Choice{At: 0, Prefers: none, Why: balance.AdapterNew})
	f("pending", func(f *adapterFleet) { f.grant(2, asks("a")); f.add(2, 1) }, "a", nil, balance.Choice{At: 2, Prefers: none, Why: balance.Adapter})
	f("most pending", func(f *adapterFleet) {
		f.SetAdapters(0, []string{"a"}, false)
		f.grant(1, asks("a"))
		f.grant(2, asks("a"))
		f.release(2, asks("a"))
	}, "a", nil, balance.Choice{At: 1, Prefers: none, Why: balance.Adapter})
	f("sent there before", func(f *adapterFleet) { f.grant(2, asks("a")); f.release(2, asks("a")) }, "a", nil,
		balance.Choice{At: 2, Prefers: none, Why: balance.Adapter})
	f("as many pending as may be", func(f *adapterFleet) { f.grant(2, asks("a")); f.grant(2, asks("a")) }, "a", nil,
		balance.Choice{At: 0, Prefers: none, Why: balance.AdapterNew})
	f("barred", func(f *adapterFleet) { f.grant(2, asks("a")) }, "a", []bool{true, false, true},
		balance.Choice{At: 1, Prefers: none, Why: balance.AdapterNew})
	f("no slot where it is", func(f *adapterFleet) { f.grant(2, asks("a")); f.add(2, 3) }, "a", nil,
		balance.Choice{At: 0, Prefers: 2, Why: balance.AdapterNew})
	f("no slot and barred where it is", func(f *adapterFleet) { f.grant(2, asks("a")); f.add(2, 3) }, "a", []bool{false, false, true},
		balance.Choice{At: 0, Prefers: none, Why: balance.AdapterNew})
	f("no slot and no room where it is", func(f *adapterFleet) { f.grant(2, asks("a")); f.grant(2, asks("a")); f.add(2, 2) }, "a", nil,
		balance.Choice{At: 0, Prefers: none, Why: balance.AdapterNew})
	f("no slot anywhere", func(f *adapterFleet) { f.grant(2, asks("a")); f.add(0, 4); f.add(1, 4); f.add(2, 3) }, "a", nil,
		balance.Choice{At: none, Prefers: 2, Why: balance.Adapter})
	f("listed", func(f *adapterFleet) { f.SetAdapters(1, []string{"b", "a"}, false) }, "a", nil, balance.Choice{At: 1, Prefers: none, Why: balance.Adapter})
	f("in use by its metrics", func(f *adapterFleet) { f.SetAdapters(1, []string{"a"}, false); f.UseAdapters(2, []string{"a"}) }, "a", nil,
		balance.Choice{At: 2, Prefers: none, Why: balance.Adapter})
	f("listed no more", func(f *adapterFleet) {
		f.SetAdapters(1, []string{"a"}, true)
		f.SetAdapters(1, nil, true)
		f.add(0, 1)
		f.add(1, 1)
	}, "a", nil,
		balance.Choice{At: 2, Prefers: none, Why: balance.AdapterNew})
	sent := func(f *adapterFleet) { f.grant(2, asks("a")); f.release(2, asks("a")); f.add(1, 1); f.add(2, 2) }
	f("a list may be older than what was sent", func(f *adapterFleet) { sent(f); f.SetAdapters(2, []string{"b"}, true) }, "a", nil,
		balance.Choice{At: 2, Prefers: none, Why: balance.Adapter})
	f("two lists without what was sent", func(f *adapterFleet) { sent(f); f.SetAdapters(2, nil, true); f.SetAdapters(2, nil, true) }, "a", nil,
		balance.Choice{At: 0, Prefers: none, Why: balance.AdapterNew})
	f("lists that need not be complete", func(f *adapterFleet) { sent(f); f.SetAdapters(2, nil, false); f.SetAdapters(2, nil, false) }, "a", nil,
		balance.Choice{At: 2, Prefers: none, Why: balance.Adapter})
	f("restarted", func(f *adapterFleet) { sent(f); f.ForgetAdapters(2) }, "a", nil, balance.Choice{At: 0, Prefers: none, Why: balance.AdapterNew})
	f("removed and back", func(f *adapterFleet) {
		f.grant(2, asks("a"))
		f.SetEndpoints(listOf(2, 4))
		f.SetEndpoints(listOf(3, 4))
		f.load[2] = 1
		for at := range 3 {
			f.add(at, 0)
		}
	}, "a", nil, balance.Choice{At: 2, Prefers: none, Why: balance.Adapter})
}

// An adapter stays at the endpoints where it is loaded: hundreds of them share the slots of a fleet with few loads.
func TestAdaptersStayWhereTheyAre(t *testing.T) {
	const endpoints, slots, adapters, cached, requests = 20, 16, 500, 32, 30_000
	loads := func(policy balance.Policy) (loads int) {
		f := newAdapterFleet(endpoints, slots, 4)
		f.Configure(balance.Config{Policy: policy, AdapterPending: 4})
		random := rand.New(rand.NewPCG(1, 2))
		weights := make([]float64, adapters) // the sums
		for i, sum := 0, 0.0; i < adapters; i++ {
			sum += 1 / math.Pow(float64(i+1), 0.9)
			weights[i] = sum
		}
		memory := make([][]string, endpoints) // of the engines: the adapter that was used last is the last
		type running struct {
			at int
			r  *balance.Request
		}
		var now []running
		for range requests {
			for len(now) >= endpoints*slots/2 {
				i := random.IntN(len(now))
				f.release(now[i].at, now[i].r)
				now = slices.Delete(now, i, i+1)
			}
			n, _ := slices.BinarySearch(weights, random.Float64()*weights[adapters-1])
			r := asks(fmt.Sprint("adapter-", n))
			c := f.Choose(0, r, nil)
			f.grant(c.At, r)
			now = append(now, running{c.At, r})
			m := &memory[c.At]
			if i := slices.Index(*m, r.Adapter); i >= 0 {
				*m = slices.Delete(*m, i, i+1)
			} else if loads++; len(*m) == cached {
				*m = slices.Delete(*m, 0, 1)
			}
			*m = append(*m, r.Adapter)
		}
		return loads
	}
	affinity, least := loads(balance.AdapterAffinity), loads(balance.LeastLoaded)
	t.Logf("loads of adapters of %d requests: %d, and %d by least load", requests, affinity, least)
	if affinity*5 > least {
		t.Errorf("%d adapters were loaded, and %d by least load; want a fifth at most", affinity, least)
	}
}

// Whatever engines say of their adapters, each request gets an endpoint while one has a free slot, and pending requests are counted exactly.
func FuzzAdapters(f *testing.F) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 6 {
		ops := make([]byte, 1500)
		for i := range ops {
			ops[i] = byte(random.IntN(256))
		}
		f.Add(ops)
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		const all, slots, pending = 6, 5, 2
		fleet := newAdapterFleet(all, slots, pending)
		type key struct {
			id      int
			adapter string
		}
		type held struct {
			id int
			r  *balance.Request
		}
		var running []held
		counts, load, present := map[key]int{}, make([]int, all), all
		update := func() {
			for at := range present {
				fleet.Update(at, balance.State{Load: load[at], Free: max(0, slots-load[at]), Up: true})
			}
		}
		for ; len(ops) >= 3; ops = ops[3:] {
			op, x, y := ops[0]%8, int(ops[1]), int(ops[2])
			name := fmt.Sprint("adapter-", y%7)
			names := make([]string, y%200)
			for i := range names {
				names[i] = fmt.Sprint("adapter-", i*(x+1))
			}
			switch {
			case op <= 2:
				r := asks(name)
				c := fleet.Choose(0, r, nil)
				free := slices.ContainsFunc(load[:present], func(n int) bool { return n < slots })
				if (c.At != balance.None) != free {
					t.Fatalf("chose %+v, loads %v of %d", c, load, present)
				}
				if c.At == balance.None {
					break
				}
				if load[c.At] >= slots || c.Prefers != balance.None && load[c.Prefers] < slots {
					t.Fatalf("chose %+v, loads %v of %d", c, load, present)
				}
				most := 0 // pending where there is room for it
				for at := range present {
					if n := counts[key{at, name}]; n < pending && load[at] < slots {
						most = max(most, n)
					}
				}
				if got := counts[key{c.At, name}]; most > 0 && got != most {
					t.Fatalf("%s: chose %+v with %d pending, want one with %d", name, c, got, most)
				}
				load[c.At]++
				counts[key{c.At, name}]++
				running = append(running, held{c.At, r})
				update()
				fleet.Granted(0, c.At, r)
			case op <= 4 && len(running) > 0:
				i := x % len(running)
				h := running[i]
				running = slices.Delete(running, i, i+1)
				load[h.id]--
				counts[key{h.id, h.r.Adapter}]--
				update()
				at := h.id
				if at >= present {
					at = balance.None
				}
				fleet.Released(at, fmt.Sprint("e", h.id), h.r)
			case op == 5:
				fleet.SetAdapters(x%present, names, y%2 == 0)
			case op == 6:
				fleet.UseAdapters(x%present, names)
			case op == 7 && y%4 == 0:
				present = 1 + x%all
				fleet.SetEndpoints(listOf(present, slots))
				update()
			case op == 7:
				fleet.ForgetAdapters(x % present)
			}
			if err := fleet.CheckAdapters(func(id, adapter string) int {
				var n int
				_, _ = fmt.Sscanf(id, "e%d", &n)
				return counts[key{n, adapter}]
			}); err != nil {
				t.Fatal(err)
			}
		}
		for _, h := range running {
			at := h.id
			if at >= present {
				at = balance.None
			}
			fleet.Released(at, fmt.Sprint("e", h.id), h.r)
		}
		if n := fleet.GoneWithAdapters(); n > 0 {
			t.Fatalf("%d endpoints that are gone are remembered without requests", n)
		}
	})
}
