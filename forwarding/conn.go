package forwarding

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// readBuffer bounds the head of an answer, and what one read of a body brings.
	readBuffer = 16 << 10
	// socketBuffer keeps the kernel from storing megabytes of an answer for a reader that stalls; the kernel doubles
	// it.
	socketBuffer = 128 << 10
)

// longAgo is a deadline that has passed: it wakes whoever reads or writes.
func longAgo() time.Time { return time.Unix(1, 0) }

// conn is one connection to a server, with the deadlines of the exchange it carries.
type conn struct {
	net.Conn
	tcp    *net.TCPConn // below Conn
	secure *secured     // of a connection with TLS
	raw    syscall.RawConn
	br     *bufio.Reader

	early     []byte // comes before what is read: see takeOver
	head      []byte // reused for request heads
	idleSince time.Time
	edition   uint64 // of what nodes know each other by, at the handshake

	cancelled atomic.Bool
	idle      time.Duration        // longest silence while reading; 0 = none
	end       time.Time            // of the whole exchange
	pulse     func() time.Duration // see [Request.Pulse]
}

// cancel wakes the exchange, from any goroutine. The order matters: the flag first, since Read looks at it after it has
// moved its deadline.
func (c *conn) cancel() {
	c.cancelled.Store(true)
	_ = c.SetDeadline(longAgo())
}

var errCancelled = errors.New("exchange was cancelled")

// Read moves the read deadline forward, then reads.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	deadline := c.end
	if c.idle > 0 {
		if d := time.Now().Add(c.idle); deadline.IsZero() || d.Before(deadline) {
			deadline = d
		}
	}
	for {
		wake := c.wake()
		woken := !wake.IsZero() && (deadline.IsZero() || wake.Before(deadline))
		if !woken {
			wake = deadline
		}
		if err := c.SetReadDeadline(wake); err != nil {
			return 0, err
		}
		if c.cancelled.Load() {
			return 0, errCancelled
		}
		n, err := c.Conn.Read(p)
		if n == 0 && woken && errors.Is(err, os.ErrDeadlineExceeded) {
			continue // what has not come may still come in time
		}
		return n, err
	}
}

// wake is when a silence is to be interrupted for the next pulse; zero is never.
func (c *conn) wake() time.Time {
	if c.pulse == nil {
		return time.Time{}
	}
	return time.Now().Add(c.pulse())
}

// linger closes the connection in two steps: it says that nothing more will be sent, and waits until the other side has
// closed too, for limit at most. An engine that has seen the end of its request stops generating, so its slot is free
// when linger returns. What still arrives is thrown away.
func (c *conn) linger(limit time.Duration) {
	defer c.Close()
	c.awaitClose(limit)
}

// awaitClose is the first step, without the second. It reports whether the other side has closed.
func (c *conn) awaitClose(limit time.Duration) bool {
	if limit <= 0 || c.closeWrite() != nil {
		return false
	}
	until := time.Now().Add(limit)
	var drain [4 << 10]byte
	for time.Now().Before(until) {
		_ = c.SetReadDeadline(until)
		// A cancellation that comes late moves the deadline once more, so a timeout alone is no reason to leave.
		if _, err := c.Conn.Read(drain[:]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return true
		}
	}
	return false
}

// abort makes the coming Close reset the connection. The other side then learns of it though bytes that it does not
// take stand before the end.
func (c *conn) abort() {
	if c.secure != nil {
		c.secure.spoil()
	}
	if c.tcp != nil {
		_ = c.tcp.SetLinger(0)
	}
}

func (c *conn) closeWrite() error {
	switch {
	case c.secure != nil:
		return c.secure.CloseWrite()
	case c.tcp == nil:
		return errNoHalfClose
	}
	return c.tcp.CloseWrite()
}

// dial connects within timeout. A secure connection speaks HTTP/1.1 only.
func dial(ctx context.Context, to Target, timeout time.Duration) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", to.Address)
	if err != nil {
		return nil, err
	}
	tcp := nc.(*net.TCPConn)
	_ = tcp.SetReadBuffer(socketBuffer)
	raw, err := tcp.SyscallConn()
	if err != nil {
		tcp.Close()
		return nil, err
	}
	c := &conn{Conn: tcp, tcp: tcp, raw: raw}
	if config := to.clientTLS(); config != nil {
		c.edition = to.Peer.edition() // before the handshake: what changes in it counts as changed after it
		c.secure = secure(tcp, func(below net.Conn) *tls.Conn { return tls.Client(below, config) }, nil)
		c.Conn = c.secure
		if err := c.secure.tls.HandshakeContext(ctx); err != nil {
			tcp.Close()
			return nil, to.Peer.explain(err)
		}
	}
	return c, nil
}

// clientTLS is how to speak TLS there, or nil.
func (t Target) clientTLS() *tls.Config {
	switch {
	case t.Peer.peers != nil:
		return t.Peer.peers.clientTLS(t.Peer.Identity)
	case t.ServerName != "":
		return &tls.Config{ServerName: t.ServerName, NextProtos: []string{httpOverTLS}, MinVersion: tls.VersionTLS12}
	}
	return nil
}
