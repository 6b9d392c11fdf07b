package balance

import (
	"slices"
	"sync"
	"time"

	"colonnade/internal/prefixcache"
)

// Timing is how fast engines are.
type Timing struct {
	Slots       int           // requests that an engine gets at once
	CacheTokens int           // of its prefix cache
	Prefill     time.Duration // for each token that is not cached
	Adapters    int           // that an engine has in memory
	LoadAdapter time.Duration // for one that is not in memory; prefills wait meanwhile
	Decode      time.Duration // for each token of an answer, of a request alone
	DecodeEach  time.Duration // more for each other request in the engine
}

// DefaultTiming is like that of a large model on a few GPUs.
func DefaultTiming() Timing {
	return Timing{Slots: 16, CacheTokens: 1 << 20, Prefill: 100 * time.Microsecond, Adapters: 32, LoadAdapter: 500 * time.Millisecond, Decode: 20 * time.Millisecond, DecodeEach: 500 * time.Microsecond}
}

// engine is a simulated engine.
type engine struct {
	timing  Timing
	mu      sync.Mutex // guards cache, which the oracle reads when a timer of the pool hands out slots
	cache   *prefixcache.Cache
	busy    time.Duration // until which prefills take, as far as requests are known
	loaded  []string      // adapters in memory; that of the latest request is the last
	running int
}

func newEngine(t Timing, blockTokens int) *engine {
	return &engine{timing: t, cache: prefixcache.New(prefixcache.Config{BlockTokens: blockTokens, Blocks: t.CacheTokens / blockTokens})}
}

// job is a request in an engine.
type job struct {
	held        prefixcache.Request
	cached      int  // tokens
	loaded      bool // its adapter was in memory, if it has one
	first, done time.Duration
}

// begin starts a request. Prefills run in the order of their begin, so what an earlier one stores is there for a later one.
func (e *engine) begin(now time.Duration, r *Request) job {
	e.mu.Lock()
	held, cached := e.cache.Begin(r.Chain, r.Input)
	e.mu.Unlock()
	e.busy = max(e.busy, now) + time.Duration(r.Input-cached)*e.timing.Prefill
	loaded := e.use(r.Balance.Adapter)
	if !loaded {
		e.busy += e.timing.LoadAdapter
	}
	token := e.timing.Decode + time.Duration(e.running)*e.timing.DecodeEach
	e.running++
	first := e.busy + token
	return job{held: held, cached: cached, loaded: loaded, first: first, done: first + time.Duration(r.Output-1)*token}
}

// use brings an adapter into memory, in the place of the one that was not used for longest, and reports whether it was there.
func (e *engine) use(adapter string) (loaded bool) {
	if adapter == "" {
		return true
	}
	at := slices.Index(e.loaded, adapter)
	if loaded = at >= 0; loaded {
		e.loaded = slices.Delete(e.loaded, at, at+1)
	} else if len(e.loaded) == e.timing.Adapters {
		e.loaded = slices.Delete(e.loaded, 0, 1)
	}
	e.loaded = append(e.loaded, adapter)
	return loaded
}

// end ends a request.
func (e *engine) end(j *job, r *Request) {
	e.running--
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cache.End(j.held, r.Chain)
}

// has returns how many tokens of a prompt are in the cache.
func (e *engine) has(chain []uint64) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cache.Cached(chain)
}
