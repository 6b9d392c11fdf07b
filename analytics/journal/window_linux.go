//go:build !portable

package journal

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// zeros are what a file is extended by. They are never written to, so they take no memory.
var zeros [maxWindow]byte

// window is the end of a segment, mapped into memory. The zero window has no room. Not safe for concurrent use.
type window struct {
	data      []byte
	start     int64     // offset of data in the file
	populated time.Time // when the pages of a line were last made writable in a system call
}

// extend appends zeros to a file of so many bytes up to end, and maps it from the page of offset on. The window has at most maxWindow bytes
// beyond the size. After an error it has no room, and the file may be longer than before.
//
// A write of zeros is how a full disk becomes an error instead of a signal, on any file system. With fallocate, the kernel would need three
// times as long for a line, since it allocates and clears each page by itself then.
func (w *window) extend(file *os.File, size, offset, end int64) error {
	w.close()
	if _, err := file.Write(zeros[:end-size]); err != nil {
		return fmt.Errorf("cannot allocate: %w", err)
	}
	start := offset - offset%int64(os.Getpagesize())
	data, err := unix.Mmap(int(file.Fd()), start, int(end-start), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("cannot map: %w", err)
	}
	w.data, w.start, w.populated = data, start, time.Now()
	// All page faults at once, in a system call, during which the scheduler has the processor. A file system that allocates when a page is
	// written reports here that it is full. Linux before 5.14 does not know the advice; stores fault then.
	if err := unix.Madvise(data, unix.MADV_POPULATE_WRITE); err != nil && !errors.Is(err, unix.EINVAL) {
		w.close()
		return fmt.Errorf("cannot map: %w", err)
	}
	return nil
}

func (w *window) close() {
	if w.data != nil {
		_ = unix.Munmap(w.data) // cannot fail: data is what Mmap returned
	}
	*w = window{}
}

// put copies the line of an event that has just happened, which must be within the window, to an offset of the file. The error is a fault: the file is shorter than
// the window, or the disk failed.
func (w *window) put(line []byte, offset int64, now time.Time) error {
	at := offset - w.start
	// The kernel may have written the page to the disk, every few seconds, and then a store waits in a fault for the file system, and the
	// scheduler with it. A system call that waits lets the scheduler go on.
	if now.Sub(w.populated).Abs() > time.Second { // a worker's clock may have been ahead
		page := at - at%int64(os.Getpagesize())
		_ = unix.Madvise(w.data[page:at+int64(len(line))], unix.MADV_POPULATE_WRITE) // the store shows an error, too
		w.populated = now
	}
	return store(w.data[at:][:len(line)], line)
}

// store copies a line to mapped memory. The first byte comes last: a reader that finds zero there knows that the line is not complete.
func store(to, line []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault, ok := recover().(runtime.Error); ok {
			err = fmt.Errorf("cannot store: %w", fault)
		}
	}()
	copy(to[1:], line[1:])
	to[0] = line[0]
	return nil
}
