package files

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

const defaultInterval = 2 * time.Second

// Config says what to read.
type Config struct {
	Path     string        // of a file, or of a directory whose files *.yaml, *.yml and *.json are read; "" = none
	Interval time.Duration // between looks at files of which the file system reports no change; 0 = 2 s
	Logger   *slog.Logger
}

// Watcher keeps a table of the documents in files, and of those that the process itself has made. Its methods may be called
// at any time, also while Run runs.
type Watcher struct {
	config      Config
	table       atomic.Pointer[fleet.Table]
	ready       chan struct{}
	reloads     chan struct{} // to Run: load now; capacity 1
	newNotifier func() (*fsnotify.Watcher, error)

	reading sync.Mutex // held while files are read; locked before mu. Guards read and readAt
	read    contents   // the last ones, without their documents
	readAt  time.Time  // when they were read

	mu       sync.Mutex // guards the fields below
	docs     *documents
	loaded   bool              // the files were good once
	rejected []fleet.Rejection // why the newest files are not in force
	changed  chan struct{}
	tables   uint64
	lookedAt time.Time // when the path could last be listed
}

// New returns a watcher with an empty table, which is not ready before the first good [Watcher.Load].
func New(c Config) *Watcher {
	if c.Interval <= 0 {
		c.Interval = defaultInterval
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{
		config: c, ready: make(chan struct{}), reloads: make(chan struct{}, 1), newNotifier: fsnotify.NewWatcher,
		docs: newDocuments(), changed: make(chan struct{}), lookedAt: time.Now(),
	}
	w.table.Store(w.docs.set.Table())
	return w
}

// Table returns the newest table; never nil, empty before the first good load.
func (w *Watcher) Table() *fleet.Table { return w.table.Load() }

// Ready returns a channel that is closed after the first good load.
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
	state := fleet.WatchState{Revision: w.docs.revision, Tables: w.tables, Rejected: t.Rejected, Conflicts: t.Conflicts}
	if w.config.Path != "" {
		state.Age = max(0, time.Since(w.lookedAt))
	}
	return state
}

// Watches reports whether documents of that key are watched: all are.
func (*Watcher) Watches(string) bool { return true }

// MarkDead does nothing: no document of a file has a lease.
func (*Watcher) MarkDead(...string) {}

// MarkRevoked does nothing: as MarkDead.
func (*Watcher) MarkRevoked(...string) {}

// Load reads the files now, and puts their documents into force as one change. If anything is wrong, nothing changes, and the
// error, of errors.Join, has an [*Error] for each document and file at fault.
func (w *Watcher) Load() error {
	w.reading.Lock()
	defer w.reading.Unlock()
	var c contents
	if w.config.Path != "" {
		c = readAll(w.config.Path)
	}
	return w.take(c)
}

// loadListed loads the files of a listing, unless it holds no more.
func (w *Watcher) loadListed(l listing) (ok bool, err error) {
	w.reading.Lock()
	defer w.reading.Unlock()
	c, ok := l.readContents(w.config.Path)
	if !ok {
		return false, nil
	}
	return true, w.take(c)
}

// take puts documents into force if nothing is wrong with any of them. Its caller holds reading.
func (w *Watcher) take(c contents) error {
	docs := c.docs
	c.docs, w.readAt = nil, time.Now()
	w.read = c
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(c.problems) > 0 {
		w.rejectLocked(c.problems)
		return errors.Join(c.problems...)
	}
	w.docs.files = docs
	changed := w.updateLocked() || len(w.rejected) > 0 || !w.loaded
	w.lookedAt, w.loaded, w.rejected = time.Now(), true, nil
	if changed {
		w.publishLocked()
	}
	return nil
}

// Reload makes Run load the files now, for SIGHUP. It does not wait for that.
func (w *Watcher) Reload() {
	select {
	case w.reloads <- struct{}{}:
	default:
	}
}

// SetOwn takes documents of this process, instead of those of an earlier call with the same source. A file that has the key
// of one wins, and so does the source that was set first. They come into force at once, or with the first good load. Of a bad
// document the last good version stays in force.
func (w *Watcher) SetOwn(source string, docs []document.Raw) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.docs.setOwn(source, docs)
	if w.loaded && w.updateLocked() {
		w.publishLocked()
	}
}

// Owner returns who has the document that counts under a key: FILE:LINE, or else the source of [Watcher.SetOwn]. Both are empty if there is none.
func (w *Watcher) Owner(key string) (place, source string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.docs.inSet[key]
	return d.place, d.source
}

// updateLocked reports whether the documents in force have changed, and logs what has changed since the first load.
func (w *Watcher) updateLocked() bool {
	changed, changes, failed := w.docs.update()
	if w.loaded {
		logChanges(w.config.Logger, changes, w.docs.left())
	}
	for _, err := range failed {
		w.config.Logger.Warn("own document rejected", "error", err)
	}
	return changed
}

// rejectLocked shows why the newest files are not in force.
func (w *Watcher) rejectLocked(problems []error) {
	rejected := make([]fleet.Rejection, 0, len(problems))
	for _, err := range problems {
		rejected = append(rejected, w.rejectionLocked(err))
	}
	if !slices.Equal(rejected, w.rejected) {
		w.rejected = rejected
		w.publishLocked()
	}
}

func (w *Watcher) rejectionLocked(err error) fleet.Rejection {
	r := fleet.Rejection{Reason: err.Error(), Revision: w.docs.revision + 1}
	var problem *Error
	if errors.As(err, &problem) {
		r.File, r.Reason = problem.place(), problem.Err.Error()
	}
	var invalid *document.InvalidError
	if errors.As(err, &invalid) {
		r.Key, r.Field, r.Reason = invalid.Key, invalid.Field, invalid.Reason
		known := w.docs.inSet[r.Key]
		r.InForce, r.LastGood = known.revision, known.revision > 0
	}
	return r
}

// publishLocked builds the table of the documents in force, and swaps it.
func (w *Watcher) publishLocked() {
	t := w.docs.set.Table()
	if len(w.rejected) > 0 {
		t = t.WithRejected(w.rejected)
	}
	w.logConflicts(w.Table(), t)
	w.table.Store(t)
	w.tables++
	close(w.changed)
	w.changed = make(chan struct{})
	if w.loaded && !w.isReady() {
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

// logConflicts logs the conflicts that the last table did not have.
func (w *Watcher) logConflicts(last, next *fleet.Table) {
	for _, c := range next.Conflicts {
		if !slices.Contains(last.Conflicts, c) {
			w.config.Logger.Warn("conflicting documents", "what", c.What, "value", c.Value, "winner", c.Winner, "loser", c.Loser)
		}
	}
}

// maxLogged is how many of the errors of a load a log line has.
const maxLogged = 3

// logText returns the errors of a load as one line.
func logText(err error) string {
	all := problemsOf(err)
	var texts []string
	for _, one := range all[:min(maxLogged, len(all))] {
		texts = append(texts, one.Error())
	}
	if more := len(all) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}
