package balance

import "math"

// index remembers which blocks of prompts were sent to which endpoint, as far as the engine is likely to have them in its cache still.
//
// It is closed under prefixes: an endpoint that has a block has all blocks before it. A use of a block makes all blocks before it more
// recent than itself, and the least recent block of an endpoint is forgotten first, as engines do it themselves. So the longest match is
// found by binary search over a chain.
type index struct {
	blocks map[uint64]int32 // by hash: the first use in the list of the block
	owned  map[uint64]int32 // the use of a block by an endpoint, by cached.key: lists may be long
	uses   []use            // memory of all uses; those in no list are free
	free   int32            // the first free use, by next
	gone   int32            // the first use that its endpoint has forgotten, by older
	count  int              // uses of all endpoints
	excess int              // endpoint at which trimOthers goes on
}

// use says that an endpoint has a block.
type use struct {
	hash         uint64
	used         int64 // instant
	owner        *learned
	next, before int32 // of the same block, at another endpoint
	newer, older int32 // of the same endpoint
	depth        int16 // of the block in its chain
	life         uint32
}

// cached are the uses of one endpoint.
type cached struct {
	newest, oldest int32 // none if there are none
	count          int
	bytes          int64 // of prompts
	limit          int64 // of bytes, as the engine says; 0: not known
	salt           uint64
	life           uint32 // uses of another life are forgotten
}

// key stands for a block at this endpoint.
func (c *cached) key(hash uint64) uint64 { return hash ^ c.salt }

const (
	none       = int32(-1)
	bytesOfUse = 160 // with its part of the map; see TestIndexMemory
)

func newIndex() *index {
	return &index{blocks: map[uint64]int32{}, owned: map[uint64]int32{}, free: none, gone: none}
}

// first returns the list of the uses of a block.
func (x *index) first(hash uint64) int32 {
	if i, ok := x.blocks[hash]; ok {
		return i
	}
	return none
}

// find returns the use of a block by an endpoint.
func (x *index) find(hash uint64, owner *learned) int32 {
	if i, ok := x.owned[owner.cached.key(hash)]; ok && x.uses[i].owner == owner && x.uses[i].hash == hash && !x.forgotten(i) {
		return i
	}
	return none
}

// note says that an endpoint has got a prompt. The endpoint keeps at most so many uses.
func (x *index) note(now Instant, owner *learned, blocks []uint64, most int) {
	c := &owner.cached
	blocks = blocks[:min(len(blocks), most, MaxBlocks)]
	for d := len(blocks) - 1; d >= 0; d-- { // the deepest first, so that it is forgotten first
		if i := x.find(blocks[d], owner); i != none {
			x.unlink(i)
			x.uses[i].used = int64(now)
			x.link(i)
			continue
		}
		i := x.add(owner, blocks[d], d)
		x.uses[i].used = int64(now)
		x.link(i)
	}
	x.trim(c, most, step+len(blocks))
	x.sweep(step + len(blocks))
}

// step is how many uses are dropped at a time at least, since the pool's mutex is held meanwhile.
const step = 64

// trim drops the oldest uses of an endpoint that has more than so many, or more than its cache holds, but no more than step at a time. It
// reports whether all are dropped.
func (x *index) trim(c *cached, most, step int) bool {
	for ; c.count > most || c.limit > 0 && c.bytes > c.limit; step-- {
		if step == 0 {
			return false
		}
		x.drop(c.oldest)
	}
	return true
}

// age forgets what an endpoint has not used for too long.
func (x *index) age(now, most Instant, c *cached) {
	for left := step; left > 0 && most > 0 && c.count > 0 && now-Instant(x.uses[c.oldest].used) > most; left-- {
		x.drop(c.oldest)
	}
}

// add adds a use, which the caller links.
func (x *index) add(owner *learned, hash uint64, depth int) int32 {
	if x.free == none {
		x.sweep(1)
	}
	i := x.free
	if i == none {
		x.uses = append(x.uses, use{})
		i = int32(len(x.uses) - 1)
	} else {
		x.free = x.uses[i].next
	}
	x.uses[i] = use{hash: hash, owner: owner, next: x.first(hash), before: none, depth: int16(depth), life: owner.cached.life}
	if next := x.uses[i].next; next != none {
		x.uses[next].before = i
	}
	x.blocks[hash], x.owned[owner.cached.key(hash)] = i, i
	x.count++
	owner.cached.count++
	owner.cached.bytes += int64(bytesOf(depth+1) - bytesOf(depth))
	return i
}

// drop forgets one use.
func (x *index) drop(i int32) {
	u, c := &x.uses[i], &x.uses[i].owner.cached
	x.unlink(i)
	x.count--
	c.count--
	c.bytes -= int64(bytesOf(int(u.depth)+1) - bytesOf(int(u.depth)))
	x.remove(i)
}

// remove takes a use out of the list of its block, and frees it.
func (x *index) remove(i int32) {
	u := x.uses[i]
	if key := u.owner.cached.key(u.hash); x.owned[key] == i {
		delete(x.owned, key) // else the endpoint has got the block again since
	}
	if u.next != none {
		x.uses[u.next].before = u.before
	}
	switch {
	case u.before != none:
		x.uses[u.before].next = u.next
	case u.next != none:
		x.blocks[u.hash] = u.next
	default:
		delete(x.blocks, u.hash)
	}
	x.uses[i] = use{next: x.free}
	x.free = i
}

// forget drops all uses of an endpoint. They count no more at once, and are removed later, bit by bit.
func (x *index) forget(c *cached) {
	if c.count > 0 {
		x.uses[c.oldest].older = x.gone
		x.gone = c.newest
	}
	x.count -= c.count
	c.newest, c.oldest, c.count, c.bytes = none, none, 0, 0
	c.life++
}

// forgotten reports whether the endpoint of a use has forgotten it.
func (x *index) forgotten(i int32) bool { return x.uses[i].life != x.uses[i].owner.cached.life }

// sweep removes so many forgotten uses.
func (x *index) sweep(n int) {
	for ; n > 0 && x.gone != none; n-- {
		i := x.gone
		x.gone = x.uses[i].older
		x.remove(i)
	}
}

// link makes a use the newest of its endpoint.
func (x *index) link(i int32) { x.linkBehind(i, none) }

// linkBehind puts a use behind the next newer one of its endpoint; none: it is the newest.
func (x *index) linkBehind(i, newer int32) {
	c := &x.uses[i].owner.cached
	older := c.newest
	if newer == none {
		c.newest = i
	} else {
		older, x.uses[newer].older = x.uses[newer].older, i
	}
	if older == none {
		c.oldest = i
	} else {
		x.uses[older].newer = i
	}
	x.uses[i].newer, x.uses[i].older = newer, older
}

func (x *index) unlink(i int32) {
	u, c := &x.uses[i], &x.uses[i].owner.cached
	if u.newer == none {
		c.newest = u.older
	} else {
		x.uses[u.newer].older = u.older
	}
	if u.older == none {
		c.oldest = u.newer
	} else {
		x.uses[u.older].newer = u.newer
	}
}

// longest returns the most blocks of the prompt's beginning that an endpoint has for which test is true, and the least loaded endpoint that has
// them. One is known to have the first blocks; if none has more, it returns None.
func (b *Balancer) longest(now Instant, blocks []uint64, known int, test func(b *Balancer, at int) bool) (matched, at int) {
	if matched = b.depth(now, blocks, known, test); matched == known {
		return matched, None
	}
	return matched, b.holder(now, blocks[matched-1], test, maxHolders)
}

// depth is longest without the endpoint.
func (b *Balancer) depth(now Instant, blocks []uint64, known int, test func(b *Balancer, at int) bool) int {
	low, high := known, min(len(blocks), MaxBlocks) // low blocks are had, high+1 are not
	for low < high {
		middle := (low + high + 1) / 2
		if b.holder(now, blocks[middle-1], test, 1) != None {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// maxHolders is how many endpoints that have a block are compared: more are many that have the beginning of many prompts.
const maxHolders = 32

// holder returns the least loaded of the first endpoints, up to so many, that have a block and for which test is true.
func (b *Balancer) holder(now Instant, hash uint64, test func(b *Balancer, at int) bool, most int) int {
	best, looked := None, 0
	for i := b.index.first(hash); i != none; i = b.index.uses[i].next {
		if looked++; looked > maxHolders {
			return b.holderOfMany(now, hash, test, most)
		}
		if at := b.index.uses[i].owner.at; b.fresh(now, i) && test(b, at) {
			best = b.lessLoaded(best, at)
			if most == 1 {
				break
			}
		}
	}
	return best
}

// holderOfMany is holder for a block that many endpoints have. It goes by their turns, so that not the same few get all requests.
func (b *Balancer) holderOfMany(now Instant, hash uint64, test func(b *Balancer, at int) bool, most int) int {
	best, found := None, 0
	for n := 0; n < len(b.endpoints) && found < most; n++ {
		at := b.from(n)
		if !test(b, at) {
			continue
		}
		if i := b.index.find(hash, b.endpoints[at].learned); i != none && b.fresh(now, i) {
			best = b.lessLoaded(best, at)
			found++
		}
	}
	return best
}

// fresh reports whether a use is neither forgotten nor too old.
func (b *Balancer) fresh(now Instant, i int32) bool {
	return !b.index.forgotten(i) && (b.config.MaxAge <= 0 || now-Instant(b.index.uses[i].used) <= b.config.MaxAge)
}

// lessLoaded returns the less loaded of two endpoints; the first may be None.
func (b *Balancer) lessLoaded(best, at int) int {
	if best == None || b.endpoints[at].lessLoaded(&b.endpoints[best]) {
		return at
	}
	return best
}

// choosePrefix returns the endpoint with most of the prompt in its cache, of those that are open and within their bounds.
func (b *Balancer) choosePrefix(now Instant, r *Request, barred []bool) Choice {
	if r == nil || b.totals.open == 0 {
		return b.withoutPrefix(barred)
	}
	b.limit, b.barredNow = b.bound(), barred
	matched, at := b.longest(now, r.Blocks, 0, (*Balancer).fits)
	more, prefers := b.longest(now, r.Blocks, matched, (*Balancer).wouldFit)
	b.barredNow = nil
	c := Choice{At: at, Prefers: None, Why: Prefix}
	switch {
	case matched == 0 || bytesOf(matched)*leastShare < bytesOf(len(r.Blocks)):
		c = b.withoutPrefix(barred)
	case more > matched:
		c.Why = PrefixNext
	}
	if c.At != None && bytesOf(more)-bytesOf(matched) >= leastGain {
		c.Prefers = prefers
	}
	return c
}

func (b *Balancer) withoutPrefix(barred []bool) Choice {
	c := b.chooseLeastLoaded(barred)
	c.Why = PrefixNone
	return c
}

// leastShare is the part of a prompt that an endpoint must have in its cache to be chosen for it: one in so many. Less is had of the
// beginning that many prompts share; to follow that would heap prompts up where it was first, while the caches of others have room.
const leastShare = 8

// leastGain is how much more of a prompt an endpoint must have in its cache so that a request waits for it: less is computed in the
// time of a few tokens.
const leastGain = 2 << 10 // bytes

// fits reports whether an endpoint is open and within its bound.
func (b *Balancer) fits(at int) bool {
	return b.open(at, b.barredNow) && b.endpoints[at].within(b.limit, 0)
}

// wouldFit reports whether an endpoint is within its bound, or would be once a request there ends.
func (b *Balancer) wouldFit(at int) bool {
	e, less := &b.endpoints[at], 0
	if e.Free <= 0 {
		less = 1
	}
	return e.Up && (b.barredNow == nil || !b.barredNow[at]) && e.within(b.limit, less)
}

// notePrompt notes that an endpoint has got a prompt.
func (b *Balancer) notePrompt(now Instant, at int, r *Request) {
	if len(r.Blocks) == 0 || !b.config.usesIndex() {
		return
	}
	owner := b.endpoints[at].learned
	b.index.age(now, b.config.MaxAge, &owner.cached)
	b.index.note(now, owner, r.Blocks, b.usesOfEach())
	b.trimOthers(step + len(r.Blocks))
}

// trimOthers drops the oldest uses of endpoints that have more than their part, which became smaller when endpoints were added, until all
// endpoints together have no more than there is memory for. It drops no more than so many at a time, and looks at each endpoint once. An endpoint
// that gets no prompts keeps the rest until others need it.
func (b *Balancer) trimOthers(most int) {
	x, each := b.index, b.usesOfEach()
	if x.count <= each*len(b.endpoints) {
		return
	}
	for range b.endpoints {
		x.excess %= len(b.endpoints)
		c := &b.endpoints[x.excess].cached
		for ; c.count > each; most-- {
			if most == 0 || x.count <= each*len(b.endpoints) {
				return
			}
			x.drop(c.oldest)
		}
		x.excess++
	}
}

// usesOfEach is how many uses each endpoint may have.
func (b *Balancer) usesOfEach() int {
	return max(1, int(min(b.config.IndexBytes/bytesOfUse, math.MaxInt32/2))/max(1, len(b.endpoints)))
}

// usesIndex reports whether the policy goes by the index.
func (c *Config) usesIndex() bool {
	return c.Policy == PrefixAffinity && !c.ByRing || c.Policy == Score && c.Weights.Prefix > 0
}

// SetCacheSize says how many bytes of prompts the cache of an engine holds at most; 0: not known. It reports false if there is more to
// forget than it forgets at a time: the caller calls it again.
func (b *Balancer) SetCacheSize(at int, bytes int64) (done bool) {
	c := &b.endpoints[at].cached
	c.limit = max(bytes, 0)
	return b.index.trim(c, c.count, 4*step)
}

// Cached returns how many bytes of prompts the index takes to be in the cache of an engine.
func (b *Balancer) Cached(at int) int64 { return b.endpoints[at].cached.bytes }

// Forget says that the cache of an engine is empty.
func (b *Balancer) Forget(at int) { b.index.forget(&b.endpoints[at].cached) }
