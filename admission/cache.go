package admission

import (
	"context"
	"errors"
	"math"
	"sync"
	"syscall"
	"time"

	"colonnade/discovery/engines/kvevents"
	"colonnade/fleet"
	"colonnade/permits"
)

// FollowEvents reads the events of the KV cache of one engine until ctx ends, from an address for each of its ranks. It calls note with what they
// say when that has changed, from one goroutine.
type FollowEvents func(ctx context.Context, addresses []string, note func(kvevents.State))

// SetEvents sets how the events of engines are read. It must be called before Run.
func (m *Manager) SetEvents(follow FollowEvents) { m.followEvents = follow }

const (
	// cacheStep is the least change of a cache's size, one part in so many, that the index gets: it moves with each event.
	cacheStep = 16
	// maxCacheTokens bounds what is believed of an engine, so that bytes of it are a number.
	maxCacheTokens = 1 << 40
	// eventsLogInterval is the least time between two lines about the events of one engine.
	eventsLogInterval = time.Minute
)

// engineCache is what is known of an engine's prefix cache.
type engineCache struct {
	follower *eventsFollower // nil: its events are not read
	events   kvevents.State  // as the follower has said
	size     int64           // bytes of prompts that it has room for, as the permits know it; 0: not known
	losses   uint64          // times that it was lost
	refused  bool            // a health check was refused, and none has succeeded since
	anew     uint64          // ranks of a process that is known to be new, whose first events have yet to show it
	adopted  bool            // another server has told what is in it

	failing  bool      // the last line of the log says that its events cannot be read
	loggedAt time.Time // of that line; zero: there was none
}

// eventsFollower reads the events of one engine.
type eventsFollower struct {
	address string // as the document has it
	cancel  context.CancelFunc
}

// followCacheLocked starts and ends the reading of an engine's events, as its document, its pool and the grants say.
func (m *Manager) followCacheLocked(ctx context.Context, e *engine, running *sync.WaitGroup) {
	want := ""
	if m.followEvents != nil && !m.draining && e.granted && e.usesIndex() {
		want = e.endpoint.KVEvents
	}
	f := e.cache.follower
	if f == nil && want == "" || f != nil && f.address == want {
		return
	}
	if f != nil {
		f.cancel()
		e.cache.follower, e.cache.events, e.cache.anew, e.cache.failing = nil, kvevents.State{}, 0, false
		e.fitCacheLocked()
	}
	addresses, ok := fleet.KVEventAddresses(want)
	if !ok {
		return
	}
	own, cancel := context.WithCancel(ctx)
	f = &eventsFollower{address: want, cancel: cancel}
	e.cache.follower = f
	running.Go(func() {
		m.followEvents(own, addresses, func(s kvevents.State) { m.noteEvents(e, f, s) })
	})
}

// usesIndex reports whether the engine's pool goes by an index of prompts.
func (e *engine) usesIndex() bool { return e.pool != nil && e.pool.document.Load().Balance.UsesIndex() }

// noteEvents takes what the events of an engine say. Its follower may have been replaced meanwhile.
func (m *Manager) noteEvents(e *engine, f *eventsFollower, s kvevents.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.cache.follower != f {
		return
	}
	restarted, cleared := e.cache.take(s)
	if restarted {
		e.loseMemoryLocked()
	} else if cleared {
		e.loseCacheLocked()
	}
	e.fitCacheLocked()
}

// take takes what the events say, and reports whether they show that the engine has restarted, or that it has emptied its cache. Of a process
// that is known to be new, the first event shows it once more, when prompts have been sent to that process already.
func (c *engineCache) take(s kvevents.State) (restarted, cleared bool) {
	restarts := s.Restarts - c.events.Restarts
	known := min(restarts, c.anew)
	restarted, cleared = restarts > known, s.Clears > c.events.Clears
	if c.anew -= known; restarts == 0 && s.Connected && s.Events > c.events.Events {
		c.anew = 0 // its count of events goes on, as when there was none before
	}
	c.events = s
	return restarted, cleared
}

// noteNewProcessLocked notes that the engine's process has ended.
func (e *engine) noteNewProcessLocked() {
	if f := e.cache.follower; f != nil {
		addresses, _ := fleet.KVEventAddresses(f.address)
		e.cache.anew = uint64(len(addresses))
	}
	e.loseMemoryLocked()
}

// loseMemoryLocked notes that the engine has neither a prompt nor an adapter in its memory, as after a restart.
func (e *engine) loseMemoryLocked() {
	e.loseCacheLocked()
	if e.pool != nil {
		e.pool.permits.ForgetAdapters(e.endpoint.URL)
	}
}

// loseCacheLocked notes that the cache is empty.
func (e *engine) loseCacheLocked() {
	e.cache.losses++
	if e.pool != nil {
		e.pool.permits.ForgetCache(e.endpoint.URL)
	}
}

// noteCheck takes the result of a health check. Once the connection is refused, the process of the engine has ended, and its cache with it.
func (m *Manager) noteCheck(e *engine, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	refused := errors.Is(err, syscall.ECONNREFUSED)
	if refused && !e.cache.refused && (e.health.answered || e.cache.adopted) {
		e.noteNewProcessLocked()
	}
	e.cache.refused = refused || e.cache.refused && err != nil
}

// workerRun names a process of an engine, as its worker counts them.
type workerRun struct {
	boot     string // of the worker
	restarts int
}

// noteRestartsLocked notes which engines their workers have started again.
func (m *Manager) noteRestartsLocked(t *fleet.Table) {
	for _, w := range t.Workers() {
		e := m.engines[w.Engine.URL]
		if w.Colo != m.colo || e == nil {
			continue
		}
		run := workerRun{w.Boot, w.Engine.Restarts}
		if before := e.run; before.boot == run.boot && before.restarts < run.restarts {
			e.noteNewProcessLocked()
			e.began = time.Now()
		}
		e.run = run
	}
}

// fitCacheLocked says to the permits how much the engine's cache has room for. Events say how much is resident, which is that once the engine
// evicts, and no more than its metrics say.
func (e *engine) fitCacheLocked() {
	if !e.usesIndex() {
		return
	}
	tokens := 0.0
	if said := e.figures.last.CacheTokens; said.Known {
		tokens = min(said.N, maxCacheTokens)
	}
	if s := e.cache.events; s.Known && s.Evicting {
		resident := float64(max(s.Tokens, 1))
		if tokens == 0 || resident < tokens {
			tokens = min(resident, maxCacheTokens)
		}
	}
	size := int64(math.Ceil(tokens * e.pool.prompts.bytesPerToken()))
	if change := max(size-e.cache.size, e.cache.size-size); change == 0 || size > 0 && change < e.cache.size/cacheStep {
		return
	}
	e.cache.size = size
	e.pool.permits.SetCacheSize(e.endpoint.URL, size)
}

// fitCachesLocked fits the caches of all engines, after documents have changed.
func (m *Manager) fitCachesLocked() {
	for _, e := range m.engines {
		e.fitCacheLocked()
	}
}

// logEventsLocked logs which engines' events cannot be read, and which are read again.
func (m *Manager) logEventsLocked(now time.Time) {
	for _, e := range m.engines {
		c := &e.cache
		failing := c.events.Error != ""
		if c.follower == nil || failing == c.failing || !c.loggedAt.IsZero() && now.Sub(c.loggedAt) < eventsLogInterval {
			continue
		}
		c.failing, c.loggedAt = failing, now
		facts := []any{"endpoint", e.endpoint.ID, "pool", e.endpoint.Pool, "kv_events", c.follower.address}
		if failing {
			m.logger.Warn("cannot read the events of an engine's cache", append(facts, "error", c.events.Error)...)
			continue
		}
		m.logger.Info("the events of an engine's cache are read again", facts...)
	}
}

// stats describes the cache; nil if nothing is known of it.
func (e *engine) cacheStats() *permits.CacheStats {
	c := &e.cache
	s := &permits.CacheStats{SizeTokens: wholeTokens(e.figures.last.CacheTokens), Losses: c.losses}
	if c.size > 0 && e.usesIndex() {
		s.SizeBytes = new(c.size)
	}
	if c.follower != nil {
		s.Events = &permits.CacheEvents{Connected: c.events.Connected, Error: truncate(c.events.Error), Events: c.events.Events, Gaps: c.events.Gaps}
		if c.events.Known {
			s.Events.ResidentTokens = new(int64(c.events.Tokens))
		}
	}
	if *s == (permits.CacheStats{}) {
		return nil
	}
	return s
}
