package netconn

import (
	"errors"
	"io"
	"syscall"
)

// maxUnread is how many bytes Unread returns at most.
const maxUnread = 64

// unread receives from a socket without blocking. Its memory is kept with the connection, so that looking allocates nothing.
type unread struct {
	buf     [maxUnread]byte
	n       int // bytes received, of at most limit
	limit   int
	flags   int // of recvfrom
	err     error
	receive func(fd uintptr) // method value of from
}

func (u *unread) from(fd uintptr) {
	u.n, u.err = receiveNow(int(fd), u.buf[:u.limit], u.flags)
}

// Unread returns the first bytes that have arrived and were not read, at most 64, without blocking and without reading them; there may
// be none. It returns an error if the other side has closed the connection and nothing is left to read. The bytes are valid until the
// next call. No other goroutine may read meanwhile.
func (c *Conn) Unread() ([]byte, error) {
	if c.stream != nil {
		return nil, nil // it has one response
	}
	if c.tls != nil {
		return c.tls.unread() // the socket does not show what TLS has read already
	}
	return c.receive(maxUnread, syscall.MSG_PEEK)
}

// Skip reads n of the bytes that Unread has returned.
func (c *Conn) Skip(n int) error {
	if c.tls != nil {
		c.tls.skip(n)
		return nil
	}
	_, err := c.receive(n, 0)
	return err
}

// receive uses Control instead of Read, which would check the deadline that the last exchange has left.
func (c *Conn) receive(limit, flags int) ([]byte, error) {
	u := &c.unread
	u.limit, u.flags = limit, flags
	if err := c.socket.raw.Control(u.receive); err != nil {
		return nil, err
	}
	switch {
	case errors.Is(u.err, syscall.EAGAIN), errors.Is(u.err, syscall.EINTR):
		return nil, nil
	case u.err != nil:
		return nil, u.err
	case u.n == 0:
		return nil, io.EOF
	}
	return u.buf[:u.n], nil
}

// unread is [Conn.Unread] for what TLS has decrypted.
func (s *TLSConn) unread() ([]byte, error) {
	_, err := s.Poll()
	s.reading.Lock()
	defer s.reading.Unlock()
	if n := len(s.readAhead); n > 0 {
		return s.readAhead[:min(n, maxUnread)], nil
	}
	return nil, err
}

func (s *TLSConn) skip(n int) {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.readAhead = s.readAhead[n:]
}
