//go:build !portable

package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"colonnade/forwarding/netconn"
)

// clientWatcher finds clients that leave while nothing is read from or written to their connections. One epoll set holds the sockets
// of all requests of a node. The Go runtime polls the descriptor of that set, so one goroutine sleeps for all requests and no thread
// blocks. (A goroutine per request that waits to peek would cost a wake-up at the end of each.)
//
// The close of the client's write half is watched: unlike a read, it is not hidden by the bytes of a pipelined request. A client
// that closes only that half counts as gone, as with nginx and HAProxy. A close behind more bytes than the socket takes does not arrive,
// so a client with more than maxUnread bytes counts as gone, too: the socket reports each arrival (EPOLLET), and the bytes are counted.
//
// A client with TLS may also send close_notify and keep the socket open until the server has sent its own, as Python's asyncio does
// for half a minute. So the input of such a client is polled, until it is the next request; then it is counted.
//
// Each event has the id of its watch. Ids are never used again, and an event whose id is not in the map is ignored: so a late event does
// not reach the next request of the same socket, nor another connection with the same descriptor.
type clientWatcher struct {
	epoll *os.File
	raw   syscall.RawConn
	fd    int
	done  chan struct{} // closed at the end of run
	polls sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	nextID  uint64
	clients map[uint64]watchedClient
}

type watchedClient struct {
	gone  onGone
	raw   syscall.RawConn
	tls   *netconn.TLSConn // nil without TLS
	input inputWatch
}

// inputWatch is what a client's input is watched for.
type inputWatch uint8

const (
	inputCounted inputWatch = iota // for more than maxUnread bytes
	inputPolled                    // for close_notify
	inputIgnored                   // its reader notices the end
)

// events returns the events of a socket to wait for. Each wait but that of inputCounted ends with one event.
func (i inputWatch) events() uint32 {
	switch i {
	case inputCounted:
		return unix.EPOLLRDHUP | unix.EPOLLIN | unix.EPOLLET
	case inputPolled:
		return unix.EPOLLRDHUP | unix.EPOLLIN | unix.EPOLLONESHOT
	}
	return unix.EPOLLRDHUP | unix.EPOLLONESHOT
}

// newClientWatcher returns a running watcher, which the caller must close.
func newClientWatcher() (*clientWatcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot create epoll set: %w", err)
	}
	_ = unix.SetNonblock(fd, true) // else the Go runtime would not poll it
	w := &clientWatcher{epoll: os.NewFile(uintptr(fd), "epoll"), fd: fd, done: make(chan struct{}), clients: map[uint64]watchedClient{}}
	if w.raw, err = w.epoll.SyscallConn(); err != nil {
		w.epoll.Close()
		return nil, fmt.Errorf("cannot poll epoll set: %w", err)
	}
	go w.run()
	return w, nil
}

// close ends the watcher. watch must not be called any more.
func (w *clientWatcher) close() error {
	err := w.epoll.Close()
	<-w.done
	w.polls.Wait()
	return err
}

// watch calls gone with [ErrClientGone] when the client of c leaves.
func (w *clientWatcher) watch(c net.Conn, gone onGone) (clientWatch, error) {
	raw, err := rawConn(c)
	if err != nil {
		return clientWatch{}, err
	}
	watch := clientWatch{watcher: w, raw: raw}
	client := watchedClient{gone: gone, raw: raw, tls: tlsOf(c)}
	if client.tls != nil { // TLS may have read more than the request, which the socket does not show
		again, end := client.tls.Poll()
		if end != nil {
			gone(ErrClientGone)
			return clientWatch{}, nil
		}
		if again {
			client.input = inputPolled
		}
	}
	w.mu.Lock()
	w.nextID++
	watch.id = w.nextID
	w.clients[watch.id] = client
	w.mu.Unlock()
	if err := w.arm(unix.EPOLL_CTL_ADD, watch.id, client); err != nil {
		w.remove(watch.id)
		return clientWatch{}, fmt.Errorf("cannot watch client: %w", err)
	}
	return watch, nil
}

// arm requests the events of a client.
func (w *clientWatcher) arm(op int, id uint64, c watchedClient) error {
	event := unix.EpollEvent{Events: c.input.events(), Fd: int32(id), Pad: int32(id >> 32)}
	var armed error
	err := c.raw.Control(func(fd uintptr) { armed = unix.EpollCtl(w.fd, op, int(fd), &event) })
	return errors.Join(err, armed)
}

// change changes what the input of a client is watched for, unless it is ignored.
func (w *clientWatcher) change(id uint64, input inputWatch) {
	w.mu.Lock()
	defer w.mu.Unlock() // held while arming: after a stop the socket may be watched for the next request
	if c, ok := w.clients[id]; ok && c.input != inputIgnored {
		c.input = input
		w.clients[id] = c
		_ = w.arm(unix.EPOLL_CTL_MOD, id, c)
	}
}

// ignoreInput makes a watch wait for the close of the client only.
func (w *clientWatcher) ignoreInput(id uint64) { w.change(id, inputIgnored) }

// poll reads a client's input, to find close_notify.
func (w *clientWatcher) poll(id uint64, tls *netconn.TLSConn) {
	again, err := tls.Poll()
	switch {
	case err != nil:
		w.leave(id)
	case again:
		w.change(id, inputPolled)
	default:
		w.change(id, inputCounted)
	}
}

func (w *clientWatcher) onEvent(e unix.EpollEvent) {
	id := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
	if e.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		w.leave(id)
		return
	}
	w.mu.Lock()
	c, ok := w.clients[id]
	w.mu.Unlock()
	switch {
	case !ok:
	case c.input == inputPolled: // in another goroutine, since TLS may write while it reads, and block
		w.polls.Go(func() { w.poll(id, c.tls) })
	case c.input == inputCounted && hasMuchUnread(c.raw):
		w.leave(id)
	}
}

// leave reports that a client has gone.
func (w *clientWatcher) leave(id uint64) {
	if c, ok := w.remove(id); ok {
		c.gone(ErrClientGone)
	}
}

// hasMuchUnread reports whether more than maxUnread bytes have arrived that were not read, or half of what the socket takes: the other
// half may be overhead.
func hasMuchUnread(raw syscall.RawConn) bool {
	much := false
	_ = raw.Control(func(fd uintptr) {
		unread, err := unix.IoctlGetInt(int(fd), fionread)
		if err != nil || unread <= maxUnread/2 {
			return
		}
		buffer, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
		much = unread > maxUnread || err == nil && unread > buffer/2
	})
	return much
}

func (w *clientWatcher) stop(id uint64, raw syscall.RawConn) {
	w.remove(id)
	// By the connection and not by a stored descriptor, which may be another connection's by now. A closed socket has left the set.
	_ = raw.Control(func(fd uintptr) { _ = unix.EpollCtl(w.fd, unix.EPOLL_CTL_DEL, int(fd), nil) })
}

func (w *clientWatcher) remove(id uint64) (watchedClient, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.clients[id]
	delete(w.clients, id)
	return c, ok
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
