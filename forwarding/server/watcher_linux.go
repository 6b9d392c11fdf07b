package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"colonnade/forwarding/netconn"

	"golang.org/x/sys/unix"
)

// Watcher tells when clients go, also while nothing is read from them or written to them: one epoll set for all
// requests of a node, whose descriptor the Go runtime itself polls, so that one goroutine sleeps for all of them and no
// thread is blocked. (A goroutine for each request, parked in a peek, costs a wake-up at the end of each.)
//
// Only the close of the client's sending side is watched for: bytes of a next, pipelined request do not hide it. A
// client that closes that half alone is taken to have gone, as nginx and HAProxy do.
//
// With TLS there is a second way to go: to say so, and to keep the socket open until we have said it too. Python's
// asyncio does that, for half a minute. So what comes from such a client is looked at, until it is a next request.
type Watcher struct {
	epoll *os.File
	raw   syscall.RawConn
	fd    int
	done  chan struct{}
	polls sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	nextID  uint64
	clients map[uint64]client
}

type client struct {
	gone   watched
	raw    syscall.RawConn
	secure *netconn.TLSConn // of one with TLS; else nil
}

// NewWatcher returns a running watcher, to be closed.
func NewWatcher() (*Watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot create epoll set: %w", err)
	}
	// Non-blocking, or else the runtime would not poll it.
	_ = unix.SetNonblock(fd, true)
	w := &Watcher{epoll: os.NewFile(uintptr(fd), "epoll"), fd: fd, done: make(chan struct{}), clients: map[uint64]client{}}
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
	w.polls.Wait()
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
	who := client{gone: gone, raw: raw, secure: securedOf(c)}
	w.clients[watch.id] = who
	w.mu.Unlock()
	looks := false
	if who.secure != nil { // TLS may have read more than the request, and that is not at the socket any more
		var left error
		if looks, left = who.secure.Poll(); left != nil {
			w.forget(watch.id)
			gone(ErrClientGone)
			return Watch{}, nil
		}
	}
	if err := w.arm(unix.EPOLL_CTL_ADD, watch.id, raw, looks); err != nil {
		w.forget(watch.id)
		return Watch{}, fmt.Errorf("cannot watch client: %w", err)
	}
	return watch, nil
}

// arm asks to be told, once, when the client closes, and if looks also when something comes from it.
func (w *Watcher) arm(op int, id uint64, raw syscall.RawConn, looks bool) error {
	event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(id), Pad: int32(id >> 32)}
	if looks {
		event.Events |= unix.EPOLLIN
	}
	var armed error
	err := raw.Control(func(fd uintptr) { armed = unix.EpollCtl(w.fd, op, int(fd), &event) })
	return errors.Join(err, armed)
}

// poll finds out whether what has come from a client says that it goes.
func (w *Watcher) poll(id uint64, secure *netconn.TLSConn) {
	again, err := secure.Poll()
	if err != nil {
		if c, ok := w.forget(id); ok {
			c.gone(ErrClientGone)
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock() // a watch that has been stopped must not be armed: its socket may be watched for the next request
	if c, ok := w.clients[id]; ok {
		_ = w.arm(unix.EPOLL_CTL_MOD, id, c.raw, again)
	}
}

// onEvent takes what epoll says of a client.
func (w *Watcher) onEvent(e unix.EpollEvent) {
	id := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
	if e.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) == 0 {
		w.mu.Lock()
		c, ok := w.clients[id]
		w.mu.Unlock()
		if ok { // elsewhere, since to read may be to answer, and it may take nothing
			w.polls.Go(func() { w.poll(id, c.secure) })
		}
		return
	}
	// A watch that was stopped meanwhile is no longer in the map; ids are never used again.
	if c, ok := w.forget(id); ok {
		c.gone(ErrClientGone)
	}
}

func (w *Watcher) stop(id uint64, raw syscall.RawConn) {
	w.forget(id)
	// Not by a number that was kept: it may be another connection's by now. A closed one has left the set by itself.
	_ = raw.Control(func(fd uintptr) { _ = unix.EpollCtl(w.fd, unix.EPOLL_CTL_DEL, int(fd), nil) })
}

func (w *Watcher) forget(id uint64) (client, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.clients[id]
	delete(w.clients, id)
	return c, ok
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
			w.onEvent(e)
		}
	}
}
