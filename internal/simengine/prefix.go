package simengine

import (
	"slices"
	"strings"
	"sync"
	"time"

	"colonnade/internal/prefixcache"
)

// prefixes is the engine's prefix cache.
type prefixes struct {
	mu     sync.Mutex // guards the fields below; may be taken while batch.mu is held, and not the other way round
	cache  *prefixcache.Cache
	stored []uint64 // blocks, since the last message
	gone   []uint64 // of the same; they went first
}

func newPrefixes(c Config) *prefixes {
	if c.CacheBlocks < 1 {
		return nil
	}
	p := &prefixes{cache: prefixcache.New(prefixcache.Config{BlockTokens: c.BlockTokens, Blocks: c.CacheBlocks})}
	p.cache.Stored = func(hash uint64) { p.stored = append(p.stored, hash) }
	p.cache.Evicted = func(hash uint64) { p.gone = append(p.gone, hash) }
	return p
}

// publishLocked publishes what has changed.
func (p *prefixes) publishLocked(e *Engine) {
	if len(p.stored)+len(p.gone) > 0 {
		e.events.publish(e.faults.takeEvents(), changes{stored: p.stored, gone: p.gone, blockTokens: e.c.BlockTokens})
	}
	p.stored, p.gone = p.stored[:0], p.gone[:0]
}

// use is what one running request uses of the cache.
type use struct {
	of      *prefixes
	engine  *Engine
	tokens  []uint32 // of its prompt
	request prefixcache.Request
}

// begin takes the prefix of a prompt, and returns how many of its tokens were cached.
func (p *prefixes) begin(e *Engine, tokens []uint32) (u *use, cached int) {
	chain := p.cache.Chain(tokens)
	p.mu.Lock()
	defer p.mu.Unlock()
	u = &use{of: p, engine: e, tokens: tokens}
	u.request, cached = p.cache.Begin(chain, len(tokens))
	p.publishLocked(e)
	return u, cached
}

// end stores what was generated behind the prompt too.
func (u *use) end(said []string) {
	if u == nil {
		return
	}
	tokens := slices.Grow(u.tokens, len(said))
	for _, word := range said {
		tokens = appendWords(tokens, word)
	}
	chain := u.of.cache.Chain(tokens)
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	u.of.cache.End(u.request, chain)
	u.of.publishLocked(u.engine)
}

// usage returns the share of the cache that running requests use; other if there is no cache.
func (p *prefixes) usage(other float64) float64 {
	if p == nil {
		return other
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return float64(p.cache.Stats().Used) / float64(p.cache.Blocks)
}

// ClearCache empties the prefix cache.
func (e *Engine) ClearCache() {
	if e.prefix != nil {
		e.prefix.mu.Lock()
		defer e.prefix.mu.Unlock()
		e.prefix.cache.Clear()
		e.events.publish(e.faults.takeEvents(), changes{cleared: true})
	}
}

// prefill takes the prefix of the prompt from the cache and lets the first token wait until the rest is computed. It reports whether
// the call has learned how much was cached.
func (j *job) prefill(c *call) (learned bool) {
	if p := j.e.prefix; p != nil && !j.aside {
		j.ticket.use, c.cached = p.begin(j.e, c.prompt.numbers())
		j.e.countPrompt(c)
		learned = true
	}
	if !j.aside && j.e.c.Prefill > 0 {
		j.clock.delay(j.e.computed(c.prompt.tokens - c.cachedTokens()))
	}
	return learned
}

// countPrompt adds the tokens of a prompt to the counts of the engine.
func (e *Engine) countPrompt(c *call) {
	e.prompted.Add(uint64(c.prompt.tokens))
	e.cached.Add(uint64(c.cachedTokens()))
}

// computed returns how long it takes until tokens of a prompt are computed, behind those of all prompts before.
func (e *Engine) computed(tokens int) time.Duration {
	e.prefillMu.Lock()
	defer e.prefillMu.Unlock()
	now := time.Since(e.started)
	return e.prefills.Add(now, tokens) - now
}

// numbers returns the tokens of the prompt: a hash of each word, and numbers as they are.
func (p *prompt) numbers() []uint32 {
	tokens := make([]uint32, 0, p.tokens)
	for _, part := range p.parts {
		switch part := part.(type) {
		case string:
			tokens = appendWords(tokens, part)
		case float64:
			tokens = append(tokens, uint32(int64(part)))
		}
	}
	return tokens
}

// appendWords appends the FNV-1a hash of each word.
func appendWords(dst []uint32, text string) []uint32 {
	for word := range strings.FieldsSeq(text) {
		h := uint32(2166136261)
		for i := range len(word) {
			h = (h ^ uint32(word[i])) * 16777619
		}
		dst = append(dst, h)
	}
	return dst
}
