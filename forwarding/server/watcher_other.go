//go:build !linux

package server

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// pollEvery is how often a client is looked after where there is no epoll.
const pollEvery = 50 * time.Millisecond

// Watcher tells when clients go. Away from Linux it peeks at each watched connection in turn, which finds a client that
// has closed unless bytes of a next, pipelined request stand before the close.
type Watcher struct {
	quit, done chan struct{}

	mu      sync.Mutex // guards the fields below
	nextID  uint64
	clients map[uint64]client
}

type client struct {
	raw  syscall.RawConn
	gone watched
}

// NewWatcher returns a running watcher, to be closed.
func NewWatcher() (*Watcher, error) {
	w := &Watcher{quit: make(chan struct{}), done: make(chan struct{}), clients: map[uint64]client{}}
	go w.run()
	return w, nil
}

// Close ends the watcher; no watch may begin after it.
func (w *Watcher) Close() error {
	close(w.quit)
	<-w.done
	return nil
}

// Watch calls gone with [ErrClientGone] once the client behind c closes.
func (w *Watcher) Watch(c net.Conn, gone watched) (Watch, error) {
	raw, err := rawConn(c)
	if err != nil {
		return Watch{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nextID++
	w.clients[w.nextID] = client{raw: raw, gone: gone}
	return Watch{watcher: w, id: w.nextID, raw: raw}, nil
}

func (w *Watcher) stop(id uint64, _ syscall.RawConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.clients, id)
}

func (w *Watcher) run() {
	defer close(w.done)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.poll()
		case <-w.quit:
			return
		}
	}
}

func (w *Watcher) poll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, c := range w.clients {
		if closed(c.raw) {
			delete(w.clients, id)
			c.gone(ErrClientGone)
		}
	}
}

func closed(raw syscall.RawConn) bool {
	gone := false
	err := raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = err == nil && n == 0 || err != nil && err != syscall.EAGAIN && err != syscall.EWOULDBLOCK && err != syscall.EINTR
	})
	return err != nil || gone
}
