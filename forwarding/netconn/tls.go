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
	// ownWriteTimeout bounds the writes that TLS makes by itself, for a handshake or a key update, to a peer that may not read.
	ownWriteTimeout = 5 * time.Second
	// closeNotifyTimeout bounds the write of close_notify.
	closeNotifyTimeout = 50 * time.Millisecond
)

// TLSConn wraps a [tls.Conn]. Unlike that, it
//   - reports an end without close_notify as [io.ErrUnexpectedEOF];
//   - sends close_notify with a deadline, and never while a Write is in progress or after a partial record;
//   - can poll for pending data without blocking.
//
// Deadlines are those of the TCP connection. A read may be retried after its deadline has passed. Nothing can be written after a
// write deadline has passed, since part of a record may have been sent.
//
// Read, Write and Close may be called by different goroutines at once. Each direction has a lock, which its Read or Write holds for
// as long as it blocks. Poll, Poison and the close functions must not block, so they only try the lock: when it is taken, Poll has
// nothing to find that the reader will not find, and close_notify must not be sent into the middle of a record.
type TLSConn struct {
	socket *Socket
	conn   *tls.Conn
	raw    *rawConn

	reading   sync.Mutex // held by Read and Poll; guards the field below
	readAhead []byte     // read by Poll, for Read

	writing     sync.Mutex // held by Write and closeNotify; guards the field below
	writeClosed bool       // by close_notify, a failed Write or Poison
}

// NewTLS returns a connection with TLS over a socket. wrap is [tls.Server] or [tls.Client] with its configuration. onRead, unless it is
// nil, is called after each read of encrypted bytes.
func NewTLS(socket *Socket, wrap func(net.Conn) *tls.Conn, onRead func()) *TLSConn {
	s := &TLSConn{socket: socket, raw: &rawConn{Socket: socket, onRead: onRead}}
	s.conn = wrap(s.raw)
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
		err = io.ErrUnexpectedEOF // the TCP connection ended first, which crypto/tls reports alike
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

// closeNotify sends close_notify once, unless a Write is in progress or has failed.
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
	_ = s.socket.SetWriteDeadline(time.Now().Add(closeNotifyTimeout))
	_ = s.conn.CloseWrite()
}

// Poison prevents close_notify from being sent, so that the other side reports the coming end as truncated. It has no effect
// while a Write is in progress; a Write that fails has the same effect.
func (s *TLSConn) Poison() {
	if s.writing.TryLock() {
		s.writeClosed = true
		s.writing.Unlock()
	}
}

// CloseWrite sends close_notify and closes the write half of the TCP connection.
func (s *TLSConn) CloseWrite() error {
	s.closeNotify()
	return s.socket.CloseWrite()
}

// Close sends close_notify, unless that was done before, and closes the TCP connection.
func (s *TLSConn) Close() error {
	s.closeNotify()
	return s.socket.Close()
}

// Poll reads, without blocking, the data that has arrived, and keeps it for Read. It reports whether to poll again when more
// arrives, or the error after which nothing more can be read. While another goroutine reads, Poll does nothing.
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

func (s *TLSConn) LocalAddr() net.Addr                { return s.socket.LocalAddr() }
func (s *TLSConn) RemoteAddr() net.Addr               { return s.socket.RemoteAddr() }
func (s *TLSConn) SetReadDeadline(t time.Time) error  { return s.socket.SetReadDeadline(t) }
func (s *TLSConn) SetWriteDeadline(t time.Time) error { return s.raw.setWriteDeadline(t) }

// SetDeadline sets both deadlines.
func (s *TLSConn) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// rawConn is the TCP connection below TLS. It knows whether TLS writes for the caller, whose deadline holds, or by itself.
type rawConn struct {
	*Socket
	first   []byte // read before the handshake
	onRead  func()
	eof     bool // the other side has closed the TCP connection; guarded by TLSConn.reading
	polling bool // reads do not block; guarded by TLSConn.reading

	mu            sync.Mutex // guards the fields below
	writeDeadline time.Time  // the caller's
	writing       bool       // a Write is in progress
	bounded       bool       // ownWriteTimeout is in force instead of the caller's
}

// Read reads encrypted bytes.
func (b *rawConn) Read(p []byte) (int, error) {
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

func (b *rawConn) receive(p []byte) (n int, err error) {
	if !b.polling {
		return b.Socket.Read(p)
	}
	// Control instead of Read, which would check a deadline that may have passed.
	if failed := b.raw.Control(func(fd uintptr) { n, _, err = syscall.Recvfrom(int(fd), p, syscall.MSG_DONTWAIT) }); failed != nil {
		return 0, failed
	}
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		return 0, os.ErrDeadlineExceeded // a temporary error to crypto/tls
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write writes encrypted bytes: for a Write, whose deadline the caller has set, or for TLS itself.
func (b *rawConn) Write(p []byte) (int, error) {
	if b.boundWrite() {
		defer b.restore()
	}
	return b.Socket.Write(p)
}

// boundWrite sets a deadline for a write that TLS makes by itself.
func (b *rawConn) boundWrite() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.writing {
		return false
	}
	b.bounded = true
	_ = b.Socket.SetWriteDeadline(time.Now().Add(ownWriteTimeout))
	return true
}

func (b *rawConn) restore() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.restoreLocked()
}

func (b *rawConn) restoreLocked() {
	if b.bounded {
		b.bounded = false
		_ = b.Socket.SetWriteDeadline(b.writeDeadline)
	}
}

// setWriting notes whether a Write is in progress, for which the caller's deadline holds.
func (b *rawConn) setWriting(writing bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writing = writing
	b.restoreLocked()
}

func (b *rawConn) setWriteDeadline(t time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writeDeadline, b.bounded = t, false
	return b.Socket.SetWriteDeadline(t)
}

// SetWriteDeadline does nothing: crypto/tls calls it around close_notify, for which [TLSConn.closeNotify] has set a deadline.
func (b *rawConn) SetWriteDeadline(time.Time) error { return nil }

// Conn returns the [tls.Conn] for its handshake and its state.
func (s *TLSConn) Conn() *tls.Conn { return s.conn }

// Unread makes p, which was read from the TCP connection before the handshake, the first bytes that TLS reads.
func (s *TLSConn) Unread(p []byte) { s.raw.first = p }
