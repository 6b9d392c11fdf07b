package etcd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const minSaveInterval = time.Second

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
	Leased   bool   `json:"leased,omitempty"`
	GoneAt   int64  `json:"held,omitempty"` // revision at which it was seen to be deleted; it stays in force until that is confirmed
}

// cache writes the last good documents to a file, in a goroutine of its own: a slow disk must not hold up the watch.
type cache struct {
	path    string
	logger  *slog.Logger
	pending chan snapshot // the newest that is not written; capacity 1
	closing chan struct{}
	done    chan struct{}
}

func newCache(c Config) *cache {
	out := &cache{path: c.Cache, logger: c.Logger, pending: make(chan snapshot, 1), closing: make(chan struct{}), done: make(chan struct{})}
	go out.run()
	return out
}

// close writes what is pending and waits for that.
func (c *cache) close() {
	close(c.closing)
	<-c.done
}

// save leaves the good documents to be written; what was still to be written is dropped for it. It never waits.
func (c *cache) save(prefix string, revision int64, entries map[string]knownDocument) {
	if c.path == "" {
		return
	}
	s := snapshot{Prefix: prefix, Revision: revision, Saved: time.Now().UTC()}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if e := entries[key]; e.good != nil {
			d := cachedDocument{Key: key, Revision: e.revision, Value: e.good, Leased: e.leased}
			if e.absence == deletionPending {
				d.GoneAt = e.goneAt
			}
			s.Documents = append(s.Documents, d)
		}
	}
	select {
	case <-c.pending:
	default:
	}
	c.pending <- s // there is room: nobody else sends
}

func (c *cache) run() {
	defer close(c.done)
	for {
		select {
		case s := <-c.pending:
			c.write(s)
		case <-c.closing:
			c.flush()
			return
		}
		select {
		case <-time.After(minSaveInterval):
		case <-c.closing:
			c.flush()
			return
		}
	}
}

func (c *cache) flush() {
	select {
	case s := <-c.pending:
		c.write(s)
	default:
	}
}

func (c *cache) write(s snapshot) {
	if err := s.writeFile(c.path); err != nil {
		c.logger.Error("cannot save the last good documents; a start without etcd would have older ones",
			"file", c.path, "error", err)
	}
}

// writeFile replaces the file in one step. It begins with a checksum of the rest.
func (s snapshot) writeFile(path string) error {
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp") // mode 0600: accounts are in it
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // fails when all went well: the file has its name by then
	_, err = fmt.Fprintf(file, "%08x %s\n", crc32.ChecksumIEEE(body), body)
	err = errors.Join(err, file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// load reads the file; one that does not exist is empty.
func (c *cache) load() (snapshot, error) {
	var s snapshot
	if c.path == "" {
		return s, nil
	}
	data, err := os.ReadFile(c.path)
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

// restore takes the last good documents of an earlier run, unseen by anybody until the first list came or failed.
func (w *Watcher) restore(c *cache) {
	s, err := c.load()
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

// startFromCache publishes the saved documents if etcd did not answer and nothing else is there.
func (w *Watcher) startFromCache() {
	if w.isReady() || len(w.documents.known) == 0 {
		return
	}
	state := w.State()
	w.config.Logger.Warn("starting from the saved documents",
		"file", w.config.Cache, "revision", state.Revision, "age", state.Age)
	w.publish(state.Revision, nil)
	close(w.ready)
}
