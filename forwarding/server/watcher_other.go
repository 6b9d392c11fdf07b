//go:build !linux

package server

import (
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// peekInterval is the time between two checks of all watched clients.
const peekInterval = 50 * time.Millisecond

// fionread is the ioctl FIONREAD, which returns the number of bytes that have arrived.
const fionread = 0x4004667f

// clientWatcher finds clients that leave while nothing is read from or written to their connections. Without epoll it peeks at each
// watched connection in turn. It does not find a client that closes after it has sent a pipelined request, unless that has more than
// maxUnread bytes.
type clientWatcher struct {
	quit, done chan struct{}

	mu      sync.Mutex // guards the fields below
	nextID  uint64
	clients map[uint64]watchedClient
}

type watchedClient struct {
	raw     syscall.RawConn
	gone    onGone
	ignored bool // the input is read by another goroutine
}

// newClientWatcher returns a running watcher, which the caller must close.
func newClientWatcher() (*clientWatcher, error) {
	w := &clientWatcher{quit: make(chan struct{}), done: make(chan struct{}), clients: map[uint64]watchedClient{}}
	go w.run()
	return w, nil
}

// close ends the watcher. watch must not be called any more.
func (w *clientWatcher) close() error {
	close(w.quit)
	<-w.done
	return nil
}

// watch calls gone with [ErrClientGone] when the client of c leaves.
func (w *clientWatcher) watch(c net.Conn, gone onGone) (clientWatch, error) {
	raw, err := rawConn(c)
	if err != nil {
		return clientWatch{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nextID++
	w.clients[w.nextID] = watchedClient{raw: raw, gone: gone}
	return clientWatch{watcher: w, id: w.nextID, raw: raw}, nil
}

// ignoreInput makes a watch wait for the close of the client only.
func (w *clientWatcher) ignoreInput(id uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, ok := w.clients[id]; ok {
		c.ignored = true
		w.clients[id] = c
	}
}

func (w *clientWatcher) stop(id uint64, _ syscall.RawConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.clients, id)
}

func (w *clientWatcher) run() {
	defer close(w.done)
	tick := time.NewTicker(peekInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.peekAll()
		case <-w.quit:
			return
		}
	}
}

func (w *clientWatcher) peekAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, c := range w.clients {
		if isClosed(c.raw) || !c.ignored && hasMuchUnread(c.raw) {
			delete(w.clients, id)
			c.gone(ErrClientGone)
		}
	}
}

// hasMuchUnread reports whether more than maxUnread bytes have arrived that were not read.
func hasMuchUnread(raw syscall.RawConn) bool {
	much := false
	_ = raw.Control(func(fd uintptr) {
		unread, err := unix.IoctlGetInt(int(fd), fionread)
		much = err == nil && unread > maxUnread
	})
	return much
}

func isClosed(raw syscall.RawConn) bool {
	closed := false
	err := raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = err == nil && n == 0 || err != nil && err != syscall.EAGAIN && err != syscall.EWOULDBLOCK && err != syscall.EINTR
	})
	return err != nil || closed
}
