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
	timing Timing
	busy   time.Duration // until which prefills take, as far as requests are known
	loaded []string      // adapters in memory; that of the latest request is the last

	mu       sync.Mutex // guards the fields below, which policies read when a timer of the pool hands out slots
	cache    *prefixcache.Cache
	running  int             // requests; only the run changes it, and reads it without mu
	prefills []time.Duration // when those begin that have not, in their order
	interval time.Duration   // of scrapes; 0: metrics are read when they are needed
	scraped  gauges
	at       time.Duration // of the latest scrape
}

func newEngine(t Timing, blockTokens int, interval time.Duration) *engine {
	cache := prefixcache.New(prefixcache.Config{BlockTokens: blockTokens, Blocks: t.CacheTokens / blockTokens})
	return &engine{timing: t, cache: cache, interval: interval}
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
	token := e.timing.Decode + time.Duration(e.running)*e.timing.DecodeEach
	held, cached := e.hold(now, r)
	e.busy = max(e.busy, now) + time.Duration(r.Input-cached)*e.timing.Prefill
	loaded := e.use(r.Balance.Adapter)
	if !loaded {
		e.busy += e.timing.LoadAdapter
	}
	first := e.busy + token
	return job{held: held, cached: cached, loaded: loaded, first: first, done: first + time.Duration(r.Output-1)*token}
}

// hold takes the blocks of a request, and returns how many of its tokens were cached.
func (e *engine) hold(now time.Duration, r *Request) (held prefixcache.Request, cached int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.scrapeLocked(now)
	e.running++
	e.prefills = append(e.prefills, max(e.busy, now))
	return e.cache.Begin(r.Chain, r.Input)
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
	e.mu.Lock()
	defer e.mu.Unlock()
	e.scrapeLocked(j.done)
	e.running--
	e.cache.End(j.held, r.Chain)
}

// has returns how many tokens of a prompt are in the cache.
func (e *engine) has(chain []uint64) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cache.Cached(chain)
}

// gauges are an engine's metrics, as vLLM has them.
type gauges struct {
	waiting, running int     // requests whose prefill has not begun, and the others
	usage            float64 // share of the blocks of the cache that requests in the engine use
}

// metrics returns the metrics of the latest scrape.
func (e *engine) metrics(now time.Duration) gauges {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.interval == 0 {
		return e.gaugesLocked(now)
	}
	e.scrapeLocked(now)
	return e.scraped
}

// scrapeLocked makes up for a scrape that was due since the last change of the engine.
func (e *engine) scrapeLocked(now time.Duration) {
	if at := now.Truncate(e.interval); at > e.at {
		e.scraped, e.at = e.gaugesLocked(at), at
	}
}

func (e *engine) gaugesLocked(at time.Duration) gauges {
	for len(e.prefills) > 0 && e.prefills[0] <= at {
		e.prefills = e.prefills[1:]
	}
	waiting := len(e.prefills)
	return gauges{waiting: waiting, running: e.running - waiting, usage: float64(e.cache.Stats().Used) / float64(e.cache.Blocks)}
}
