package balance_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"colonnade/balance"
)

func indexConfig(uses int) balance.Config {
	return balance.Config{Policy: balance.PrefixAffinity, LoadFactor: 1.25, IndexBytes: int64(uses * balance.BytesOfUse), MaxAge: time.Minute}
}

// naiveBlock is a block that an endpoint has.
type naiveBlock struct {
	hash  uint64
	depth int
	used  balance.Instant
}

// naiveCache is what the index should know of one endpoint: the blocks, least recently used first.
type naiveCache struct {
	blocks []naiveBlock
	limit  int64
}

// naiveSize is the size of the block at a depth.
func naiveSize(depth int) int64 {
	end, size := 0, 0
	for range depth + 1 {
		size = max(256, end/16)
		end += size
	}
	return int64(size)
}

// naiveBytes is the size of so many blocks.
func naiveBytes(blocks int) (sum int64) {
	for d := range blocks {
		sum += naiveSize(d)
	}
	return sum
}

func (c *naiveCache) note(now balance.Instant, blocks []uint64, most int) {
	for len(c.blocks) > 0 && now-c.blocks[0].used > time.Minute {
		c.blocks = c.blocks[1:]
	}
	for d, hash := range slices.Backward(blocks[:min(len(blocks), most)]) {
		c.blocks = slices.DeleteFunc(c.blocks, func(b naiveBlock) bool { return b.hash == hash })
		c.blocks = append(c.blocks, naiveBlock{hash, d, now})
	}
	c.trim(most)
}

func (c *naiveCache) trim(most int) {
	for len(c.blocks) > most || c.limit > 0 && c.bytes() > c.limit {
		c.blocks = c.blocks[1:]
	}
}

func (c *naiveCache) bytes() (sum int64) {
	for _, b := range c.blocks {
		sum += naiveSize(b.depth)
	}
	return sum
}

// matched returns how many of the first blocks of a prompt it has.
func (c *naiveCache) matched(now balance.Instant, blocks []uint64) int {
	for d, hash := range blocks {
		if !slices.ContainsFunc(c.blocks, func(b naiveBlock) bool { return b.hash == hash && now-b.used <= time.Minute }) {
			return d
		}
	}
	return len(blocks)
}

// branch returns the blocks of one of a few prompts, which share their beginnings as conversations do.
func branch(which byte, length int) []uint64 {
	blocks := make([]uint64, length)
	for d := range blocks {
		branch := uint64(which) >> max(0, 8-d) // up to 2^d prompts differ in the block at depth d
		blocks[d] = branch<<32 | uint64(d+1)
	}
	return blocks
}

// follow runs operations, each of three bytes, on an index and on naive caches, and compares what they know.
func follow(t *testing.T, data []byte) {
	const n, most = 5, 24
	p := newPool(t, indexConfig(n*most), engines(n, 4))
	naive, now := make([]naiveCache, n), balance.Instant(0)
	for ; len(data) >= 3; data = data[3:] {
		at, which, length := int(data[0])%n, data[1], 1+int(data[2])%30
		switch op := data[0] / n % 16; op {
		case 0:
			limit := int64(data[1])*int64(data[2]) - 64
			p.SetCacheSize(at, limit)
			naive[at].limit = max(limit, 0)
			naive[at].trim(most)
		case 1:
			p.Forget(at)
			naive[at].blocks = nil
		case 2:
			now += balance.Instant(data[2]) * time.Second / 8
		case 3: // the endpoints get another order, and one of them is new
			p.list[at].ID += "'"
			slices.Reverse(p.list)
			naive[at] = naiveCache{}
			slices.Reverse(naive)
			p.set(p.list)
		default:
			p.Granted(now, at, &balance.Request{Blocks: branch(which, length), Input: length << 8})
			naive[at].note(now, branch(which, length), most)
		}
		now++
		compare(t, p, now, naive, branch(which^data[2]&3, 30), data[1])
	}
}

// compare compares the longest matches, of each endpoint and of some together.
func compare(t *testing.T, p *pool, now balance.Instant, naive []naiveCache, blocks []uint64, some byte) {
	t.Helper()
	longest, among := 0, make([]bool, len(naive))
	for at := range naive {
		want := naive[at].matched(now, blocks)
		if among[at] = some>>at&1 == 1; among[at] {
			longest = max(longest, want)
		}
		only := make([]bool, len(naive))
		only[at] = true
		if got, _ := p.Matched(now, blocks, only); got != want {
			t.Fatalf("endpoint %d has %d blocks, want %d", at, got, want)
		}
	}
	got, at := p.Matched(now, blocks, among)
	if got != longest || (got > 0) != (at != balance.None) || got > 0 && (!among[at] || naive[at].matched(now, blocks) != got) {
		t.Fatalf("of %v, endpoint %d has %d blocks, want %d", among, at, got, longest)
	}
	if !p.CheckIndex() {
		t.Fatal("the lists of the index disagree")
	}
}

func FuzzIndexOperations(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		data := make([]byte, 1500)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(follow)
}

// A chain with the same hash twice, and one whose blocks are others' at other depths, confuse nothing but themselves.
func TestIndexOfBrokenChains(t *testing.T) {
	p := newPool(t, indexConfig(100), engines(2, 4))
	random := rand.New(rand.NewPCG(2, 2))
	for range 5000 {
		blocks := make([]uint64, random.IntN(8))
		for d := range blocks {
			blocks[d] = random.Uint64N(6)
		}
		p.Granted(0, random.IntN(2), &balance.Request{Blocks: blocks})
		p.Choose(0, &balance.Request{Blocks: blocks}, nil)
		if !p.CheckIndex() || p.Uses() > 12 {
			t.Fatalf("after %v the index has %d uses, of 6 blocks at 2 endpoints", blocks, p.Uses())
		}
	}
}

// freshPrompts grants so many different prompts.
func freshPrompts(b *balance.Balancer, random *rand.Rand, endpoints, prompts, blocks int) {
	for i := range prompts {
		b.Granted(balance.Instant(i), i%endpoints, fresh(random, blocks))
	}
}

// The index takes no more memory than it may, and needs no more for prompts that come after it is full.
func TestIndexMemoryReused(t *testing.T) {
	const endpoints, uses = 16, 100_000
	random := rand.New(rand.NewPCG(3, 3))
	before := heap()
	b := balance.New(indexConfig(uses))
	b.SetEndpoints(engines(endpoints, 4))
	for fill := range 3 {
		freshPrompts(b, random, endpoints, uses/20, 30)
		taken := heap() - before
		if taken > uses*balance.BytesOfUse || taken < uses*balance.BytesOfUse/3 {
			t.Errorf("filled %d times, the index takes %d bytes, and %d uses at %d bytes", fill+1, taken, b.Uses(), balance.BytesOfUse)
		}
		if b.Uses() > uses || b.Uses() < uses*9/10 {
			t.Errorf("the index has %d uses, want about %d", b.Uses(), uses)
		}
	}
	runtime.KeepAlive(b)
}

// The memory of the index is bounded while endpoints are added one by one, each of which gets prompts only until the next is there. A prompt
// makes the others forget little.
func TestIndexMemoryWhileEndpointsAreAdded(t *testing.T) {
	const uses, blocks = 6000, 30
	random := rand.New(rand.NewPCG(5, 5))
	p := newPool(t, indexConfig(uses), engines(1, 4))
	for n := 1; n <= 40; n++ {
		p.SetEndpoints(engines(n, 4))
		for range uses / blocks {
			before := p.Uses()
			p.Granted(0, n-1, fresh(random, blocks))
			if got := p.Uses(); got > uses || got < before-100 {
				t.Fatalf("with %d endpoints, the index has %d uses, and had %d", n, got, before)
			}
		}
		if !p.CheckIndex() {
			t.Fatal("the index is broken")
		}
	}
}

// The same is so of what is taken over from another server.
func TestIndexMemoryWhileUsesAreAdopted(t *testing.T) {
	const uses = 6000
	random := rand.New(rand.NewPCG(6, 6))
	p := newPool(t, indexConfig(uses), engines(1, 4))
	freshPrompts(p.Balancer, random, 1, uses/20, 30)
	known := p.RecentUses(0, nil)
	for n := 0; n < len(known); known = p.RecentUses(0, known) {
		n = len(known)
	}
	p.SetEndpoints(engines(2, 4))
	for i := range known {
		known[i].Hash++ // other prompts
	}
	for from := 0; from < len(known); {
		if from = p.AdoptUses(time.Second, 1, known, from); p.Uses() > uses {
			t.Fatalf("the index has %d uses", p.Uses())
		}
	}
}

func fresh(random *rand.Rand, blocks int) *balance.Request {
	r := &balance.Request{Blocks: make([]uint64, blocks), Input: blocks << 8}
	for d := range r.Blocks {
		r.Blocks[d] = random.Uint64()
	}
	return r
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A full index allocates nothing, for choices and grants.
func TestIndexAllocates(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	p := newPool(t, indexConfig(20_000), engines(8, 4))
	freshPrompts(p.Balancer, random, 8, 4000, 30)
	r := balance.Request{Blocks: make([]uint64, 30), Input: 30 << 8}
	if allocs := testing.AllocsPerRun(2000, func() {
		for d := range r.Blocks {
			r.Blocks[d] = random.Uint64()
		}
		p.Granted(0, p.Choose(0, &r, nil).At, &r)
	}); allocs > 0 {
		t.Errorf("a choice and a grant allocate %v times", allocs)
	}
}

// Configure to a policy without an index gives its memory back.
func TestIndexIsDropped(t *testing.T) {
	p := newPool(t, indexConfig(1000), engines(2, 4))
	freshPrompts(p.Balancer, rand.New(rand.NewPCG(5, 5)), 2, 100, 30)
	if p.Uses() == 0 {
		t.Fatal("the index is empty")
	}
	p.Configure(balance.Config{})
	p.Granted(0, 0, &balance.Request{Blocks: branch(1, 3)})
	if p.Uses() != 0 || !p.CheckIndex() {
		t.Errorf("the index has %d uses of a policy that needs none", p.Uses())
	}
}

// A block that many endpoints have is found at any of them, and requests for it spread over all.
func TestManyHolders(t *testing.T) {
	const n = 200
	p, r := newPool(t, indexConfig(n*40), engines(n, 4)), prompt(1, 4)
	for at := range n {
		p.Granted(0, at, r)
		p.Granted(0, at, prompt(uint64(2+at), 4))
		p.full(at)
	}
	for at := range n {
		p.update(at, balance.State{Free: 4, Up: true})
		p.want(prompt(1, 10), nil, balance.Choice{At: at, Prefers: none, Why: balance.Prefix})
		p.want(prompt(uint64(2+at), 4), nil, balance.Choice{At: at, Prefers: none, Why: balance.Prefix})
		p.full(at)
	}
	got := make([]int, n)
	for at := range n {
		p.update(at, balance.State{Free: 4, Up: true})
	}
	for range 2 * n {
		at := p.Choose(0, r, nil).At
		p.take(at, r)
		got[at]++
	}
	if slices.Min(got) < 1 || slices.Max(got) > 3 {
		t.Errorf("the endpoints got %v", got)
	}
}

// An endpoint that has forgotten all gets the same prompts again, while what it had is removed bit by bit.
func TestForgetIsRemovedBitByBit(t *testing.T) {
	p := newPool(t, indexConfig(10_000), engines(2, 4))
	for conversation := range uint64(50) {
		p.Granted(0, 0, prompt(conversation, 20))
	}
	p.Forget(0)
	if p.Uses() != 0 || p.Forgotten() != 1000 {
		t.Errorf("%d uses, and %d forgotten", p.Uses(), p.Forgotten())
	}
	p.want(prompt(7, 20), nil, balance.Choice{At: 1, Prefers: none, Why: balance.PrefixNone})
	for conversation := range uint64(30) {
		before := p.Forgotten()
		p.Granted(0, 0, prompt(conversation, 20))
		p.want(prompt(conversation, 20), nil, balance.Choice{At: 0, Prefers: none, Why: balance.Prefix})
		if removed := before - p.Forgotten(); removed > 200 || removed < min(before, 20) {
			t.Fatalf("%d of %d forgotten uses are removed at a grant", removed, before)
		}
	}
	if p.Uses() != 600 || p.Forgotten() != 0 || !p.CheckIndex() {
		t.Errorf("%d uses, and %d forgotten", p.Uses(), p.Forgotten())
	}
	p.set(p.list[1:]) // what is gone is forgotten too
	if p.Uses() != 0 || p.Forgotten() != 600 || !p.CheckIndex() {
		t.Errorf("%d uses, and %d forgotten", p.Uses(), p.Forgotten())
	}
}

// The cache of an engine gets smaller bit by bit.
func TestCacheSizeInSteps(t *testing.T) {
	p := newPool(t, indexConfig(10_000), engines(1, 4))
	for conversation := range uint64(100) {
		p.Granted(0, 0, prompt(conversation, 20))
	}
	calls := 1
	for !p.SetCacheSize(0, 10_000) {
		calls++
	}
	if calls < 4 || p.Cached(0) > 10_000 || p.Cached(0) < 8_000 || !p.CheckIndex() {
		t.Errorf("after %d calls, the cache has %d bytes", calls, p.Cached(0))
	}
}
