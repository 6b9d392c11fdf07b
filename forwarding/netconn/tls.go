package netconn

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

const (
	// ownWriteTimeout bounds what TLS writes by itself, a handshake or a key update, to a peer that may read nothing.
	ownWriteTimeout = 5 * time.Second
	// closeNotifyTimeout bounds the write of close_notify.
	closeNotifyTimeout = 50 * time.Millisecond
)

// TLSConn wraps a [tls.Conn]. Unlike that, it
//   - reports an end without close_notify as [io.ErrUnexpectedEOF];
//   - sends close_notify with a deadline, and never while a Write is in progress or after a partial record;
//   - can poll for pending data without blocking.
//
// Deadlines are those of the TCP connection. A read deadline that passes does no harm; after a write deadline has passed,
// nothing more can be written, since part of a record may have been sent.
type TLSConn struct {
	tcp  *net.TCPConn
	conn *tls.Conn
	raw  *plainConn

	reading   sync.Mutex // held while reading; guards the field below
	readAhead []byte     // found by Poll

	writing     sync.Mutex // held while writing; guards the field below
	writeClosed bool       // nothing more may be written
}

// NewTLS puts over(…), which is [tls.Server] or [tls.Client], over tcp. came, if it is not nil, is called after each read that
// brings encrypted bytes.
func NewTLS(tcp *net.TCPConn, over func(net.Conn) *tls.Conn, came func()) *TLSConn {
	s := &TLSConn{tcp: tcp, raw: &plainConn{TCPConn: tcp, onRead: came}}
	s.conn = over(s.raw)
	return s
}

// Read returns [io.EOF] after close_notify, and [io.ErrUnexpectedEOF] after an end without it.
func (s *TLSConn) Read(p []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	if len(s.readAhead) > 0 {
		n := copy(p, s.readAhead)
		s.readAhead = s.readAhead[n:]
		return n, nil
	}
	n, err := s.conn.Read(p)
	if errors.Is(err, io.EOF) && s.raw.eof {
		err = io.ErrUnexpectedEOF // TLS overlooks it
	}
	return n, err
}

func (s *TLSConn) Write(p []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.writeClosed {
		return 0, net.ErrClosed
	}
	s.raw.setWriting(true)
	defer s.raw.setWriting(false)
	n, err := s.conn.Write(p)
	s.writeClosed = err != nil
	return n, err
}

// closeNotify sends close_notify, unless a Write is in progress or has failed.
func (s *TLSConn) closeNotify() {
	if !s.writing.TryLock() {
		return
	}
	defer s.writing.Unlock()
	if s.writeClosed {
		return
	}
	s.writeClosed = true
	s.raw.setWriting(true)
	defer s.raw.setWriting(false)
	_ = s.tcp.SetWriteDeadline(time.Now().Add(closeNotifyTimeout))
	_ = s.conn.CloseWrite()
}

// Poison keeps close_notify from being sent, so that the other side does not take the coming end for a proper one. It does not
// wait for a Write in progress.
func (s *TLSConn) Poison() {
	if s.writing.TryLock() {
		s.writeClosed = true
		s.writing.Unlock()
	}
}

// CloseWrite sends close_notify and closes the write half of the TCP connection.
func (s *TLSConn) CloseWrite() error {
	s.closeNotify()
	return s.tcp.CloseWrite()
}

// Close sends close_notify unless it was sent before, and closes.
func (s *TLSConn) Close() error {
	s.closeNotify()
	return s.tcp.Close()
}

// Poll reads what has arrived, without blocking, and keeps it for Read. It reports whether to poll again when more arrives, or the
// error after which nothing more can be read. While another goroutine reads, it does nothing.
func (s *TLSConn) Poll() (again bool, err error) {
	if !s.reading.TryLock() {
		return false, nil
	}
	defer s.reading.Unlock()
	if len(s.readAhead) > 0 {
		return false, nil
	}
	s.raw.polling = true
	defer func() { s.raw.polling = false }()
	var found [512]byte
	n, err := s.conn.Read(found[:])
	if n > 0 {
		s.readAhead = append([]byte(nil), found[:n]...)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true, nil
	}
	return false, err
}

// quiet reports whether the other side has neither closed nor sent anything.
func (s *TLSConn) quiet() bool {
	again, err := s.Poll()
	return again && err == nil
}

func (s *TLSConn) LocalAddr() net.Addr                { return s.tcp.LocalAddr() }
func (s *TLSConn) RemoteAddr() net.Addr               { return s.tcp.RemoteAddr() }
func (s *TLSConn) SetReadDeadline(t time.Time) error  { return s.tcp.SetReadDeadline(t) }
func (s *TLSConn) SetWriteDeadline(t time.Time) error { return s.raw.setWriteDeadline(t) }

// SetDeadline sets both deadlines.
func (s *TLSConn) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// plainConn is the TCP connection as TLS sees it.
type plainConn struct {
	*net.TCPConn
	first   []byte // read before TLS began
	onRead  func()
	eof     bool // the other side has closed; guarded by TLSConn.reading
	polling bool // reads do not wait; likewise

	mu            sync.Mutex // guards the fields below
	writeDeadline time.Time  // the caller's deadline
	writing       bool       // a Write is in progress
	bounded       bool       // ownWriteTimeout is in force instead
}

// Read reads encrypted bytes.
func (b *plainConn) Read(p []byte) (int, error) {
	if len(b.first) > 0 {
		n := copy(p, b.first)
		if b.first = b.first[n:]; len(b.first) == 0 {
			b.first = nil
		}
		return n, nil
	}
	n, err := b.receive(p)
	if errors.Is(err, io.EOF) {
		b.eof = true
	}
	if n > 0 && b.onRead != nil {
		b.onRead()
	}
	return n, err
}

func (b *plainConn) receive(p []byte) (n int, err error) {
	if !b.polling {
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

// Write writes encrypted bytes: of a Write, which has its own deadline, or of TLS itself.
func (b *plainConn) Write(p []byte) (int, error) {
	if b.boundWrite() {
		defer b.restore()
	}
	return b.TCPConn.Write(p)
}

// boundWrite sets a deadline for a write that TLS makes by itself.
func (b *plainConn) boundWrite() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.writing {
		return false
	}
	b.bounded = true
	_ = b.TCPConn.SetWriteDeadline(time.Now().Add(ownWriteTimeout))
	return true
}

func (b *plainConn) restore() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.restoreLocked()
}

func (b *plainConn) restoreLocked() {
	if b.bounded {
		b.bounded = false
		_ = b.TCPConn.SetWriteDeadline(b.writeDeadline)
	}
}

// asked says whether somebody writes, whose deadline then holds.
func (b *plainConn) setWriting(writes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writing = writes
	b.restoreLocked()
}

func (b *plainConn) setWriteDeadline(t time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writeDeadline, b.bounded = t, false
	return b.TCPConn.SetWriteDeadline(t)
}

// SetWriteDeadline does nothing: TLS calls it around its last word, for which [TLSConn.closeNotify] has set one.
func (b *plainConn) SetWriteDeadline(time.Time) error { return nil }

// Conn returns the [tls.Conn], for its handshake and its state.
func (s *TLSConn) Conn() *tls.Conn { return s.conn }

// Unread makes p, which was read from the TCP connection already, the first bytes that TLS reads.
func (s *TLSConn) Unread(p []byte) { s.raw.first = p }
