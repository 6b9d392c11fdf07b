package reload

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// pollInterval is how often files are looked at that may have changed: when somebody asks for what they hold, and at
// most so often.
const pollInterval = time.Second

// Files is what stands in files, which are read again when they have changed. Contents that are bad change nothing:
// the last good ones stay in force, and the log says so once. It has no goroutine, and whoever asks while another one
// reads, from a disk that may have stalled, gets what was there before.
type Files[T any] struct {
	What   string // for the log
	Paths  []string
	Parse  func(contents [][]byte) (T, error)
	Logger *slog.Logger

	InForce atomic.Pointer[Version[T]]

	mu     sync.Mutex // guards the fields below; held while the files are read
	looked time.Time
	said   string // the last complaint
}

// Version is one good version of the contents.
type Version[T any] struct {
	Value  T
	Number uint64 // counts up
	digest [sha256.Size]byte
}

// Load reads the files for the first time.
func (r *Files[T]) Load() error {
	contents, err := r.read()
	if err != nil {
		return err
	}
	value, err := r.Parse(contents)
	if err != nil {
		return err
	}
	r.looked = time.Now()
	r.InForce.Store(&Version[T]{Value: value, Number: 1, digest: digestOf(contents)})
	return nil
}

// Now returns what is in force now.
func (r *Files[T]) Now() *Version[T] {
	if r.mu.TryLock() {
		defer r.mu.Unlock()
		if time.Since(r.looked) >= pollInterval {
			r.lookLocked()
			r.looked = time.Now()
		}
	}
	return r.InForce.Load()
}

func (r *Files[T]) lookLocked() {
	contents, err := r.read()
	if err != nil {
		r.complainLocked(err)
		return
	}
	old, digest := r.InForce.Load(), digestOf(contents)
	if digest == old.digest {
		r.said = ""
		return
	}
	value, err := r.Parse(contents)
	if err != nil {
		r.complainLocked(err) // they are read again: what they lack may be in another file
		return
	}
	r.said = ""
	r.InForce.Store(&Version[T]{Value: value, Number: old.Number + 1, digest: digest})
	r.Logger.Info(r.What+" was read again, and is in force", "files", r.Paths)
}

func (r *Files[T]) complainLocked(err error) {
	if text := err.Error(); text != r.said {
		r.said = text
		r.Logger.Error(r.What+" has changed and cannot be used: the last good one stays in force", "reason", text)
	}
}

func (r *Files[T]) read() ([][]byte, error) {
	contents := make([][]byte, 0, len(r.Paths))
	for _, path := range r.Paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", r.What, err)
		}
		contents = append(contents, b)
	}
	return contents, nil
}

func digestOf(contents [][]byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, b := range contents {
		fmt.Fprintf(h, "%d ", len(b))
		h.Write(b)
	}
	h.Sum(sum[:0])
	return sum
}
