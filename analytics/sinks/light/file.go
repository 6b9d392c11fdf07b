package light

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
	"colonnade/internal/atomicfile"
)

const (
	defaultFileBytes = 256 << 20
	defaultKeep      = 10
	mostKept         = 10_000
)

// file appends events to a file as lines, and renames it when it is full: FILE.1 is the newest of the full ones.
type file struct {
	path     string
	maxBytes int64
	keep     int // full files

	open     *os.File // nil until the first batch, and after an error
	size     int64
	unsynced bool  // something was written that may not be on the disk yet
	lost     error // of a flush: something that was written may never get to the disk
}

func newFile(s *sinks.Spec, e sinks.Environment) (*file, error) {
	f := &file{path: s.URL.Path}
	if !filepath.IsAbs(f.path) {
		f.path = filepath.Join(e.Files, f.path)
	}
	most, err := s.Number("max_bytes", defaultFileBytes, 1<<10, 1<<40)
	if err != nil {
		return nil, err
	}
	f.maxBytes = int64(most)
	f.keep, err = s.Number("keep", defaultKeep, 0, mostKept)
	return f, err
}

// Check implements [ship.Sink].
func (f *file) Check(context.Context) error {
	if err := f.ready(0); err != nil {
		return fmt.Errorf("cannot open %s: %w", f.path, err)
	}
	return nil
}

// Send implements [ship.Sink]. The kernel has the events then. After an error the file ends as it did before.
func (f *file) Send(_ context.Context, b *ship.Batch) error {
	if err := f.ready(int64(len(b.NDJSON()))); err != nil {
		return fmt.Errorf("cannot open %s: %w", f.path, err)
	}
	f.unsynced = true
	n, err := f.write(b)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, f.open.Truncate(f.size))
		}
		_ = f.Close() // the next attempt looks at it anew
		return fmt.Errorf("cannot write to %s: %w", f.path, err)
	}
	f.size += int64(n)
	return nil
}

// write appends the lines of a batch, and returns how many bytes it has written.
func (f *file) write(b *ship.Batch) (n int, err error) {
	for piece := range b.Pieces() {
		written, err := f.open.Write(piece)
		n += written
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// ready opens the file, and starts a new one if n bytes more are too many or if another program has moved it away.
func (f *file) ready(n int64) error {
	if f.open != nil && !f.isInPlace() {
		_ = f.Close()
	}
	if f.open == nil {
		if err := f.openFile(); err != nil {
			return err
		}
	}
	if f.size == 0 || f.size+n <= f.maxBytes {
		return nil
	}
	if err := f.rotate(); err != nil {
		return err
	}
	return f.openFile()
}

func (f *file) isInPlace() bool {
	there, err := os.Stat(f.path)
	if err != nil {
		return false
	}
	own, err := f.open.Stat()
	return err == nil && os.SameFile(there, own)
}

// openFile opens the file for this process alone, and cuts off a line of which a killed process has left a part.
func (f *file) openFile() error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o750); err != nil {
		return err
	}
	opened, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(opened.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("another sink writes to it; give each a file of its own: %w", err), opened.Close())
	}
	if f.size, err = cutTornLine(opened); err != nil {
		return errors.Join(err, opened.Close())
	}
	f.open = opened
	return nil
}

// lineBegin is how every event begins.
const lineBegin = `{"event_id":"`

// cutTornLine removes what stands behind the last newline, and returns the size. Only a part of an event is removed, or zeros, which a loss
// of power may leave in place of one: the file may be one of another program.
func cutTornLine(opened *os.File) (int64, error) {
	info, err := opened.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, errors.New("it is not a regular file")
	}
	end, err := endOfLines(opened, info.Size())
	if err != nil || end == info.Size() {
		return end, err
	}
	tail := make([]byte, min(info.Size()-end, int64(len(lineBegin))))
	if _, err := opened.ReadAt(tail, end); err != nil {
		return 0, err
	}
	if tail[0] != 0 && !strings.HasPrefix(lineBegin, string(tail)) {
		return 0, errors.New("its last line has no end and is no event, so another program writes to it, or has written it: move it away, or name another file")
	}
	return end, opened.Truncate(end)
}

// endOfLines returns the position behind the last newline of a file; 0 if it has none.
func endOfLines(opened io.ReaderAt, size int64) (int64, error) {
	room := make([]byte, 64<<10)
	for end := size; end > 0; {
		start := max(0, end-int64(len(room)))
		part := room[:end-start]
		if _, err := opened.ReadAt(part, start); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// rotate renames the file to FILE.1, the one of that name to FILE.2, and so on. The oldest goes.
func (f *file) rotate() error {
	_ = f.Sync() // lost has its error: what comes next can be written nevertheless
	err := f.open.Close()
	f.open = nil
	if err != nil {
		return err
	}
	if f.keep == 0 {
		return os.Remove(f.path)
	}
	last := 1
	for last < f.keep {
		if _, err := os.Stat(f.numbered(last)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		last++
	}
	for i := last; i > 1; i-- {
		if err := os.Rename(f.numbered(i-1), f.numbered(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Rename(f.path, f.numbered(1))
}

func (f *file) numbered(i int) string { return f.path + "." + strconv.Itoa(i) }

// Sync implements [ship.Sink]. It flushes the name of the file as well, since the file may be new. After a flush that has failed, the kernel
// may have dropped what it could not write, and says so once: so each further call fails.
func (f *file) Sync() error {
	if f.open == nil || !f.unsynced || f.lost != nil {
		return f.lost
	}
	if err := errors.Join(f.open.Sync(), atomicfile.SyncDir(filepath.Dir(f.path))); err != nil {
		f.lost = fmt.Errorf("cannot flush %s to the disk: %w", f.path, err)
		return f.lost
	}
	f.unsynced = false
	return nil
}

// Close implements [ship.Sink].
func (f *file) Close() error {
	if f.open == nil {
		return nil
	}
	err := errors.Join(f.Sync(), f.open.Close())
	f.open = nil
	return err
}
