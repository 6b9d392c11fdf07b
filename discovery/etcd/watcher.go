package etcd

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/fleet"
	"colonnade/internal/ctxtime"
)

// DefaultPrefix is that of all keys, unless another one is configured.
const DefaultPrefix = "/colonnade/v1/"

const (
	defaultWatchTimeout = 15 * time.Second
	minBackoff          = 100 * time.Millisecond
	maxBackoff          = time.Second // with the settings of Dial, a store that is back is read within five seconds
)

// Config says what to watch.
type Config struct {
	Client *clientv3.Client
	Prefix string   // of all keys; with a slash at the end
	Kinds  []string // keys to watch, without the prefix: "models/" for all below, or "models/x"; none = all. "defaults" and "deletions" are always watched
	Cache  string   // file with the last good documents; "" = none
	Staged string   // key, without the prefix, of the change that is staged on this node, see [StagedKey]; "" = none is read
	// WatchTimeout is how long a watch may be silent. A third of it bounds each call, and a thirtieth how long one watch
	// waits for another. 0 = 15 s.
	WatchTimeout time.Duration
	Logger       *slog.Logger
}

// Watcher keeps a table of the documents in etcd. Its methods may be called at any time, also while Run runs.
type Watcher struct {
	config Config
	table  atomic.Pointer[fleet.Table]
	ready  chan struct{}

	deadMarked chan struct{} // to Run: there is something in dead; capacity 1

	// Owned by Run.
	documents *documentState
	pacer     tablePacer
	failing   bool // the last list failed, and that was logged

	mu          sync.Mutex // guards the fields below
	changed     chan struct{}
	tables      uint64    // built so far
	revision    int64     // of the store, as far as it was followed
	lastContact time.Time // when etcd last sent anything
	dead        []string  // keys of documents with expired leases that were seen to be dead
	revoked     []string  // and of those whose API keys are not valid any more
}

// NewWatcher returns a watcher with an empty table, to be run by Run.
func NewWatcher(c Config) *Watcher {
	if c.WatchTimeout <= 0 {
		c.WatchTimeout = defaultWatchTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{
		config:      c,
		ready:       make(chan struct{}),
		deadMarked:  make(chan struct{}, 1),
		documents:   newDocumentState(c.Logger),
		changed:     make(chan struct{}),
		lastContact: time.Now(),
	}
	w.table.Store(w.documents.docs.Table())
	return w
}

// Table returns the newest table; never nil, empty before the first load.
func (w *Watcher) Table() *fleet.Table { return w.table.Load() }

// Ready returns a channel that is closed when the first table is there, from etcd or from the cache.
func (w *Watcher) Ready() <-chan struct{} { return w.ready }

// Changed returns a channel that is closed when the table is swapped next. Take it before the table.
func (w *Watcher) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// State returns how fresh the table is.
func (w *Watcher) State() fleet.WatchState {
	t := w.Table()
	w.mu.Lock()
	defer w.mu.Unlock()
	return fleet.WatchState{Revision: w.revision, Age: max(0, time.Since(w.lastContact)), Tables: w.tables, Rejected: t.Rejected, Conflicts: t.Conflicts,
		PendingDeletions: t.PendingDeletions, HeldDeletions: t.HeldDeletions, ExpiredLeases: t.ExpiredLeases, Staged: t.Staged}
}

// Run loads and watches until ctx ends; then it returns nil. It must be called once.
func (w *Watcher) Run(ctx context.Context) error {
	if w.config.Client == nil || w.config.Prefix == "" {
		return errors.New("cannot watch etcd: Config needs a Client and a Prefix")
	}
	cache := newCache(w.config)
	defer func() { cache.close(w.takeSnapshot) }()
	defer func() { w.documents.flushChanges(time.Now()) }()
	w.restore(cache)
	backoff := minBackoff
	for {
		started := time.Now()
		err := w.round(ctx, cache)
		cache.save(w.takeSnapshot, time.Now()) // a change that was not due when the watch ended
		switch {
		case ctx.Err() != nil:
			return nil
		case w.withdrawLapsed(time.Now()):
		case err == nil:
			continue // it is time for another list
		case time.Since(started) > 2*maxBackoff:
			backoff = minBackoff
		}
		ctxtime.Sleep(ctx, backoff/2+rand.N(backoff))
		backoff = min(2*backoff, maxBackoff)
	}
}

// round lists, publishes, and follows until the watch fails. It returns nil when it is time for another list.
func (w *Watcher) round(ctx context.Context, cache *cache) error {
	revision, err := w.listWhileStaged(ctx)
	if err != nil {
		w.logOutage(ctx, err)
		return err
	}
	w.noteContact(revision)
	w.publish(revision, cache)
	w.logListed(revision)
	err = w.follow(ctx, revision, cache)
	if err != nil && ctx.Err() == nil {
		w.config.Logger.Info("etcd watch ended; listing again", "error", err)
	}
	return err
}

// logOutage logs the beginning of an outage, and starts from the cache if there is no table yet.
func (w *Watcher) logOutage(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	level := slog.LevelWarn
	if w.failing {
		level = slog.LevelDebug
	}
	w.failing = true
	w.config.Logger.Log(ctx, level, "etcd does not answer", "error", err, "table_in_force", w.isReady())
	w.startFromCache()
}

// logListed logs the first list, and the first after an outage.
func (w *Watcher) logListed(revision int64) {
	first := !w.isReady()
	if first || w.failing {
		w.config.Logger.Info("following etcd", "revision", revision, "documents", len(w.documents.known))
	}
	w.failing = false
	if first {
		close(w.ready)
	}
}

func (w *Watcher) isReady() bool {
	select {
	case <-w.ready:
		return true
	default:
		return false
	}
}

// publish swaps the table if anything has changed, and saves it when that is due. cache may be nil.
func (w *Watcher) publish(revision int64, cache *cache) {
	now := time.Now()
	dead, revoked := w.takeDead()
	w.documents.dropDead(revoked, "the API key that has registered it is not valid any more", now)
	w.documents.dropDead(dead, "it does not answer", now)
	changed := w.documents.changed
	if changed {
		w.swap(w.documents.table(now), revision, now)
		w.pacer.built(now, time.Now())
	}
	if cache != nil {
		cache.unsaved = cache.unsaved || changed
		cache.save(w.takeSnapshot, now)
	}
}

// takeSnapshot returns what the cache file is to contain.
func (w *Watcher) takeSnapshot() snapshot {
	return w.documents.takeSnapshot(w.config.Prefix, w.Table().Revision)
}

// swap replaces the table. Its revision is the store's, which is lower than before if the store was restored.
func (w *Watcher) swap(t *fleet.Table, revision int64, now time.Time) {
	t.Revision = revision
	w.logConflicts(w.Table(), t, now)
	w.table.Store(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tables++
	close(w.changed)
	w.changed = make(chan struct{})
}

// logConflicts logs the conflicts that the last table did not have.
func (w *Watcher) logConflicts(last, next *fleet.Table, now time.Time) {
	known := make(map[fleet.Conflict]bool, len(last.Conflicts))
	for _, c := range last.Conflicts {
		known[c] = true
	}
	for _, c := range next.Conflicts {
		if !known[c] {
			w.documents.warn(now, "conflicting documents",
				c.Loser, "what", c.What, "value", c.Value, "winner", c.Winner, "loser", c.Loser)
		}
	}
}

// MarkDead says that the nodes or engines of documents with expired leases were seen to be dead, so that these documents go
// out of force; see [fleet.Table]. It does not wait for that. A document that has a lease again stays. While etcd is away
// the mark has no effect and must be repeated.
func (w *Watcher) MarkDead(keys ...string) { w.mark(&w.dead, keys) }

// MarkRevoked is as MarkDead for engines whose API keys are not valid any more, also if they answer.
func (w *Watcher) MarkRevoked(keys ...string) { w.mark(&w.revoked, keys) }

func (w *Watcher) mark(marked *[]string, keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(keys) == 0 {
		return
	}
	for _, key := range keys {
		if !slices.Contains(*marked, key) {
			*marked = append(*marked, key)
		}
	}
	select {
	case w.deadMarked <- struct{}{}:
	default:
	}
}

func (w *Watcher) takeDead() (dead, revoked []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dead, revoked = w.dead, w.revoked
	w.dead, w.revoked = nil, nil
	return dead, revoked
}

// noteContact notes that etcd has sent something.
func (w *Watcher) noteContact(revision int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revision, w.lastContact = revision, time.Now()
}

// callTimeout bounds each call.
func (w *Watcher) callTimeout() time.Duration { return w.config.WatchTimeout / 3 }

// reorderTimeout is how long a change waits for the other changes of its transaction.
func (w *Watcher) reorderTimeout() time.Duration { return w.config.WatchTimeout / 30 }
