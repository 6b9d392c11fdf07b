package reload

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pollInterval is the shortest time between two reads of the same files.
	pollInterval = time.Second
	// maxWait bounds how long a caller waits for a read: one from a stalled disk may never end.
	maxWait = 250 * time.Millisecond
)

// errNotRead is returned while the first read of the files has not ended.
var errNotRead = errors.New("still being read")

// Source is the files that hold one value, and how to parse them.
type Source[T any] struct {
	Name  string // in errors and log lines
	Paths []string
	Read  func(path string) ([]byte, error) // nil = [os.ReadFile]
	// Parse returns the value in contents, one for each path. current is the version in force, or nil before the first.
	Parse  func(contents [][]byte, current *Version[T]) (T, error)
	Logger *slog.Logger
	// FailClosed takes the value out of force when a read fails, until one succeeds. Version numbers begin again at 1 then. By default, the
	// last good version stays in force.
	FailClosed bool
}

// Version is one good version of a value.
type Version[T any] struct {
	Value  T
	Number uint64 // counts from 1
	digest [sha256.Size]byte
}

// Files is the last good value of a [Source], or none after a failed read of one with FailClosed. Its methods may be called by several goroutines at once.
type Files[T any] struct {
	source  Source[T]
	inForce atomic.Pointer[Version[T]] // replaced by the goroutine that reads; nil = none is in force

	mu      sync.Mutex    // guards the fields below; not held while files are read
	reading chan struct{} // closed at the end of the read in progress; nil = none is
	checked time.Time     // when the last read ended
	err     error         // of the last read
}

// New returns the files of s, which are read at their first use.
func New[T any](s Source[T]) *Files[T] { return &Files[T]{source: s} }

// Open reads the files of s, for as long as that takes.
func Open[T any](s Source[T]) (*Files[T], error) {
	f := New(s)
	<-f.startRead()
	_, err := f.Get()
	return f, err
}

// Current returns the version in force, or nil if there is none. If the files have not been read for a second, it
// reads them again, and waits for that for at most 250 ms. While another caller's read is in progress, Current does not wait
// unless there is no version yet.
func (f *Files[T]) Current() *Version[T] {
	f.refresh()
	return f.inForce.Load()
}

// Get is Current for the value alone; if none is in force it returns the error of the last read.
func (f *Files[T]) Get() (value T, err error) {
	if v := f.Current(); v != nil {
		return v.Value, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		return value, fmt.Errorf("cannot read %s (%s): %w", f.source.Name, f.source.Paths[0], errNotRead)
	}
	return value, f.err
}

// Err returns the error of the last read, nil if it succeeded. The last good version may be in force all the same, unless the source fails closed.
func (f *Files[T]) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// refresh starts a read that is due, and waits for it.
func (f *Files[T]) refresh() {
	f.mu.Lock()
	reading, started := f.reading, false
	if reading == nil && time.Since(f.checked) >= pollInterval {
		reading, started = f.startReadLocked(), true
	}
	f.mu.Unlock()
	if !started && (reading == nil || f.inForce.Load() != nil) {
		return
	}
	timeout := time.NewTimer(maxWait)
	defer timeout.Stop()
	select {
	case <-reading:
	case <-timeout.C:
	}
}

func (f *Files[T]) startRead() (done <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.startReadLocked()
}

// startReadLocked reads in a goroutine of its own, which ends with the read: the caller may leave a stalled disk to it.
func (f *Files[T]) startReadLocked() chan struct{} {
	done := make(chan struct{})
	f.reading = done
	go func() {
		err := f.read()
		if err != nil && f.source.FailClosed {
			f.inForce.Store(nil)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.logLocked(err)
		f.err, f.checked, f.reading = err, time.Now(), nil
		close(done)
	}()
	return done
}

// read reads the files, and puts their value in force if they have changed. Only one goroutine reads at a time.
func (f *Files[T]) read() (err error) {
	defer func() {
		if recovered := recover(); recovered != nil { // in Parse; no other goroutine would catch it, and the process would end
			err = fmt.Errorf("cannot parse %s: panic with a %T", f.source.Name, recovered)
		}
	}()
	readFile := f.source.Read
	if readFile == nil {
		readFile = os.ReadFile
	}
	contents := make([][]byte, 0, len(f.source.Paths))
	for _, path := range f.source.Paths {
		b, err := readFile(path)
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", f.source.Name, err)
		}
		contents = append(contents, b)
	}
	old, next := f.inForce.Load(), &Version[T]{Number: 1, digest: digestOf(contents)}
	if old != nil && old.digest == next.digest {
		return nil
	}
	value, err := f.source.Parse(contents, old)
	if err != nil {
		return err // and parsed again at the next read: what is missing may be in another file
	}
	next.Value = value
	if old != nil {
		next.Number = old.Number + 1
		f.source.Logger.Info("files reloaded", "what", f.source.Name, "files", f.source.Paths)
	}
	f.inForce.Store(next)
	return nil
}

// logLocked logs a read that failed, once for each error. Of the first reads, the caller returns the error instead.
func (f *Files[T]) logLocked(err error) {
	log := f.source.Logger
	switch {
	case err == nil && f.err != nil && f.source.FailClosed && !f.checked.IsZero():
		log.Info("files reloaded after a failure", "what", f.source.Name, "files", f.source.Paths)
	case err == nil || f.err != nil && err.Error() == f.err.Error():
	case f.source.FailClosed && !f.checked.IsZero():
		log.Error("cannot reload files; nothing of them is in force", "what", f.source.Name, "error", err)
	case !f.source.FailClosed && f.inForce.Load() != nil:
		log.Error("cannot reload files; the last good version stays in force", "what", f.source.Name, "error", err)
	}
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
