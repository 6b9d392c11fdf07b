package balance_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"colonnade/balance"
)

func indexed() balance.Config {
	return balance.Config{Policy: balance.PrefixAffinity, LoadFactor: 100, IndexBytes: 1 << 20, MaxAge: time.Hour}
}

// idle returns a balancer of endpoints that have so many free slots each.
func idle(c balance.Config, endpoints, slots int) *balance.Balancer {
	b := balance.New(c)
	var list []balance.Endpoint
	for i := range endpoints {
		list = append(list, balance.Endpoint{ID: fmt.Sprint("e", i), Slots: slots, Weight: 1})
	}
	b.SetEndpoints(list)
	for i := range list {
		b.Update(i, balance.State{Free: slots, Up: true})
	}
	return b
}

// chain returns the blocks of a prompt.
func chain(text string) []uint64 {
	var c balance.Chain
	c.Reset("m")
	c.Write([]byte(text))
	return c.Blocks()
}

func letters(c byte, n int) string { return string(slices.Repeat([]byte{c}, n)) }

func TestChain(t *testing.T) {
	short, long := chain(letters('a', 3000)), chain(letters('a', 3000)+letters('b', 3000))
	if len(short) != 11 || !slices.Equal(short, long[:len(short)]) || len(long) <= len(short) {
		t.Errorf("chains of %d and %d blocks, of which the first is no prefix of the second", len(short), len(long))
	}
	if other := chain("b" + letters('a', 3000)); slices.Contains(other, short[5]) {
		t.Error("prompts that begin differently have a block in common")
	}
	if n := len(chain(letters('a', 64<<20))); n != balance.MaxBlocks {
		t.Errorf("%d blocks, want at most %d", n, balance.MaxBlocks)
	}
	var c balance.Chain
	c.Reset("m")
	for _, piece := range []string{letters('a', 100), letters('a', 2900)} { // however the text is cut
		c.Write([]byte(piece))
	}
	if !slices.Equal(c.Blocks(), short) {
		t.Error("the chain depends on how the text is cut")
	}
}

func TestPrefixAffinity(t *testing.T) {
	b := idle(indexed(), 4, 2)
	one := &balance.Request{Blocks: chain(letters('a', 10_000))}
	longer := &balance.Request{Blocks: chain(letters('a', 10_000) + letters('b', 10_000))}
	other := &balance.Request{Blocks: chain(letters('c', 10_000))}
	want := func(what string, r *balance.Request, at, prefers int, why balance.Why) {
		t.Helper()
		if got := b.Choose(0, r, nil); got != (balance.Choice{At: at, Prefers: prefers, Why: why}) {
			t.Errorf("%s: %+v, want %d %d %s", what, got, at, prefers, why)
		}
	}
	b.Granted(0, 2, one)
	want("the endpoint that has it", one, 2, balance.None, balance.Prefix)
	want("a longer prompt", longer, 2, balance.None, balance.Prefix)
	want("another prompt", other, 3, balance.None, balance.PrefixNone)
	want("nothing known", nil, 3, balance.None, balance.PrefixNone)
	b.Granted(0, 1, longer)
	want("the longest", longer, 1, balance.None, balance.Prefix)
	b.Update(1, balance.State{Load: 2, Free: 0, Up: true})
	want("the longest is full", longer, 2, 1, balance.PrefixNext)
	b.Update(1, balance.State{Load: 2, Free: 0})
	want("and goes down", longer, 2, balance.None, balance.Prefix)
	b.Forget(2)
	want("the other has forgotten it", longer, 2, balance.None, balance.PrefixNone)
	b.Update(1, balance.State{Free: 2, Up: true})
	if got := b.Choose(time.Hour+1, longer, nil); got.Why != balance.PrefixNone {
		t.Errorf("after its time: %+v", got)
	}
	if got := b.Choose(0, longer, []bool{false, true, false, false}); got.At == 1 || got.Prefers != balance.None {
		t.Errorf("barred: %+v", got)
	}
}

// A load above the bound keeps an endpoint from more requests, however much of their prompts it has.
func TestPrefixAffinityWithinBound(t *testing.T) {
	c := indexed()
	c.LoadFactor = 1.25
	b := idle(c, 4, 8)
	r, loads := &balance.Request{Blocks: chain(letters('a', 10_000))}, make([]int, 4)
	for n := range 24 {
		at := b.Choose(0, r, nil).At
		loads[at]++
		b.Update(at, balance.State{Load: loads[at], Free: 8 - loads[at], Up: true})
		b.Granted(0, at, r)
		if most := slices.Max(loads); float64(most-1)*4 >= 1.25*float64(n+1) {
			t.Fatalf("after %d requests the loads are %v", n+1, loads)
		}
	}
}

// naive is an index as its description says it: the uses of each endpoint in their order.
type naive struct {
	uses  [][]uint64 // by endpoint, the newest last
	depth map[uint64]int
}

func (m *naive) note(at int, blocks []uint64, most int) {
	for d := min(len(blocks), most) - 1; d >= 0; d-- {
		m.depth[blocks[d]] = d
		m.uses[at] = slices.DeleteFunc(m.uses[at], func(h uint64) bool { return h == blocks[d] })
		m.uses[at] = append(m.uses[at], blocks[d])
	}
	m.uses[at] = m.uses[at][max(0, len(m.uses[at])-most):]
}

func (m *naive) matched(at int, blocks []uint64) (n int) {
	for n < len(blocks) && slices.Contains(m.uses[at], blocks[n]) {
		n++
	}
	return n
}

// The index finds what a naive one finds, whatever engines say of their caches.
func FuzzIndex(f *testing.F) {
	f.Add(uint64(1))
	f.Add(uint64(2))
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		const endpoints, most = 3, 40
		c := indexed()
		c.IndexBytes = endpoints * most * balance.BytesOfUse
		b := idle(c, endpoints, 1000)
		m := &naive{uses: make([][]uint64, endpoints), depth: map[uint64]int{}}
		var prompts [][]uint64
		for range 12 {
			text := letters('a', r.IntN(4000))
			prompts = append(prompts, chain(text+letters(byte('b'+r.IntN(4)), r.IntN(20_000))))
		}
		for range 200 {
			blocks := prompts[r.IntN(len(prompts))]
			request := &balance.Request{Blocks: blocks[:r.IntN(len(blocks)+1)]}
			switch at := r.IntN(endpoints); r.IntN(10) {
			case 0:
				b.Forget(at)
				m.uses[at] = nil
			case 1:
				b.SetCacheSize(at, []int64{-5, 0, 1 << 40}[r.IntN(3)]) // none of which is less than it has
			default:
				b.Granted(0, at, request)
				m.note(at, request.Blocks, most)
			}
			longest := 0
			for at := range endpoints {
				longest = max(longest, m.matched(at, request.Blocks))
			}
			got := b.Choose(0, request, nil)
			little := naiveBytes(longest)*8 < naiveBytes(len(request.Blocks)) || longest == 0 // which is not worth following
			if matched := m.matched(got.At, request.Blocks); !little && matched != longest || little != (got.Why == balance.PrefixNone) {
				t.Fatalf("chose %+v, which has %d of %d blocks; another has %d", got, matched, len(request.Blocks), longest)
			}
		}
	})
}

// The index stays within its memory, and within what an engine says that its cache holds.
func TestIndexMemory(t *testing.T) {
	c := indexed()
	c.IndexBytes = 8 << 20
	b := idle(c, 4, 4)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := rand.New(rand.NewPCG(1, 1))
	blocks := make([]uint64, 64)
	for n := range 10_000 { // seven times what it may keep
		for i := range blocks {
			blocks[i] = r.Uint64()
		}
		b.Granted(balance.Instant(n), n%4, &balance.Request{Blocks: blocks})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > c.IndexBytes {
		t.Errorf("the index takes %d bytes, and may take %d", used, c.IndexBytes)
	}
	one := &balance.Request{Blocks: chain(letters('z', 100_000))}
	b.Granted(0, 1, one)
	for !b.SetCacheSize(1, 10_000) {
	}
	if got := b.Choose(0, &balance.Request{Blocks: one.Blocks[len(one.Blocks)-1:]}, nil); got.Why != balance.PrefixNone {
		t.Errorf("an engine with a small cache: %+v", got)
	}
	if got := b.Choose(0, &balance.Request{Blocks: one.Blocks[:10]}, nil); got.At != 1 || got.Why != balance.Prefix {
		t.Errorf("what its cache still holds: %+v", got)
	}
	runtime.KeepAlive(b)
}

func TestLeastLatency(t *testing.T) {
	b := idle(balance.Config{Policy: balance.LeastLatency}, 3, 4)
	choose := func(now balance.Instant, input int) int { return b.Choose(now, &balance.Request{Input: input}, nil).At }
	b.FirstByte(0, 0, 100, 100*time.Millisecond)
	b.FirstByte(0, 1, 100, 20*time.Millisecond)
	if got := choose(0, 100); got != 2 {
		t.Errorf("chose %d, want the one of which nothing is known", got)
	}
	b.FirstByte(0, 2, 100, time.Second)
	if got := choose(0, 100); got != 1 {
		t.Errorf("chose %d, want the fastest", got)
	}
	b.Update(1, balance.State{Load: 3, Free: 1, Up: true})
	b.FirstByte(0, 1, 100, 60*time.Millisecond) // a peak counts at once
	if got := choose(0, 100); got != 0 {
		t.Errorf("chose %d, want the one that is idle", got)
	}
	b.FirstByte(time.Minute, 0, 100, 200*time.Millisecond)
	b.FirstByte(time.Minute, 1, 100, 200*time.Millisecond)
	if got := choose(time.Minute, 100); got != 2 {
		t.Errorf("chose %d, want the one that was slow long ago", got)
	}
	b.FirstByte(time.Minute, 2, 1<<20, time.Minute) // of long prompts, which says nothing of short ones
	if got := choose(time.Minute, 100); got != 2 {
		t.Errorf("chose %d for a short prompt", got)
	}
}

func TestScore(t *testing.T) {
	c := indexed()
	c.Policy, c.Weights = balance.Score, balance.Weights{Prefix: 3, Load: 1, Latency: 1}
	b := idle(c, 3, 4)
	r := &balance.Request{Blocks: chain(letters('a', 10_000))}
	b.Granted(0, 1, r)
	b.Update(1, balance.State{Load: 3, Free: 1, Up: true})
	if got := b.Choose(0, r, nil); got.At != 1 || got.Why != balance.Scored {
		t.Errorf("%+v, want the one that has the prompt", got)
	}
	c.Weights.Prefix = 0.1
	b.Configure(c)
	if got := b.Choose(0, r, nil); got.At == 1 {
		t.Errorf("%+v, want one with less load", got)
	}
	c.Weights = balance.Weights{Latency: 1}
	b.Configure(c)
	for at, after := range []time.Duration{50, 10, 50} {
		b.FirstByte(0, at, 0, after*time.Millisecond)
	}
	if got := b.Choose(0, r, nil); got.At != 1 {
		t.Errorf("%+v, want the fastest", got)
	}
	for at := range 3 {
		b.Update(at, balance.State{Load: 4, Up: true})
	}
	if got := b.Choose(0, r, nil); got.At != balance.None || got.Prefers != balance.None {
		t.Errorf("%+v, with no slot free", got)
	}
}

func BenchmarkAmong1000(b *testing.B) {
	prompts := make([]*balance.Request, 64)
	for i := range prompts {
		prompts[i] = &balance.Request{Blocks: chain(letters('a', 4000) + letters(byte(i), 60_000)), Input: 64_000}
	}
	for name, c := range map[string]balance.Config{
		"least_loaded": {}, "least_latency": {Policy: balance.LeastLatency}, "prefix_affinity": indexed(),
		"score": {Policy: balance.Score, IndexBytes: 64 << 20, Weights: balance.Weights{Prefix: 3, Load: 1, Latency: 1}},
	} {
		b.Run(name, func(b *testing.B) {
			c.IndexBytes = 64 << 20
			p := idle(c, 1000, 16)
			for i, r := range prompts {
				p.Granted(0, i*10, r)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				p.Choose(0, prompts[n%len(prompts)], nil)
			}
		})
	}
}
