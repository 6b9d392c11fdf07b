//go:build !linux || portable

package server

import (
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"colonnade/forwarding/netconn"
)

// peekInterval is the time between two checks of all watched clients.
const peekInterval = 50 * time.Millisecond

// clientWatcher finds clients that leave while nothing is read from or written to their connections. Without epoll it peeks at each
// watched connection in turn. It does not find a client that closes after it has sent a pipelined request, unless that has more than
// maxUnread bytes. The input of a client with TLS is polled for close_notify, until it is the next request.
type clientWatcher struct {
	quit, done chan struct{}
	polls      sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	nextID  uint64
	clients map[uint64]watchedClient
}

type watchedClient struct {
	raw     syscall.RawConn
	gone    onGone
	tls     *netconn.TLSConn // whose input is polled; nil without TLS, and once the input is the next request
	ignored bool             // the input is read by another goroutine
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
	w.polls.Wait()
	return nil
}

// watch calls gone with [ErrClientGone] when the client of c leaves.
func (w *clientWatcher) watch(c net.Conn, gone onGone) (clientWatch, error) {
	raw, err := rawConn(c)
	if err != nil {
		return clientWatch{}, err
	}
	client := watchedClient{raw: raw, gone: gone, tls: tlsOf(c)}
	if client.tls != nil { // TLS may have read more than the request, which the socket does not show
		again, end := client.tls.Poll()
		if end != nil {
			gone(ErrClientGone)
			return clientWatch{}, nil
		}
		if !again {
			client.tls = nil
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nextID++
	w.clients[w.nextID] = client
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
		arrived, closed := peek(c.raw)
		switch {
		case closed || !c.ignored && hasMuchUnread(c.raw):
			delete(w.clients, id)
			c.gone(ErrClientGone)
		case arrived && !c.ignored && c.tls != nil: // in another goroutine, since TLS may write while it reads, and block
			w.polls.Go(func() { w.poll(id, c.tls) })
		}
	}
}

// poll reads a client's input, to find close_notify.
func (w *clientWatcher) poll(id uint64, tls *netconn.TLSConn) {
	again, err := tls.Poll()
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.clients[id]
	switch {
	case !ok:
	case err != nil:
		delete(w.clients, id)
		c.gone(ErrClientGone)
	case !again:
		c.tls = nil
		w.clients[id] = c
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

// peek reports whether bytes have arrived that were not read, and whether the client has closed the connection behind what was read.
func peek(raw syscall.RawConn) (arrived, closed bool) {
	err := raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		arrived = n > 0
		closed = err == nil && n == 0 || err != nil && err != syscall.EAGAIN && err != syscall.EWOULDBLOCK && err != syscall.EINTR
	})
	return arrived, err != nil || closed
}
