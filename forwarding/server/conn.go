package server

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"colonnade/forwarding/httpguard"
	"colonnade/forwarding/netconn"
)

const (
	// lingerTime is how long a connection's end waits for a client that still sends, and lingerSilence for one that has
	// stopped.
	lingerTime    = 5 * time.Second
	lingerSilence = time.Second
	// FinalWriteTimeout is how long a client may take for the end of an answer that we have ended.
	FinalWriteTimeout = time.Second
)

// Listen listens on address, for [Server.Serve].
func Listen(address string) (net.Listener, error) {
	config := net.ListenConfig{}
	config.SetMultipathTCP(false) // such a listener knows nothing of [turnAway], and connections would fall back to TCP anyway
	return config.Listen(context.Background(), "tcp", address)
}

// serverConn is a client's connection, as a [door] lets it in: whatever a server calls a connection is one. To close
// one from which not everything was read would reset it, and a reset may take the answer away from a client that has
// not read it yet; so such an end is made in two steps.
type serverConn struct {
	tcp    *net.TCPConn
	secure *netconn.TLSConn // over tcp; nil on a plain listener
	keepAlive
	tlsState              // how TLS begins
	received  atomic.Bool // something has come
	lingers   atomic.Bool // Close waits for what still comes
	shortBody []byte      // holds short bodies, one after another
	framing   httpguard.Framing
}

// Read notes that something has come.
func (c *serverConn) Read(p []byte) (int, error) {
	if c.secure != nil && !c.established {
		if err := c.handshake(); err != nil {
			return 0, err
		}
	}
	if c.framing.Broken() {
		return 0, errFraming
	}
	n, err := c.readUntilIdle(p)
	if n > 0 && !c.received.Load() {
		c.received.Store(true)
	}
	if passed := c.framing.Advance(p[:n]); passed < n {
		return passed, errFraming // with the next read, too
	}
	return n, err
}

// errFraming ends a connection on which something came that another server might read otherwise than ours does.
var errFraming = errors.New("request is not framed as it must be")

// read reads what the client has said, or before the end of the handshake what it has sent.
func (c *serverConn) read(p []byte) (int, error) {
	if !c.established {
		return c.tcp.Read(p)
	}
	n, err := c.secure.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF // many clients leave without a word, and what they have not finished shows by itself
	}
	if n == 0 && errors.Is(err, io.EOF) && c.deadlinePassed() {
		err = os.ErrDeadlineExceeded // as below TLS, which tells of an end again and again: see intake.checkEnd
	}
	return n, err
}

func (c *serverConn) Write(p []byte) (int, error) {
	if c.secure != nil {
		return c.secure.Write(p)
	}
	return c.tcp.Write(p)
}

// CloseWrite says that nothing more will be sent.
func (c *serverConn) CloseWrite() error {
	if c.secure != nil {
		return c.secure.CloseWrite()
	}
	return c.tcp.CloseWrite()
}

// Close says that nothing more will be sent, takes what still comes until the client has closed too or its time is
// over, and closes.
func (c *serverConn) Close() error {
	defer c.listener.unregister(c)
	c.idleSince.Store(0)
	if c.lingers.CompareAndSwap(true, false) && c.CloseWrite() == nil {
		c.drainInput(time.Now().Add(lingerTime))
	}
	if c.secure != nil {
		return c.secure.Close()
	}
	return c.tcp.Close()
}

func (c *serverConn) LocalAddr() net.Addr  { return c.tcp.LocalAddr() }
func (c *serverConn) RemoteAddr() net.Addr { return c.tcp.RemoteAddr() }

// SyscallConn returns the socket, at which the [Watcher] sees that the client has gone.
func (c *serverConn) SyscallConn() (syscall.RawConn, error) { return c.tcp.SyscallConn() }

// SetReadDeadline keeps the deadline in mind too.
func (c *serverConn) SetReadDeadline(t time.Time) error {
	c.storeDeadline(t)
	return c.tcp.SetReadDeadline(t)
}

// SetWriteDeadline must not run out but for a connection that is to end: with TLS, nothing can be written after it.
func (c *serverConn) SetWriteDeadline(t time.Time) error {
	if c.secure != nil {
		return c.secure.SetWriteDeadline(t)
	}
	return c.tcp.SetWriteDeadline(t)
}

// SetDeadline sets both.
func (c *serverConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *serverConn) drainInput(until time.Time) {
	var drain [4 << 10]byte
	for {
		now := time.Now()
		deadline := now.Add(lingerSilence)
		if deadline.After(until) {
			deadline = until
		}
		if !now.Before(until) || c.SetReadDeadline(deadline) != nil {
			return
		}
		if _, err := c.tcp.Read(drain[:]); err != nil {
			return
		}
	}
}

// LingerOnClose makes a client's connection close in two steps, since not everything was read from it: a reset could take the
// answer away.
func LingerOnClose(c net.Conn) {
	if client, ok := c.(*serverConn); ok { // and not what a test relays to
		client.lingers.Store(true)
	}
}

// TruncateOnClose keeps TLS from sending close_notify on a client's connection, which the client would take for the answer's end.
func TruncateOnClose(c net.Conn) {
	if client, ok := c.(*serverConn); ok && client.secure != nil {
		client.secure.Poison()
	}
}

// shortBodyBuffer returns memory for a body that is used no longer than until the next request on the same connection.
func shortBodyBuffer(c net.Conn, length int) []byte {
	client := c.(*serverConn)
	if cap(client.shortBody) < length {
		client.shortBody = make([]byte, length, max(length, 1<<10))
	}
	return client.shortBody[:length]
}

// neverSent says that a client has not sent anything, ever.
func neverSent(c net.Conn) bool { return !c.(*serverConn).received.Load() }
