//go:build !portable

package netconn

import (
	"cmp"
	"errors"
	"net"
	"os"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"colonnade/forwarding/link"
)

// collect is how long a busy loop lets chunks arrive before it looks for them, so that it wakes up once for many.
const collect = 500 * time.Microsecond

// maxLoops is how many loops a pump has at most. One passes some ten thousand chunks a second.
const maxLoops = 4

// Pump calls the steps of many connections: see [Conn.PollShared]. Each of its loops is one goroutine that waits for one epoll set. Where
// chunks arrive all the time on many connections, a loop finds several at once, and its memory is in the processor's cache, while the
// scheduler of Go would wake another goroutine, and often another thread, for each chunk. The loops start with their first connections.
type Pump struct {
	flusher *link.Flusher
	loops   []pumpLoop
	next    atomic.Uint32

	mu    sync.Mutex // guards the field below
	spare *os.File   // closed to make room for the descriptor of a connection that comes back; nil = none yet
}

// NewPump returns a pump, which calls the flusher, unless that is nil, after each round of steps. The caller must call Close when no connection uses the pump
// any more.
func NewPump(flusher *link.Flusher) *Pump {
	return &Pump{flusher: flusher, loops: make([]pumpLoop, min((runtime.GOMAXPROCS(0)+3)/4, maxLoops))}
}

// Close ends the loops. Connections that use them go on with goroutines of their own.
func (p *Pump) Close() {
	for i := range p.loops {
		p.loops[i].close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spare.Close()
}

// reserve keeps a descriptor for adopt.
func (p *Pump) reserve() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spare == nil {
		p.spare, err = os.Open(os.DevNull)
	}
	return err
}

// adopt returns a connection over a duplicate of the descriptor of a socket.
func (p *Pump) adopt(socket *os.File) (net.Conn, error) {
	nc, err := net.FileConn(socket)
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
		return nc, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spare.Close()
	p.spare = nil
	return net.FileConn(socket)
}

// loop returns the loop for the next connection, or nil if there is none.
func (p *Pump) loop() *pumpLoop {
	l := &p.loops[int(p.next.Add(1)%uint32(len(p.loops)))]
	if !l.start(p.flusher) {
		return nil
	}
	return l
}

// pumpLoop is one goroutine and its epoll set.
type pumpLoop struct {
	epoll int // the set of sockets
	// gate is a set that has only epoll in it. The Go runtime polls the gate, which is armed before each wait, so that a busy loop does not wake the
	// runtime's poller as well.
	gate    *os.File
	gateFD  int
	gateRaw syscall.RawConn

	mu     sync.Mutex // guards the fields below
	state  loopState
	nextID uint64
	conns  map[uint64]*poller
	done   chan struct{} // closed at the end of run
}

type loopState uint8

const (
	loopNew loopState = iota
	loopRuns
	loopEnded
)

// start starts the goroutine, and reports whether it runs.
func (l *pumpLoop) start(flusher *link.Flusher) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == loopNew && l.open() == nil { // else the next connection tries again
		l.state, l.conns, l.done = loopRuns, map[uint64]*poller{}, make(chan struct{})
		go l.run(flusher, l.done)
	}
	return l.state == loopRuns
}

// open opens the descriptors.
func (l *pumpLoop) open() (err error) {
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if l.gateFD, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		_ = unix.Close(l.epoll)
		return err
	}
	_ = unix.SetNonblock(l.gateFD, true) // else the Go runtime would not poll it
	l.gate = os.NewFile(uintptr(l.gateFD), "epoll")
	l.gateRaw, err = l.gate.SyscallConn()
	if err == nil {
		err = unix.EpollCtl(l.gateFD, unix.EPOLL_CTL_ADD, l.epoll, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT})
	}
	if err != nil {
		_ = unix.Close(l.epoll)
		l.gate.Close()
	}
	return err
}

func (l *pumpLoop) close() {
	l.mu.Lock()
	done := l.done
	l.state, l.done = loopEnded, nil
	l.mu.Unlock()
	if done != nil { // else it has never begun, or is closed already
		l.gate.Close()
		<-done
		_ = unix.Close(l.epoll)
	}
}

func (l *pumpLoop) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == loopEnded
}

// run calls steps until close is called.
func (l *pumpLoop) run(flusher *link.Flusher, done chan<- struct{}) {
	defer close(done)
	defer l.abandon()
	var events [128]unix.EpollEvent
	all := newProcessors()
	for !l.ended() {
		n, err := eventsNow(l.epoll, events[:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return
		case n == 0:
			if l.wait() != nil {
				return
			}
		default:
			for i := range events[:n] {
				l.onEvent(&events[i])
			}
			flusher.Flush()
			all.rest()
		}
	}
}

// wait waits for an event.
func (l *pumpLoop) wait() error {
	if err := unix.EpollCtl(l.gateFD, unix.EPOLL_CTL_MOD, l.epoll, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT}); err != nil {
		return err
	}
	var event [1]unix.EpollEvent
	return l.gateRaw.Read(func(fd uintptr) bool {
		n, err := eventsNow(int(fd), event[:])
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
}

// processors says whether one is idle.
type processors [2]metrics.Sample

func newProcessors() *processors {
	return &processors{{Name: "/sched/goroutines/running:goroutines"}, {Name: "/sched/goroutines/runnable:goroutines"}}
}

// idle reports whether no goroutine waits for a processor, and not all processors run one.
func (p *processors) idle() bool {
	metrics.Read(p[:])
	return p[0].Value.Uint64() < uint64(runtime.GOMAXPROCS(0)) && p[1].Value.Uint64() == 0
}

// rest lets chunks arrive. If another processor of the scheduler (a P) is idle, it keeps its own meanwhile: to give it back and to get it again would wake
// up to three threads. Otherwise it gives it back, since a P that is kept runs neither timers nor the network poller.
func (p *processors) rest() {
	if p.idle() {
		holdFor(collect)
	} else {
		time.Sleep(collect)
	}
}

// newRest returns a function that lets bytes arrive.
func newRest() func() { return newProcessors().rest }

func (l *pumpLoop) onEvent(e *unix.EpollEvent) {
	id := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
	l.mu.Lock()
	p := l.conns[id]
	l.mu.Unlock()
	if p != nil { // else it was removed after the event
		p.sharedStep()
	}
}

// abandon makes all connections go on by themselves.
func (l *pumpLoop) abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = loopEnded
	for _, p := range l.conns {
		p.wake()
	}
}

// add has steps called for a connection from now on. It returns an id, which is never used again.
func (l *pumpLoop) add(p *poller) (id uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != loopRuns {
		return 0, net.ErrClosed
	}
	l.nextID++
	id = l.nextID
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: int32(id), Pad: int32(id >> 32)}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, p.fd, &event); err != nil {
		return 0, err
	}
	l.conns[id] = p
	return id, nil
}

// remove ends what add has begun. A step may still be under way.
func (l *pumpLoop) remove(id uint64, fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, id)
	if l.state == loopRuns {
		_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, fd, nil)
	}
}

// share has the pump call step until that ends, the connection is cancelled, or a limit passes. If the pump cannot, step is called as before.
func (c *Conn) share() error {
	p := &c.poller
	loop := c.Pump.loop()
	if loop == nil || c.Pump.reserve() != nil || c.shareOut() != nil {
		return nil
	}
	var ended error
	fd := p.fd
	if id, err := loop.add(p); err == nil {
		ended = c.awaitShared(loop)
		loop.remove(id, fd)
	}
	p.mu.Lock() // no step is under way then
	p.shared = false
	p.acks.end(fd)
	thrown := p.panic
	p.panic = nil
	p.mu.Unlock()
	err := c.shareIn(fd)
	if thrown != nil {
		panic(thrown)
	}
	return cmp.Or(ended, err)
}

// shareOut takes the socket from Go's own poller, which would wake a thread for each chunk too: to close Go's connection removes its descriptor
// from that poller, and a duplicate keeps the socket open.
func (c *Conn) shareOut() error {
	fd := -1
	var failed error
	err := c.socket.raw.Control(func(old uintptr) { fd, failed = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	p := &c.poller
	c.moving.Lock()
	if p.woken == nil {
		p.woken = make(chan struct{}, 1)
	}
	c.moving.Unlock()
	p.mu.Lock()
	p.fd, p.shared, p.acks = fd, true, acks{}
	p.mu.Unlock()
	_ = c.socket.Close()
	return nil
}

// shareIn undoes shareOut.
func (c *Conn) shareIn(fd int) error {
	file := os.NewFile(uintptr(fd), "socket")
	nc, err := c.Pump.adopt(file)
	file.Close()
	_ = c.Pump.reserve() // if it was needed, the file has left a descriptor
	if err != nil {
		return err
	}
	socket := NewSocket(nc.(*net.TCPConn))
	c.moving.Lock()
	defer c.moving.Unlock()
	c.Conn, c.socket = socket, socket
	return nil
}
