package files

import (
	"context"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	minLookInterval = 50 * time.Millisecond // however many changes are reported
	maxRestless     = 10                    // loads in a row that find files changing; the next one says so
	lookTimeShare   = 20                    // looks take at most one of so many parts of the time, unless a change is reported
	// coarseTime is how exact times of changes are in a bad file system. A file that was changed shortly before it was read may have
	// been changed after that, too, without a difference; so it is read once more.
	coarseTime = 2 * time.Second
)

// Run follows the files until ctx ends; then it returns nil. It must be called once. If a change cannot be loaded, the
// documents in force stay, and Run logs the error once.
func (w *Watcher) Run(ctx context.Context) error {
	if w.config.Path == "" {
		<-ctx.Done()
		return nil
	}
	f := &follower{watcher: w, notifier: notifier{logger: w.config.Logger, open: w.newNotifier}}
	defer f.notifier.close()
	f.seen, _ = w.lastRead()
	for ctx.Err() == nil {
		f.look()
		f.wait(ctx)
	}
	return nil
}

// lastRead returns what the last load has read, without the documents, and when.
func (w *Watcher) lastRead() (listing, time.Time) {
	w.reading.Lock()
	defer w.reading.Unlock()
	return w.read.listing, w.readAt
}

// follower is owned by Run.
type follower struct {
	watcher  *Watcher
	notifier notifier
	settler  settler

	seen     listing       // by the last look
	looked   time.Time     // when the last look ended
	took     time.Duration // the last look, without reading
	reported bool          // a change was reported since the last look, perhaps of something else
	touched  bool          // a change of a file with documents was reported since the last look
	restless int           // how many loads in a row found that files were changing
	rejected string        // the error that was logged last; empty = the files were good since
}

// wait waits for the time of the next look, or for a reason to look earlier.
func (f *follower) wait(ctx context.Context) {
	timer := time.NewTimer(time.Until(f.next()))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-f.watcher.reloads:
			f.reload()
		case event, open := <-f.notifier.events():
			if open {
				f.note(event)
			} else {
				f.notifier.close() // the next look opens it again
			}
		case _, open := <-f.notifier.errors():
			if open {
				f.reported = true // the error is that of too many changes at once
			} else {
				f.notifier.close()
			}
		}
		timer.Reset(time.Until(f.next()))
	}
}

// next returns when the next look is due.
func (f *follower) next() time.Time {
	due := f.looked.Add(max(f.watcher.config.Interval, lookTimeShare*f.took))
	early := func(t time.Time) {
		if t.Before(due) {
			due = t
		}
	}
	if f.reported {
		early(f.looked.Add(minLookInterval))
	}
	if f.settler.pending() {
		early(f.settler.due())
	}
	return due
}

// note notes a reported change. A change of a document counts even if no look finds a difference: the times of files are
// not exact everywhere.
func (f *follower) note(event fsnotify.Event) {
	f.reported = true
	name, path := filepath.Clean(event.Name), filepath.Clean(f.watcher.config.Path)
	isDocument := name == path || f.seen.isDir() && filepath.Dir(name) == path && isDocumentName(filepath.Base(name))
	f.touched = f.touched || isDocument && event.Op&^fsnotify.Chmod != 0
}

// look compares the files with what the last look saw, and loads them when they have changed and are at rest.
func (f *follower) look() {
	began := time.Now()
	now := list(f.watcher.config.Path)
	changed := !now.same(f.seen)
	if now.err == nil {
		f.watcher.noteLook()
	}
	if changed || f.touched {
		f.settler.change(began)
	}
	f.seen, f.reported, f.touched = now, false, false
	if changed || f.notifier.missing || f.notifier.watcher == nil {
		f.reported = f.notifier.watch(now.watchedDirs(f.watcher.config.Path)) // a change before that is not reported
	}
	f.took = time.Since(began)
	if f.settler.pending() && !began.Before(f.settler.due()) || !f.settler.pending() && f.watcher.readAgain(now, began) {
		f.load()
	}
	f.looked = time.Now()
}

func (w *Watcher) noteLook() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookedAt = time.Now()
}

// readAgain reports whether files are to be read although nothing has changed, as far as a listing shows.
func (w *Watcher) readAgain(l listing, now time.Time) bool {
	w.reading.Lock()
	defer w.reading.Unlock()
	newest := l.newest()
	return w.read.unread || w.readAt.Sub(newest) < coarseTime && now.Sub(newest) >= coarseTime
}

// load loads the files that the last look saw. If they have changed since, it waits until they are at rest again, but not
// for ever.
func (f *follower) load() {
	before := f.watcher.State().Revision
	ok, err := f.watcher.loadListed(f.seen)
	if !ok && f.restless < maxRestless {
		f.restless++
		f.settler = settler{}
		f.settler.change(time.Now())
		return
	}
	if !ok {
		err = f.watcher.Load()
	}
	f.log(loadResult{err: err, before: before})
}

// reload loads the files at once.
func (f *follower) reload() {
	before := f.watcher.State().Revision
	f.log(loadResult{err: f.watcher.Load(), before: before, requested: true})
}

type loadResult struct {
	err       error
	before    int64 // revision before the load
	requested bool  // the result is logged in any case
}

// log logs the result of a load, unless that is as before.
func (f *follower) log(r loadResult) {
	f.settler, f.restless = settler{}, 0
	logger, path := f.watcher.config.Logger, f.watcher.config.Path
	if r.err != nil {
		if text := logText(r.err); text != f.rejected || r.requested {
			f.rejected = text
			logger.Warn("documents rejected", "path", path, "error", text, "last_good_in_force", f.watcher.isReady())
		}
		return
	}
	revision := f.watcher.State().Revision
	if changed := revision != r.before; changed || f.rejected != "" || r.requested {
		logger.Info("documents in force", "path", path, "revision", revision, "changed", changed)
	}
	f.rejected = ""
}
