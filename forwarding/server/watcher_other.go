//go:build !linux || portable

package server

import (
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"colonnade/forwarding/netconn"
	"colonnade/internal/lazyctx"
)

// peekInterval is the time between two checks of all watched clients.
const peekInterval = 50 * time.Millisecond

// clientWatcher finds clients that leave while nothing is read from or written to their connections. Without epoll it peeks at each
// watched connection in turn. It does not find a client that closes after it has sent a pipelined request, unless that has more than
// maxUnread bytes. The input of a client with TLS is polled for close_notify, until it is the next request.
type clientWatcher struct {
	quit, done chan struct{}
	polls      sync.WaitGroup

	mu    sync.Mutex // guards the fields below, and the state of all connections
	conns map[*watchedConn]struct{}
}

// watchState is what the watcher knows of a connection.
type watchState struct {
	raw     syscall.RawConn
	request *lazyctx.Context // nil = none is watched
	polled  bool             // the input is polled, since it is not the next request yet
	ignored bool             // the input is read by another goroutine
}

// newClientWatcher returns a running watcher, which the caller must close.
func newClientWatcher() (*clientWatcher, error) {
	w := &clientWatcher{quit: make(chan struct{}), done: make(chan struct{}), conns: map[*watchedConn]struct{}{}}
	go w.run()
	return w, nil
}

// close ends the watcher. No request may be watched then, nor later.
func (w *clientWatcher) close() error {
	close(w.quit)
	<-w.done
	w.polls.Wait()
	return nil
}

// watch ends request with [ErrClientGone] when the client of c leaves.
func (w *clientWatcher) watch(c *watchedConn, request *lazyctx.Context) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.raw == nil {
		if c.raw, err = c.rawConn(); err != nil {
			return err
		}
	}
	c.request, c.polled, c.ignored = request, false, false
	if c.tls != nil { // TLS may have read more than the request, which the socket does not show
		w.pollSoonLocked(c)
	}
	w.conns[c] = struct{}{}
	return nil
}

// ignoreInput makes a watch wait for the close of the client only.
func (w *clientWatcher) ignoreInput(c *watchedConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.ignored = true
}

// stop ends the watch of a request. It must be called before the next request of the connection, and may be called twice.
func (w *clientWatcher) stop(c *watchedConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.request = nil
	delete(w.conns, c)
}

// forget has nothing to do: connections between two requests are not watched.
func (w *clientWatcher) forget(*watchedConn) {}

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
	for c := range w.conns {
		arrived, closed := peek(c.raw)
		switch {
		case closed || !c.ignored && hasMuchUnread(c.raw):
			c.request.Cancel(ErrClientGone)
			delete(w.conns, c)
		case arrived && !c.ignored && c.polled:
			w.pollSoonLocked(c)
		}
	}
}

// pollSoonLocked polls in another goroutine, since TLS may write while it reads, and block.
func (w *clientWatcher) pollSoonLocked(c *watchedConn) {
	request := c.request
	w.polls.Go(func() { w.poll(c, request) })
}

// poll reads a client's input, to find close_notify.
func (w *clientWatcher) poll(c *watchedConn, request *lazyctx.Context) {
	again, err := c.tls.Poll()
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.request != request || c.ignored {
		return
	}
	if c.polled = again; err != nil {
		request.Cancel(ErrClientGone)
		delete(w.conns, c)
	}
}

// hasMuchUnread reports whether more than maxUnread bytes have arrived that were not read.
func hasMuchUnread(raw syscall.RawConn) bool {
	much := false
	_ = raw.Control(func(fd uintptr) {
		unread, err := unix.IoctlGetInt(int(fd), netconn.FIONREAD)
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
