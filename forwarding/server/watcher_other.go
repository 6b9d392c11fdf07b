//go:build !linux

package server

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// peekInterval is the time between two checks of all watched clients.
const peekInterval = 50 * time.Millisecond

// clientWatcher finds clients that leave while nothing is read from or written to their connections. Without epoll it peeks at each
// watched connection in turn. It does not find a client that closes after it has sent a pipelined request.
type clientWatcher struct {
	quit, done chan struct{}

	mu      sync.Mutex // guards the fields below
	nextID  uint64
	clients map[uint64]watchedClient
}

type watchedClient struct {
	raw  syscall.RawConn
	gone onGone
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
		if isClosed(c.raw) {
			delete(w.clients, id)
			c.gone(ErrClientGone)
		}
	}
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
