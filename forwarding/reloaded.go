package forwarding

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// lookAtFiles is how often files are looked at that may have changed: when somebody asks for what they hold, and at
// most so often.
const lookAtFiles = time.Second

// reloaded is what stands in files, which are read again when they have changed. Contents that are bad change nothing:
// the last good ones stay in force, and the log says so once. It has no goroutine, and whoever asks while another one
// reads, from a disk that may have stalled, gets what was there before.
type reloaded[T any] struct {
	what   string // for the log
	paths  []string
	parse  func(contents [][]byte) (T, error)
	logger *slog.Logger

	inForce atomic.Pointer[edition[T]]

	mu     sync.Mutex // guards the fields below; held while the files are read
	looked time.Time
	said   string // the last complaint
}

// edition is one good version of the contents.
type edition[T any] struct {
	value  T
	number uint64 // counts up
	digest [sha256.Size]byte
}

// load reads the files for the first time.
func (r *reloaded[T]) load() error {
	contents, err := r.read()
	if err != nil {
		return err
	}
	value, err := r.parse(contents)
	if err != nil {
		return err
	}
	r.looked = time.Now()
	r.inForce.Store(&edition[T]{value: value, number: 1, digest: digestOf(contents)})
	return nil
}

// now returns what is in force now.
func (r *reloaded[T]) now() *edition[T] {
	if r.mu.TryLock() {
		defer r.mu.Unlock()
		if time.Since(r.looked) >= lookAtFiles {
			r.lookLocked()
			r.looked = time.Now()
		}
	}
	return r.inForce.Load()
}

func (r *reloaded[T]) lookLocked() {
	contents, err := r.read()
	if err != nil {
		r.complainLocked(err)
		return
	}
	old, digest := r.inForce.Load(), digestOf(contents)
	if digest == old.digest {
		r.said = ""
		return
	}
	value, err := r.parse(contents)
	if err != nil {
		r.complainLocked(err) // they are read again: what they lack may be in another file
		return
	}
	r.said = ""
	r.inForce.Store(&edition[T]{value: value, number: old.number + 1, digest: digest})
	r.logger.Info(r.what+" was read again, and is in force", "files", r.paths)
}

func (r *reloaded[T]) complainLocked(err error) {
	if text := err.Error(); text != r.said {
		r.said = text
		r.logger.Error(r.what+" has changed and cannot be used: the last good one stays in force", "reason", text)
	}
}

func (r *reloaded[T]) read() ([][]byte, error) {
	contents := make([][]byte, 0, len(r.paths))
	for _, path := range r.paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", r.what, err)
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
