package etcd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"colonnade/internal/atomicfile"
)

// The file is written at most once each minSaveInterval, and during at most one of saveTimeShare parts of the time.
const (
	minSaveInterval = time.Second
	saveTimeShare   = 10
)

// snapshot is the content of the cache file.
type snapshot struct {
	Prefix    string           `json:"prefix"`
	Revision  int64            `json:"revision"`
	Saved     time.Time        `json:"saved"`
	Documents []cachedDocument `json:"documents"`
}

type cachedDocument struct {
	Key      string `json:"key"`
	Revision int64  `json:"revision"`
	Value    []byte `json:"value"`
	Created  int64  `json:"created,omitempty"`
	Claim    uint64 `json:"claim,omitempty"` // see [document.Set.Claim]
	Leased   bool   `json:"leased,omitempty"`
	GoneAt   int64  `json:"held,omitempty"` // of a pending deletion: the revision at which it was noticed
	GoneBy   string `json:"by,omitempty"`   // and who deleted it, if that is known
}

// cache writes the last good documents to a file, in a goroutine of its own: a slow disk must not delay the watch.
type cache struct {
	path    string
	logger  *slog.Logger
	work    chan snapshot // capacity 1
	stopped chan struct{}
	took    atomic.Int64 // nanoseconds of the last write

	// Owned by Watcher.Run.
	unsaved bool      // something has changed since the last snapshot
	last    time.Time // when the last snapshot was due
}

func newCache(c Config) *cache {
	out := &cache{path: c.Cache, logger: c.Logger, work: make(chan snapshot, 1), stopped: make(chan struct{})}
	go out.run()
	return out
}

// close writes the last change and waits for that.
func (c *cache) close(take func() snapshot) {
	if c.unsaved && c.path != "" {
		c.work <- take()
	}
	close(c.work)
	<-c.stopped
}

// untilDue returns how long to wait before there is a snapshot to take; ok is false if there is nothing to save.
func (c *cache) untilDue(now time.Time) (wait time.Duration, ok bool) {
	interval := max(minSaveInterval, saveTimeShare*time.Duration(c.took.Load()))
	return interval - now.Sub(c.last), c.unsaved && c.path != ""
}

// save takes a snapshot to be written, if one is due and no other one still waits to be written. It never blocks.
func (c *cache) save(take func() snapshot, now time.Time) {
	if wait, ok := c.untilDue(now); !ok || wait > 0 {
		return
	}
	c.last = now
	if len(c.work) == 0 { // there is room then, since nothing else sends
		c.work <- take()
		c.unsaved = false
	}
}

func (c *cache) run() {
	defer close(c.stopped)
	for s := range c.work {
		began := time.Now()
		if err := s.write(c.path); err != nil {
			c.logger.Error("cannot save the last good documents; a start without etcd would have older ones", "file", c.path, "error", err)
		}
		c.took.Store(int64(time.Since(began)))
	}
}

// takeSnapshot returns the last good documents. They are not sorted yet: see write.
func (s *documentState) takeSnapshot(prefix string, revision int64) snapshot {
	out := snapshot{Prefix: prefix, Revision: revision, Saved: time.Now().UTC(), Documents: make([]cachedDocument, 0, len(s.known))}
	for key, k := range s.known {
		if k.good == nil {
			continue
		}
		d := cachedDocument{Key: key, Revision: k.revision, Value: k.good, Created: k.created, Claim: s.docs.Claim(key), Leased: k.leased}
		if k.absence == deletionPending {
			d.GoneAt, d.GoneBy = k.goneAt, k.goneBy
		}
		out.Documents = append(out.Documents, d)
	}
	return out
}

// write replaces the file. It begins with a checksum of the rest, and only its owner may read it, since accounts are in it.
func (s snapshot) write(path string) error {
	slices.SortFunc(s.Documents, func(a, b cachedDocument) int { return cmp.Compare(a.Key, b.Key) })
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	content := append(fmt.Appendf(make([]byte, 0, len(body)+16), "%08x ", crc32.ChecksumIEEE(body)), body...)
	return atomicfile.Write(path, append(content, '\n'), 0o600)
}

// SavedRevision returns the revision of the store in a file of last good documents, see [Config.Cache]; 0 if there is none that can be read.
func SavedRevision(path string) int64 {
	s, err := loadSnapshot(path)
	if err != nil {
		return 0
	}
	return s.Revision
}

// loadSnapshot reads a file; one that does not exist is empty.
func loadSnapshot(path string) (snapshot, error) {
	var s snapshot
	if path == "" {
		return s, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	sum, body, _ := bytes.Cut(bytes.TrimSpace(data), []byte(" "))
	if string(sum) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(body)) {
		return s, errors.New("the checksum is wrong: the file is damaged")
	}
	err = json.Unmarshal(body, &s)
	return s, err
}

// restore takes the last good documents of an earlier run. No table shows them before the first list has come or failed.
func (w *Watcher) restore(c *cache) {
	s, err := loadSnapshot(c.path)
	if err == nil && s.Prefix != "" && s.Prefix != w.config.Prefix {
		err = fmt.Errorf("it has the prefix %q, not %q", s.Prefix, w.config.Prefix)
	}
	if err != nil {
		w.config.Logger.Warn("cannot use the saved documents", "file", c.path, "error", err)
		return
	}
	for _, d := range s.Documents {
		if w.Watches(d.Key) {
			w.documents.restore(d, time.Now())
		}
	}
	if len(w.documents.known) > 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.revision, w.lastContact = s.Revision, s.Saved
	}
}

// startFromCache publishes the saved documents if etcd did not answer and there is no table yet.
func (w *Watcher) startFromCache() {
	if w.isReady() || len(w.documents.known) == 0 {
		return
	}
	state := w.State()
	w.config.Logger.Warn("starting from the saved documents", "file", w.config.Cache, "revision", state.Revision, "age", state.Age)
	w.publish(state.Revision, nil)
	close(w.ready)
}
