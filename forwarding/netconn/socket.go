package netconn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Socket is a TCP connection that costs less than [net.TCPConn] and behaves alike. Its system calls never block, so the scheduler of Go is not
// informed of them. To move a deadline to a later time does not touch the runtime's timer: when the timer fires early, the read or the write sets
// it anew and continues. So a deadline that is moved for each read costs a comparison.
//
// Its methods may be called by several goroutines at once. The deadlines hold for the methods of Socket alone: a read or a write of the
// [net.TCPConn] below would fail when the timer fires. So Socket does not embed it.
type Socket struct {
	tcp     *net.TCPConn
	raw     syscall.RawConn
	in, out transfer
}

// NewSocket returns a Socket over tcp, whose deadlines nothing else may set from then on.
func NewSocket(tcp *net.TCPConn) *Socket {
	raw, _ := tcp.SyscallConn() // fails for nil only
	s := &Socket{tcp: tcp, raw: raw}
	s.in.step, s.out.step = s.in.read, s.out.write
	return s
}

// transfer is one direction of a Socket.
type transfer struct {
	deadline deadline

	using sync.Mutex // held by Read or Write, and guards the fields below
	p     []byte
	n     int
	err   error
	step  func(fd uintptr) bool // method value of read or write
}

func (s *Socket) Read(p []byte) (int, error) {
	t := &s.in
	t.using.Lock()
	defer t.using.Unlock()
	t.p, t.n, t.err = p, 0, nil
	err := s.readWith(t.step)
	t.p = nil
	switch {
	case err != nil:
		return 0, s.wrap("read", err)
	case t.err != nil:
		return 0, s.wrap("read", os.NewSyscallError("read", t.err))
	case t.n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return t.n, nil
}

func (s *Socket) Write(p []byte) (int, error) {
	t := &s.out
	t.using.Lock()
	defer t.using.Unlock()
	t.p, t.n, t.err = p, 0, nil
	err := s.writeWith(t.step)
	t.p = nil
	switch {
	case err != nil:
		return t.n, s.wrap("write", err)
	case t.err != nil:
		return t.n, s.wrap("write", os.NewSyscallError("write", t.err))
	}
	return t.n, nil
}

// wrap returns the error that [net.TCPConn] would return.
func (s *Socket) wrap(op string, err error) error {
	var raw *net.OpError // of syscall.RawConn
	if errors.As(err, &raw) {
		err = raw.Err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: err}
}

func (t *transfer) read(fd uintptr) bool {
	for {
		n, err := readNow(int(fd), t.p)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return false
		}
		t.n, t.err = n, err
		return true
	}
}

func (t *transfer) write(fd uintptr) bool {
	for t.n < len(t.p) {
		n, err := writeNow(int(fd), t.p[t.n:])
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return false
		case err != nil:
			t.err = err
			return true
		default:
			t.n += n
		}
	}
	return true
}

// readWith is [syscall.RawConn.Read] with the deadline of the Socket.
func (s *Socket) readWith(step func(fd uintptr) bool) error {
	for {
		err := s.raw.Read(step)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || !s.in.deadline.renew(s.tcp.SetReadDeadline) {
			return err
		}
	}
}

// writeWith is [syscall.RawConn.Write] with the deadline of the Socket.
func (s *Socket) writeWith(step func(fd uintptr) bool) error {
	for {
		err := s.raw.Write(step)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || !s.out.deadline.renew(s.tcp.SetWriteDeadline) {
			return err
		}
	}
}

// TCP returns the connection, for socket options. Nothing may read, write or set a deadline on it.
func (s *Socket) TCP() *net.TCPConn { return s.tcp }

func (s *Socket) LocalAddr() net.Addr  { return s.tcp.LocalAddr() }
func (s *Socket) RemoteAddr() net.Addr { return s.tcp.RemoteAddr() }
func (s *Socket) Close() error         { return s.tcp.Close() }

// CloseWrite closes the write half.
func (s *Socket) CloseWrite() error { return s.tcp.CloseWrite() }

// SetReadDeadline sets the deadline of reads, also of one that waits.
func (s *Socket) SetReadDeadline(t time.Time) error {
	return s.in.deadline.set(t, s.tcp.SetReadDeadline)
}

// SetWriteDeadline sets the deadline of writes, also of one that waits.
func (s *Socket) SetWriteDeadline(t time.Time) error {
	return s.out.deadline.set(t, s.tcp.SetWriteDeadline)
}

// SetDeadline sets both deadlines.
func (s *Socket) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// deadline is the deadline of one direction of a socket.
type deadline struct {
	mu    sync.Mutex // guards the fields below
	at    time.Time  // zero = none
	armed time.Time  // when the runtime's timer fires, or has fired: not after at; zero = never
}

// set moves the deadline, and sets the runtime's timer with arm if that would fire too late.
func (d *deadline) set(to time.Time, arm func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = to
	// There is no timer and none is wanted, or the timer fires early enough.
	if to.IsZero() && d.armed.IsZero() || !d.armed.IsZero() && (to.IsZero() || !to.Before(d.armed)) {
		return nil
	}
	return d.armLocked(arm)
}

// renew is called after the timer has fired. Unless the deadline has passed, it sets the timer to the deadline, and returns true.
func (d *deadline) renew(arm func(time.Time) error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && !time.Now().Before(d.at) {
		return false
	}
	return d.armLocked(arm) == nil
}

func (d *deadline) armLocked(arm func(time.Time) error) error {
	d.armed = d.at
	return arm(d.at)
}
