package prefixcache

import "math/bits"

// Config is the size of a cache.
type Config struct {
	BlockTokens int // tokens of a block
	Blocks      int // capacity
}

// Chain returns the hashes of the full blocks of tokens. Each covers all tokens before it too.
func (c Config) Chain(tokens []uint32) []uint64 {
	chain := make([]uint64, 0, len(tokens)/c.BlockTokens)
	h := uint64(1)
	for n, t := range tokens {
		h = mix(h ^ uint64(t))
		if (n+1)%c.BlockTokens == 0 {
			chain = append(chain, h)
		}
	}
	return chain
}

// mix multiplies by wyhash's way: both halves of the product with an odd constant.
func mix(h uint64) uint64 {
	hi, lo := bits.Mul64(h^0xa0761d6478bd642f, 0xe7037ed1a0b428db)
	return hi ^ lo
}

// Cache has the blocks of one engine.
type Cache struct {
	Config
	Stored, Evicted func(hash uint64) // called for each block, if not nil

	blocks map[uint64]*block // by hash
	idle   block             // ring of the blocks that no request uses, least recently used first
	used   int               // blocks that requests use
	clears int
	stats  Stats
}

type block struct {
	hash       uint64
	users      int    // running requests
	prev, next *block // in Cache.idle, while users is 0
}

// Stats are the counts of a cache since it was created.
type Stats struct {
	Blocks, Used        int    // stored now; of these, used by running requests
	Queried, Hit        uint64 // tokens of prompts; of these, cached
	Stored, Evicted     uint64 // blocks
	NotStored, Requests uint64 // blocks for which there was no room; requests begun
}

// New returns an empty cache. It panics if a size is not positive.
func New(c Config) *Cache {
	if c.BlockTokens < 1 || c.Blocks < 1 {
		panic("prefixcache: the sizes must be at least 1")
	}
	cache := &Cache{Config: c}
	cache.Clear()
	return cache
}

// Request is a running request, whose blocks stay in the cache until End.
type Request struct {
	held   []*block // a prefix of its chain
	clears int      // Cache.clears when it began
}

// Begin takes the blocks of a prompt, given its chain and its length in tokens, and stores those that are missing. It returns how many tokens
// of the prompt were cached. The caller must call End.
func (c *Cache) Begin(chain []uint64, tokens int) (r Request, cached int) {
	r.clears = c.clears
	c.stats.Requests++
	c.stats.Queried += uint64(max(tokens, 0))
	for _, hash := range chain {
		b := c.blocks[hash]
		if b == nil {
			break
		}
		c.hold(&r, b)
	}
	cached = len(r.held)
	if cached*c.BlockTokens >= tokens {
		cached = max((tokens-1)/c.BlockTokens, 0)
	}
	cached *= c.BlockTokens
	c.stats.Hit += uint64(cached)
	c.extend(&r, chain)
	return r, cached
}

// End releases the blocks of a request, after it has stored those of chain that are missing: the chain of the prompt and of the tokens
// generated for it. It must be called once.
func (c *Cache) End(r Request, chain []uint64) {
	if r.clears != c.clears {
		return // what it held is no longer in the cache, and what it would add lacks its prefix
	}
	c.extend(&r, chain)
	for n := len(r.held) - 1; n >= 0; n-- { // the last block first, so that it is evicted first
		b := r.held[n]
		if b.users--; b.users == 0 {
			c.used--
			b.insertBefore(&c.idle)
		}
	}
}

// Clear empties the cache, also of what running requests use.
func (c *Cache) Clear() {
	c.clears++
	c.blocks, c.used = make(map[uint64]*block), 0
	c.idle.prev, c.idle.next = &c.idle, &c.idle
}

// Stats returns the current counts.
func (c *Cache) Stats() Stats {
	st := c.stats
	st.Blocks, st.Used = len(c.blocks), c.used
	return st
}

// Cached returns how many blocks at the beginning of a chain are cached, without using them.
func (c *Cache) Cached(chain []uint64) int {
	for n, hash := range chain {
		if c.blocks[hash] == nil {
			return n
		}
	}
	return len(chain)
}

// extend holds the blocks of chain behind those that r holds, until there is no room.
func (c *Cache) extend(r *Request, chain []uint64) {
	for n := len(r.held); n < len(chain); n++ {
		b := c.blocks[chain[n]]
		if b == nil {
			if b = c.store(chain[n]); b == nil {
				c.stats.NotStored += uint64(len(chain) - n)
				return
			}
		}
		c.hold(r, b)
	}
}

func (c *Cache) hold(r *Request, b *block) {
	if b.users++; b.users == 1 {
		b.remove()
		c.used++
	}
	r.held = append(r.held, b)
}

// store returns a new idle block, in place of the least recently used if the cache is full; nil if all are in use.
func (c *Cache) store(hash uint64) *block {
	if len(c.blocks) == c.Blocks {
		oldest := c.idle.next
		if oldest == &c.idle {
			return nil
		}
		oldest.remove()
		delete(c.blocks, oldest.hash)
		c.stats.Evicted++
		if c.Evicted != nil {
			c.Evicted(oldest.hash)
		}
	}
	b := &block{hash: hash}
	b.insertBefore(&c.idle)
	c.blocks[hash] = b
	c.stats.Stored++
	if c.Stored != nil {
		c.Stored(hash)
	}
	return b
}

func (b *block) insertBefore(at *block) {
	b.prev, b.next = at.prev, at
	b.prev.next, at.prev = b, b
}

func (b *block) remove() { b.prev.next, b.next.prev, b.prev, b.next = b.next, b.prev, nil, nil }
