package balance_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"colonnade/balance"
)

// exported returns what a balancer knows of an endpoint, as another server gets it.
func exported(b *balance.Balancer, now balance.Instant, at int) balance.Known {
	k := b.Known(now, at)
	var uses []balance.Use
	for before := -1; before < len(uses); {
		before = len(uses)
		uses = b.RecentUses(at, uses)
	}
	k.Blocks = balance.EncodeUses(now, uses)
	return k
}

// adopt takes over what another balancer knew of an endpoint, age ago.
func adopt(b *balance.Balancer, now balance.Instant, at int, k *balance.Known, age time.Duration) {
	b.Adopt(now, at, k, age)
	uses := balance.DecodeUses(now, k.Blocks, age)
	for from := 0; from < len(uses); {
		from = b.AdoptUses(now, at, uses, from)
	}
}

// A balancer that takes over what another knows chooses as that one would have.
func TestKnownMoves(t *testing.T) {
	c := indexConfig(1 << 16)
	old, next := newPool(t, c, engines(3, 4)), newPool(t, c, engines(3, 4))
	for n := range uint64(90) {
		old.Granted(balance.Instant(n)*time.Millisecond, int(n%3), prompt(n, 40))
	}
	now := 10 * time.Minute
	for at := range 3 {
		k := exported(old.Balancer, time.Second, at)
		if most := 30 * 40 * 91 / 10; len(k.Blocks) > most {
			t.Errorf("%d bytes for 1200 blocks, want at most %d", len(k.Blocks), most)
		}
		adopt(next.Balancer, now, at, &k, 5*time.Second)
	}
	if !next.CheckIndex() || next.Uses() != old.Uses() {
		t.Errorf("the index has %d of %d uses, or is not consistent", next.Uses(), old.Uses())
	}
	for n := range uint64(90) {
		next.want(prompt(n, 40), nil, balance.Choice{At: int(n % 3), Prefers: balance.None, Why: balance.Prefix})
	}
	again := exported(next.Balancer, now, 0)
	if before := exported(old.Balancer, 6*time.Second, 0); !bytes.Equal(before.Blocks, again.Blocks) {
		t.Error("the uses are not in their order, or have other ages")
	}
}

// Latencies and adapters move. Those that are known already, and values that cannot be true, are not taken over.
func TestLatenciesAndAdaptersMove(t *testing.T) {
	old := newPool(t, balance.Config{Policy: balance.LeastLatency}, engines(2, 4))
	next := newPool(t, balance.Config{Policy: balance.LeastLatency}, engines(2, 4))
	old.FirstByte(time.Second, 0, 100, 30*time.Millisecond)
	old.FirstByte(time.Second, 1, 100, 20*time.Millisecond)
	old.FirstByte(time.Second, 1, 1<<20, time.Second)
	for _, name := range []string{"first", "second", "pending"} {
		r := &balance.Request{Adapter: name}
		old.take(0, r)
		if name != "pending" {
			old.release(0, r)
		}
	}
	next.FirstByte(0, 1, 1<<20, time.Minute)
	for at := range 2 {
		k := exported(old.Balancer, 2*time.Second, at)
		if want := []string{"pending", "second", "first"}; at == 0 && !slices.Equal(k.Adapters, want) {
			t.Errorf("adapters %v, want %v", k.Adapters, want)
		}
		k.FirstBytes = append(k.FirstBytes, balance.FirstByteKnown{Class: -1, Nanos: 1}, balance.FirstByteKnown{Class: 99, Nanos: 1},
			balance.FirstByteKnown{Class: 5, Nanos: math.Inf(1)}, balance.FirstByteKnown{Class: 5, Nanos: math.NaN()}, balance.FirstByteKnown{Class: 5, Nanos: 1, AgeMillis: -1})
		k.Adapters = append(k.Adapters, "", string(make([]byte, 1<<10)))
		adopt(next.Balancer, 0, at, &k, time.Second)
	}
	next.want(&balance.Request{Input: 100}, nil, balance.Choice{At: 1, Prefers: balance.None, Why: balance.Latency})
	if got := exported(next.Balancer, 0, 1).FirstBytes; len(got) != 2 || got[0] != (balance.FirstByteKnown{Nanos: 2e7, AgeMillis: 2000}) || got[1].Nanos != 60e9 {
		t.Errorf("latencies %+v", got)
	}
	next.Configure(balance.Config{Policy: balance.AdapterAffinity, AdapterPending: 1})
	for _, name := range []string{"first", "second", "pending"} {
		next.want(&balance.Request{Adapter: name}, nil, balance.Choice{At: 0, Prefers: balance.None, Why: balance.Adapter})
	}
	if got := exported(next.Balancer, 0, 0).Adapters; !slices.Equal(got, []string{"pending", "second", "first"}) {
		t.Errorf("adapters %v at the next home", got)
	}
}

// Uses of another balancer are merged with those that are known already, whatever happens between two parts of them: the newest are kept.
func TestAdoptedUsesAreMerged(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		most := 100 + r.IntN(3000)
		old, next := newPool(t, indexConfig(1<<16), engines(1, 4)), newPool(t, indexConfig(most), engines(1, 4))
		type block struct {
			hash uint64
			used balance.Instant
		}
		latest := map[uint64]balance.Instant{}
		grant := func(b *balance.Balancer, now balance.Instant) {
			sent := prompt(r.Uint64N(50), 1+r.IntN(60))
			b.Granted(now, 0, sent)
			for _, hash := range sent.Blocks {
				latest[hash] = max(latest[hash], now)
			}
		}
		at := func() balance.Instant { return balance.Instant(r.IntN(20)) * time.Second }
		for _, now := range slices.Sorted(slices.Values([]balance.Instant{at(), at(), at(), at(), at(), at(), at(), at(), at()})) {
			grant([]*pool{old, next}[r.IntN(2)].Balancer, now)
		}
		k := exported(old.Balancer, 20*time.Second, 0)
		uses := balance.DecodeUses(20*time.Second, k.Blocks, 0)
		for from := 0; from < len(uses); {
			if from = next.AdoptUses(20*time.Second, 0, uses, from); r.IntN(2) == 0 {
				grant(next.Balancer, 20*time.Second)
			}
		}
		if !next.CheckIndex() {
			t.Fatalf("seed %d: the index is not consistent", seed)
		}
		var want []block
		for hash, used := range latest {
			want = append(want, block{hash, used})
		}
		slices.SortFunc(want, func(a, b block) int { return int(b.used - a.used) })
		if next.Uses() != min(most, len(want)) {
			t.Fatalf("seed %d: %d uses, want %d of %d", seed, next.Uses(), min(most, len(want)), len(want))
		}
		var have []balance.Use
		for before := -1; before < len(have); {
			before = len(have)
			have = next.RecentUses(0, have)
		}
		for n, u := range have {
			if u.Used != latest[u.Hash] || u.Used != want[n].used {
				t.Fatalf("seed %d: use %d is of %v, want %v, and the block was used at %v", seed, n, u.Used, want[n].used, latest[u.Hash])
			}
		}
	}
}

// Uses that change between two parts of a list are left out of it, and all others are in it.
func TestRecentUsesWhileTheyChange(t *testing.T) {
	p := newPool(t, indexConfig(1<<16), engines(1, 4))
	for n := range uint64(40) {
		p.Granted(balance.Instant(n), 0, prompt(n, 32))
	}
	uses := p.RecentUses(0, nil) // of the conversations 39 to 32
	p.Granted(50, 0, prompt(32, 32))
	p.Granted(51, 0, prompt(20, 32))
	for before := -1; before < len(uses); {
		before = len(uses)
		uses = p.RecentUses(0, uses)
	}
	if len(uses) != 39*32 {
		t.Errorf("%d uses, want those of all conversations but one", len(uses))
	}
}

// Any bytes give uses that the index can take, each of at least nine bytes.
func FuzzAdoptUses(f *testing.F) {
	p := newPool(&testing.T{}, indexConfig(1000), engines(2, 4))
	p.Granted(time.Second, 0, prompt(1, 9))
	p.Granted(2*time.Second, 0, prompt(1, 3))
	f.Add(exported(p.Balancer, time.Minute, 0).Blocks)
	f.Add([]byte{0, 255, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, text []byte) {
		p := newPool(t, indexConfig(40), engines(2, 4))
		p.Granted(0, 0, prompt(1, 9))
		uses := balance.DecodeUses(time.Minute, text, time.Second)
		if 9*len(uses) > len(text) {
			t.Errorf("%d uses in %d bytes", len(uses), len(text))
		}
		adopt(p.Balancer, time.Minute, 0, &balance.Known{Blocks: text}, time.Second)
		if !p.CheckIndex() {
			t.Error("the index is not consistent")
		}
		if again := balance.DecodeUses(time.Minute, balance.EncodeUses(time.Minute, uses), 0); !slices.Equal(again, uses) {
			t.Errorf("%v has become %v", uses, again)
		}
	})
}
