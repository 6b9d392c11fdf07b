//go:build !portable

package server

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"colonnade/forwarding/netconn"
	"colonnade/internal/lazyctx"
)

// inputAfter is how long a request lasts at least, and twice as long at most, before the input of its client is watched.
const inputAfter = 40 * time.Millisecond

// clientWatcher finds clients that leave while nothing is read from or written to their connections. One epoll set holds the sockets
// of all connections that had a request. The Go runtime polls the descriptor of that set, so one goroutine sleeps for all requests and no
// thread blocks. (A goroutine per request that waits to peek would cost a wake-up at the end of each.)
//
// The close of the client's write half is watched: unlike a read, it is not hidden by the bytes of a pipelined request. A client
// that closes only that half counts as gone, as with nginx and HAProxy. The socket joins the set with the first request, and stays until it
// is closed. It reports the close once (EPOLLET), perhaps between two requests, so the connection remembers it.
//
// A close cannot arrive behind more bytes than the receive buffer takes, so a client with more than maxUnread bytes counts as gone, too. And a
// client with TLS may send close_notify and keep the socket open until the server has sent its own, as Python's asyncio does for half a
// minute. Both checks begin when a request has lasted for inputAfter, so shorter requests need two system calls less. From then on the socket reports
// each arrival (EPOLLET), and the bytes are counted; with TLS they are polled, until they are the next request, and then counted.
//
// Each event has the id of its connection. Ids are never used again, and an event whose id is not in the map is ignored: so a late event
// does not reach another connection with the same descriptor.
type clientWatcher struct {
	epoll *os.File
	raw   syscall.RawConn
	fd    int
	done  chan struct{} // closed at the end of run
	polls sync.WaitGroup
	timer *time.Timer // calls sweep

	mu             sync.Mutex // guards the fields below, and the state of all connections
	lastID         uint64
	conns          map[uint64]*watchedConn
	recent, before []watchedRequest // begun since the last sweep, and between that and the one before; some have ended
	sweeping       bool             // the timer runs
}

// watchedRequest is a request of a connection. It has ended once the connection has another request, or none.
type watchedRequest struct {
	conn    *watchedConn
	request *lazyctx.Context
}

// watchState is what the watcher knows of a connection.
type watchState struct {
	id      uint64 // 0 = not in the set
	raw     syscall.RawConn
	request *lazyctx.Context // nil = none is watched
	gone    bool             // the client has closed its write half
	input   inputWatch
}

// inputWatch is what a client's input is watched for.
type inputWatch uint8

const (
	inputUnwatched inputWatch = iota // it is read, or the request has just begun
	inputCounted                     // for more than maxUnread bytes
	inputPolled                      // for close_notify
	inputIgnored                     // its reader notices the end
)

// events returns the events of a socket to wait for. The wait of inputPolled ends with one event.
func (i inputWatch) events() uint32 {
	switch i {
	case inputCounted:
		return unix.EPOLLRDHUP | unix.EPOLLIN | unix.EPOLLET
	case inputPolled:
		return unix.EPOLLRDHUP | unix.EPOLLIN | unix.EPOLLONESHOT
	}
	return unix.EPOLLRDHUP | unix.EPOLLET
}

// newClientWatcher returns a running watcher, which the caller must close.
func newClientWatcher() (*clientWatcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot create epoll set: %w", err)
	}
	_ = unix.SetNonblock(fd, true) // else the Go runtime would not poll it
	w := &clientWatcher{epoll: os.NewFile(uintptr(fd), "epoll"), fd: fd, done: make(chan struct{}), conns: map[uint64]*watchedConn{}}
	if w.raw, err = w.epoll.SyscallConn(); err != nil {
		w.epoll.Close()
		return nil, fmt.Errorf("cannot poll epoll set: %w", err)
	}
	w.timer = time.AfterFunc(time.Hour, w.sweep)
	w.timer.Stop()
	go w.run()
	return w, nil
}

// close ends the watcher. No request may be watched then, nor later.
func (w *clientWatcher) close() error {
	w.timer.Stop()
	err := w.epoll.Close()
	<-w.done
	w.polls.Wait()
	return err
}

// watch ends request with [ErrClientGone] when the client of c leaves, or if it has left.
func (w *clientWatcher) watch(c *watchedConn, request *lazyctx.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.id == 0 {
		if err := w.registerLocked(c); err != nil {
			return err
		}
	}
	c.request = request
	if c.gone {
		request.Cancel(ErrClientGone)
		return nil
	}
	w.recent = append(w.recent, watchedRequest{c, request})
	if !w.sweeping {
		w.sweeping = true
		w.timer.Reset(inputAfter)
	}
	return nil
}

// registerLocked adds a connection to the set, where its socket stays until it is closed.
func (w *clientWatcher) registerLocked(c *watchedConn) (err error) {
	if c.raw, err = c.rawConn(); err != nil {
		return err
	}
	w.lastID++
	c.id = w.lastID
	if err := w.armLocked(unix.EPOLL_CTL_ADD, c); err != nil {
		c.id = 0
		return fmt.Errorf("cannot watch client: %w", err)
	}
	w.conns[c.id] = c
	return nil
}

// armLocked requests the events of a connection.
func (w *clientWatcher) armLocked(op int, c *watchedConn) error {
	event := unix.EpollEvent{Events: c.input.events(), Fd: int32(c.id), Pad: int32(c.id >> 32)}
	var armed error
	err := c.raw.Control(func(fd uintptr) { armed = unix.EpollCtl(w.fd, op, int(fd), &event) })
	return errors.Join(err, armed)
}

// setInputLocked changes what the input of a client is watched for. Bytes that have arrived before are reported, too.
func (w *clientWatcher) setInputLocked(c *watchedConn, input inputWatch) {
	c.input = input
	_ = w.armLocked(unix.EPOLL_CTL_MOD, c) // the socket may be closed
}

// ignoreInput makes a watch wait for the close of the client only, for a connection whose input is read.
func (w *clientWatcher) ignoreInput(c *watchedConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.request != nil {
		w.setInputLocked(c, inputIgnored)
	}
}

// stop ends the watch of a request. It must be called before the next request of the connection, and may be called twice.
func (w *clientWatcher) stop(c *watchedConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.request = nil
	if c.input != inputUnwatched {
		w.setInputLocked(c, inputUnwatched)
	}
}

// forget removes a connection that is closing. Its socket leaves the set by its close.
func (w *clientWatcher) forget(c *watchedConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c.id)
}

// sweep watches the input of the clients whose requests have lasted for inputAfter.
func (w *clientWatcher) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.before {
		if r.conn.request == r.request && r.conn.input == inputUnwatched {
			w.watchInputLocked(r)
		}
	}
	clear(w.before)
	w.recent, w.before = w.before[:0], w.recent
	if w.sweeping = len(w.before) > 0; w.sweeping {
		w.timer.Reset(inputAfter)
	}
}

func (w *clientWatcher) watchInputLocked(r watchedRequest) {
	if r.conn.tls == nil {
		w.setInputLocked(r.conn, inputCounted)
		return
	}
	// TLS may have read more than the request, which the socket does not show. It is asked by another goroutine, since it may write while
	// it reads, and block.
	w.polls.Go(func() { w.poll(r) })
}

// poll reads a client's input, to find close_notify.
func (w *clientWatcher) poll(r watchedRequest) {
	again, err := r.conn.tls.Poll()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case r.conn.request != r.request || r.conn.input == inputIgnored:
	case err != nil:
		r.request.Cancel(ErrClientGone)
	case again:
		w.setInputLocked(r.conn, inputPolled)
	default:
		w.setInputLocked(r.conn, inputCounted)
	}
}

func (w *clientWatcher) onEvent(e unix.EpollEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.conns[uint64(uint32(e.Fd))|uint64(uint32(e.Pad))<<32]
	if c == nil {
		return
	}
	c.gone = c.gone || e.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
	switch {
	case c.request == nil:
	case c.gone || c.input == inputCounted && hasMuchUnread(c.raw):
		c.request.Cancel(ErrClientGone)
	case c.input == inputPolled:
		w.watchInputLocked(watchedRequest{c, c.request})
	}
}

// hasMuchUnread reports whether more than maxUnread bytes have arrived that were not read, or half of what the socket takes: the other
// half may be overhead.
func hasMuchUnread(raw syscall.RawConn) bool {
	much := false
	_ = raw.Control(func(fd uintptr) {
		unread, err := unix.IoctlGetInt(int(fd), netconn.FIONREAD)
		if err != nil || unread <= maxUnread/2 {
			return
		}
		buffer, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
		much = unread > maxUnread || err == nil && unread > buffer/2
	})
	return much
}

func (w *clientWatcher) run() {
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
			w.onEvent(e)
		}
	}
}
