package forwarding

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Watcher tells when clients go, also while nothing is read from them or written to them: one epoll set for all
// requests of a node, whose descriptor the Go runtime itself polls, so that one goroutine sleeps for all of them and no
// thread is blocked. (A goroutine for each request, parked in a peek, costs a wake-up at the end of each.)
//
// Only the close of the client's sending side is watched for: bytes of a next, pipelined request do not hide it. A
// client that closes that half alone is taken to have gone, as nginx and HAProxy do.
type Watcher struct {
	epoll *os.File
	raw   syscall.RawConn
	fd    int
	done  chan struct{}

	mu      sync.Mutex // guards the fields below
	nextID  uint64
	clients map[uint64]watched
}

// NewWatcher returns a running watcher, to be closed.
func NewWatcher() (*Watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot create epoll set: %w", err)
	}
	// Non-blocking, or else the runtime would not poll it.
	_ = unix.SetNonblock(fd, true)
	w := &Watcher{epoll: os.NewFile(uintptr(fd), "epoll"), fd: fd, done: make(chan struct{}), clients: map[uint64]watched{}}
	if w.raw, err = w.epoll.SyscallConn(); err != nil {
		w.epoll.Close()
		return nil, fmt.Errorf("cannot poll epoll set: %w", err)
	}
	go w.run()
	return w, nil
}

// Close ends the watcher; no watch may begin after it.
func (w *Watcher) Close() error {
	err := w.epoll.Close()
	<-w.done
	return err
}

// Watch calls gone with [ErrClientGone] once the client behind c closes.
func (w *Watcher) Watch(c net.Conn, gone watched) (Watch, error) {
	raw, err := rawConn(c)
	if err != nil {
		return Watch{}, err
	}
	watch := Watch{watcher: w, raw: raw}
	w.mu.Lock()
	w.nextID++
	watch.id = w.nextID
	w.clients[watch.id] = gone
	w.mu.Unlock()
	var added error
	err = raw.Control(func(fd uintptr) {
		event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(watch.id), Pad: int32(watch.id >> 32)}
		added = unix.EpollCtl(w.fd, unix.EPOLL_CTL_ADD, int(fd), &event)
	})
	if err = errors.Join(err, added); err != nil {
		w.forget(watch.id)
		return Watch{}, fmt.Errorf("cannot watch client: %w", err)
	}
	return watch, nil
}

func (w *Watcher) stop(id uint64, raw syscall.RawConn) {
	w.forget(id)
	// Not by a number that was kept: it may be another connection's by now. A closed one has left the set by itself.
	_ = raw.Control(func(fd uintptr) { _ = unix.EpollCtl(w.fd, unix.EPOLL_CTL_DEL, int(fd), nil) })
}

func (w *Watcher) forget(id uint64) watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	gone := w.clients[id]
	delete(w.clients, id)
	return gone
}

func (w *Watcher) run() {
	defer close(w.done)
	var events [128]unix.EpollEvent
	for {
		n := 0
		err := w.raw.Read(func(fd uintptr) bool {
			var err error
			n, err = unix.EpollWait(int(fd), events[:], 0)
			return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
		})
		if err != nil || n <= 0 {
			return // closed
		}
		for _, e := range events[:n] {
			// A watch that was stopped meanwhile is no longer in the map; ids are never used again.
			if gone := w.forget(uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32); gone != nil {
				gone(ErrClientGone)
			}
		}
	}
}
