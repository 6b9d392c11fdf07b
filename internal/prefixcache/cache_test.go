package prefixcache_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"colonnade/internal/prefixcache"
)

// four has blocks of four tokens.
func four(blocks int) *prefixcache.Cache {
	return prefixcache.New(prefixcache.Config{BlockTokens: 4, Blocks: blocks})
}

// tokens returns n tokens that depend on seed alone.
func tokens(seed uint32, n int) []uint32 {
	all := make([]uint32, n)
	for i := range all {
		all[i] = seed<<16 + uint32(i)
	}
	return all
}

// serve runs a request alone, and returns how many tokens of its prompt were cached.
func serve(c *prefixcache.Cache, prompt, generated []uint32) int {
	r, cached := c.Begin(c.Chain(prompt), len(prompt))
	c.End(r, c.Chain(append(prompt[:len(prompt):len(prompt)], generated...)))
	return cached
}

func want(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d, want %d", what, got, want)
	}
}

func TestPrefixIsCached(t *testing.T) {
	c := four(100)
	a := tokens(1, 18)
	want(t, "first prompt", serve(c, a, nil), 0)
	want(t, "same prompt, of which the last two tokens fill no block", serve(c, a, nil), 16)
	want(t, "longer prompt", serve(c, append(a[:10:10], tokens(2, 10)...), nil), 8)
	want(t, "other prompt", serve(c, tokens(3, 20), nil), 0)
	want(t, "prompt that is cached as a whole, but for its last block", serve(c, a[:16], nil), 12)
	want(t, "empty prompt", serve(c, nil, nil), 0)
}

func TestSameBlockBehindOtherPrefixIsNotCached(t *testing.T) {
	c := four(100)
	a, b := tokens(1, 8), tokens(2, 8)
	copy(b[4:], a[4:])
	serve(c, a, nil)
	want(t, "second block alone", serve(c, append(b, 1), nil), 0)
}

func TestGeneratedTokensAreCached(t *testing.T) {
	c := four(100)
	prompt, answer := tokens(1, 6), tokens(2, 6)
	serve(c, prompt, answer)
	want(t, "next turn", serve(c, append(append(prompt, answer...), 7), nil), 12)
}

func TestLeastRecentlyUsedLeafIsEvicted(t *testing.T) {
	c := four(4)
	a, b := tokens(1, 9), tokens(2, 9)
	serve(c, a, nil)
	serve(c, b, nil)
	serve(c, a, nil)
	serve(c, tokens(3, 5), nil) // takes the place of the last block of b
	want(t, "recently used", serve(c, a, nil), 8)
	want(t, "evicted from its end", c.Cached(c.Chain(b)), 1)
	want(t, "evicted blocks", int(c.Stats().Evicted), 1)
}

func TestBlocksInUseAreNotEvicted(t *testing.T) {
	c := four(3)
	a := tokens(1, 9)
	r, _ := c.Begin(c.Chain(a), len(a))
	serve(c, tokens(2, 17), nil)
	want(t, "in use", c.Cached(c.Chain(a)), 2)
	want(t, "what fits of the other", c.Cached(c.Chain(tokens(2, 17))), 1)
	want(t, "blocks that do not fit", int(c.Stats().NotStored), 6) // tried at the beginning and at the end
	c.End(r, nil)
	want(t, "used at the end", c.Stats().Used, 0)
	serve(c, tokens(3, 13), nil)
	want(t, "no longer in use", c.Cached(c.Chain(a)), 0)
}

func TestClear(t *testing.T) {
	c := four(3)
	a := tokens(1, 9)
	r, _ := c.Begin(c.Chain(a), len(a))
	c.Clear()
	want(t, "cleared", serve(c, a, nil), 0)
	c.End(r, c.Chain(tokens(1, 17)))
	want(t, "nothing without its prefix", c.Stats().Blocks, 2)
	want(t, "stored again", serve(c, a, nil), 8)
	st := c.Stats()
	want(t, "used", st.Used, 0)
	want(t, "blocks", st.Blocks, 2)
}

// TestInvariants runs random requests side by side and holds the cache against what must always be true.
func TestInvariants(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := four(20)
	type running struct {
		r     prefixcache.Request
		chain []uint64
		held  int
	}
	var all []running
	for range 20000 {
		if len(all) > 0 && rng.IntN(2) == 0 {
			n := rng.IntN(len(all))
			c.End(all[n].r, all[n].chain)
			all[n] = all[len(all)-1]
			all = all[:len(all)-1]
		} else {
			prompt := tokens(uint32(rng.IntN(4)), rng.IntN(40))
			for cut := rng.IntN(40); cut < len(prompt); cut++ {
				prompt[cut] += uint32(rng.IntN(2)) << 8
			}
			chain := c.Chain(prompt)
			before := c.Cached(chain)
			r, cached := c.Begin(chain, len(prompt))
			want(t, "cached", cached, min(before, max(len(prompt)-1, 0)/4)*4)
			all = append(all, running{r, chain, c.Cached(chain)})
		}
		st := c.Stats()
		if st.Blocks > 20 || st.Used > st.Blocks || len(all) == 0 && st.Used > 0 {
			t.Fatalf("stats are %+v with %d requests", st, len(all))
		}
		for _, r := range all {
			if c.Cached(r.chain) < r.held {
				t.Fatal("a block in use was evicted")
			}
		}
	}
}

func TestPrefillIsShared(t *testing.T) {
	p := prefixcache.Prefill{PerToken: time.Millisecond}
	for _, s := range []struct{ now, tokens, done int }{{0, 100, 100}, {50, 10, 110}, {60, 0, 110}, {200, 5, 205}} {
		got := p.Add(time.Duration(s.now)*time.Millisecond, s.tokens)
		want(t, "milliseconds until computed", int(got.Milliseconds()), s.done)
	}
}

func BenchmarkRequest(b *testing.B) {
	c := prefixcache.New(prefixcache.Config{BlockTokens: 16, Blocks: 10000})
	prompt := tokens(1, 8000)
	chain := c.Chain(prompt)
	b.ReportAllocs()
	for b.Loop() {
		r, _ := c.Begin(chain, len(prompt))
		c.End(r, chain)
	}
}
