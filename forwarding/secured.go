package forwarding

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// unaskedWrite is how long TLS may take for what it writes of its own accord: a handshake, or the answer to a new key
// of the other side, which may take nothing.
const unaskedWrite = 5 * time.Second

// secured is TLS over a connection. It differs from tls.Conn in what an end and a silence are: an end that was meant is
// told from a cut; its own last word waits neither for a write that is stuck nor for a side that takes nothing, and
// never follows half of a record; and one may look whether anything has come.
//
// Deadlines are those of the connection below. One for reading that runs out harms nothing. One for writing does: part
// of a record may have gone out, so nothing else can.
type secured struct {
	tcp   *net.TCPConn
	tls   *tls.Conn
	below *below

	reading sync.Mutex // held by who reads; guards the field below
	ahead   []byte     // what a look has found

	writing sync.Mutex // held by who writes; guards the field below
	mute    bool       // nothing more may be written
}

// secure puts tls.Server or tls.Client over tcp. came, which is told of whatever arrives, may be nil.
func secure(tcp *net.TCPConn, over func(net.Conn) *tls.Conn, came func()) *secured {
	s := &secured{tcp: tcp, below: &below{TCPConn: tcp, came: came}}
	s.tls = over(s.below)
	return s
}

// Read returns io.EOF only for an end that the other side meant, and for a cut io.ErrUnexpectedEOF.
func (s *secured) Read(p []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	if len(s.ahead) > 0 {
		n := copy(p, s.ahead)
		s.ahead = s.ahead[n:]
		return n, nil
	}
	n, err := s.tls.Read(p)
	if errors.Is(err, io.EOF) && s.below.cut {
		err = io.ErrUnexpectedEOF // TLS overlooks it
	}
	return n, err
}

func (s *secured) Write(p []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.mute {
		return 0, net.ErrClosed
	}
	s.below.asked(true)
	defer s.below.asked(false)
	n, err := s.tls.Write(p)
	s.mute = err != nil
	return n, err
}

// sayEnd says that nothing more will be written, if that can be said. Who is in the middle of a write would have to be
// waited for.
func (s *secured) sayEnd() {
	if !s.writing.TryLock() {
		return
	}
	defer s.writing.Unlock()
	if s.mute {
		return
	}
	s.mute = true
	s.below.asked(true)
	defer s.below.asked(false)
	_ = s.tcp.SetWriteDeadline(time.Now().Add(lastWords))
	_ = s.tls.CloseWrite()
}

// spoil makes the coming end one that nobody takes for meant. It waits for no write: one that is stuck has its own end.
func (s *secured) spoil() {
	if s.writing.TryLock() {
		s.mute = true
		s.writing.Unlock()
	}
}

// CloseWrite says that nothing more will be written, by TLS and below it.
func (s *secured) CloseWrite() error {
	s.sayEnd()
	return s.tcp.CloseWrite()
}

// Close closes, and says so unless it was said before.
func (s *secured) Close() error {
	s.sayEnd()
	return s.tcp.Close()
}

// look takes what has come, without waiting for more. It reports whether that is worth another look when more has come,
// or the error that shows that nothing more can be read. Who reads sees for himself.
func (s *secured) look() (again bool, err error) {
	if !s.reading.TryLock() {
		return false, nil
	}
	defer s.reading.Unlock()
	if len(s.ahead) > 0 {
		return false, nil
	}
	s.below.looks = true
	defer func() { s.below.looks = false }()
	var found [512]byte
	n, err := s.tls.Read(found[:])
	if n > 0 {
		s.ahead = append([]byte(nil), found[:n]...)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true, nil
	}
	return false, err
}

// quiet reports whether the other side has neither ended nor said anything that nobody asked for.
func (s *secured) quiet() bool {
	again, err := s.look()
	return again && err == nil
}

func (s *secured) LocalAddr() net.Addr                { return s.tcp.LocalAddr() }
func (s *secured) RemoteAddr() net.Addr               { return s.tcp.RemoteAddr() }
func (s *secured) SetReadDeadline(t time.Time) error  { return s.tcp.SetReadDeadline(t) }
func (s *secured) SetWriteDeadline(t time.Time) error { return s.below.setWriteDeadline(t) }

// SetDeadline sets both deadlines.
func (s *secured) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// below is a connection as TLS sees it.
type below struct {
	*net.TCPConn
	first []byte // was read before TLS began
	came  func()
	cut   bool // the other side has closed; guarded by who reads
	looks bool // reads do not wait; likewise

	mu      sync.Mutex // guards the fields below
	writeBy time.Time  // the deadline of whoever writes
	writes  bool       // somebody does
	hurried bool       // the deadline in force is another one
}

// Read reads what is encrypted.
func (b *below) Read(p []byte) (int, error) {
	if len(b.first) > 0 {
		n := copy(p, b.first)
		if b.first = b.first[n:]; len(b.first) == 0 {
			b.first = nil
		}
		return n, nil
	}
	n, err := b.receive(p)
	if errors.Is(err, io.EOF) {
		b.cut = true
	}
	if n > 0 && b.came != nil {
		b.came()
	}
	return n, err
}

func (b *below) receive(p []byte) (n int, err error) {
	if !b.looks {
		return b.TCPConn.Read(p)
	}
	raw, err := b.SyscallConn()
	if err != nil {
		return 0, err
	}
	// Control and not Read, which looks at a deadline that may have passed.
	if failed := raw.Control(func(fd uintptr) { n, _, err = syscall.Recvfrom(int(fd), p, syscall.MSG_DONTWAIT) }); failed != nil {
		return 0, failed
	}
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		return 0, os.ErrDeadlineExceeded // which TLS takes for something that passes
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write writes what is encrypted: for somebody, who has set a deadline, or for TLS itself.
func (b *below) Write(p []byte) (int, error) {
	if b.hurry() {
		defer b.relax()
	}
	return b.TCPConn.Write(p)
}

// hurry bounds a write that nobody has asked for.
func (b *below) hurry() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.writes {
		return false
	}
	b.hurried = true
	_ = b.TCPConn.SetWriteDeadline(time.Now().Add(unaskedWrite))
	return true
}

func (b *below) relax() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.relaxLocked()
}

func (b *below) relaxLocked() {
	if b.hurried {
		b.hurried = false
		_ = b.TCPConn.SetWriteDeadline(b.writeBy)
	}
}

// asked says whether somebody writes, whose deadline then holds.
func (b *below) asked(writes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes = writes
	b.relaxLocked()
}

func (b *below) setWriteDeadline(t time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writeBy, b.hurried = t, false
	return b.TCPConn.SetWriteDeadline(t)
}

// SetWriteDeadline does nothing: TLS calls it around its last word, for which [secured.sayEnd] has set one.
func (b *below) SetWriteDeadline(time.Time) error { return nil }
