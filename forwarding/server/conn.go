package server

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"colonnade/forwarding/httpguard"
	"colonnade/forwarding/link"
	"colonnade/forwarding/netconn"
)

const (
	// lingerTime bounds the time in which Close discards the input of a client that still sends, lingerSilence that of one that has
	// stopped.
	lingerTime    = 5 * time.Second
	lingerSilence = time.Second
	// FinalWriteTimeout bounds the write of the end of a response that this node cancels.
	FinalWriteTimeout = time.Second
)

// serverConn is a client's connection, and the only [net.Conn] that fasthttp sees. It is a socket, or a stream of a link: see newStreamConn. Reads
// pass through, from the socket upwards:
//
//	tcp → tlsConn (after handshake) → readUntilIdle (keepAlive) → framing
//
// A close with unread input resets a connection, and the reset may discard a response that the client has not read yet. So after
// LingerOnClose, Close first closes the write half and discards input for a while.
type serverConn struct {
	lower   net.Conn         // tcp or linked
	tcp     *netconn.Socket  // nil for a stream
	tlsConn *netconn.TLSConn // over tcp; nil without TLS
	linked  *link.Stream     // nil for a socket
	watched watchedConn
	keepAlive
	tlsState
	received  atomic.Bool // a byte has arrived
	lingers   atomic.Bool // see LingerOnClose
	shortBody []byte      // memory for short bodies, one at a time
	framing   httpguard.Framing
	// keptOpen is how many calls of Close have no effect: fasthttp closes a connection that was hijacked once it has taken its memory back.
	keptOpen  atomic.Int32
	stream    *stream // that the handler wants written, or nil
	readAhead []byte  // that fasthttp had read before a stream, and passed through framing
	between   bool    // a stream has ended, and nothing was read since
}

// Read returns what follows a request. Between two requests, a connection ends without a response; fasthttp does not know that a stream was
// written since it has begun to serve the connection.
func (c *serverConn) Read(p []byte) (int, error) {
	if !c.between {
		return c.readInput(p)
	}
	c.between = false
	n, err := c.readInput(p)
	if n == 0 && err != nil && !errors.Is(err, errFraming) {
		return 0, io.EOF
	}
	_ = c.SetReadDeadline(time.Now().Add(readTimeout))
	return n, err
}

// readInput performs the TLS handshake first. It returns [io.EOF] when the connection ends for a drain, and fails for good at malformed
// framing.
func (c *serverConn) readInput(p []byte) (int, error) {
	if len(c.readAhead) > 0 {
		n := copy(p, c.readAhead)
		c.readAhead = c.readAhead[n:]
		return n, nil
	}
	if c.tlsConn != nil && !c.established {
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
	if framed := c.framing.Advance(p[:n]); framed < n {
		return framed, errFraming
	}
	return n, err
}

// errFraming ends a connection whose requests another server could read differently.
var errFraming = errors.New("malformed framing")

// readNow reads without regard to a drain; before the handshake it reads encrypted bytes.
func (c *serverConn) readNow(p []byte) (int, error) {
	if !c.established {
		return c.lower.Read(p)
	}
	n, err := c.tlsConn.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF // many clients close without close_notify, and an unfinished request is found by its own framing
	}
	if n == 0 && errors.Is(err, io.EOF) && c.deadlinePassed() {
		err = os.ErrDeadlineExceeded // as a TCP connection returns it, unlike TLS, which repeats its io.EOF: see bodyReader.checkEnd
	}
	return n, err
}

func (c *serverConn) Write(p []byte) (int, error) {
	if c.tlsConn != nil {
		return c.tlsConn.Write(p)
	}
	return c.lower.Write(p)
}

// NewTryWriter returns a writer to a client's connection that does not wait; nil with TLS, and for any other connection.
func NewTryWriter(c net.Conn) *netconn.TryWriter {
	client, ok := c.(*serverConn)
	switch {
	case !ok || client.tlsConn != nil:
		return nil
	case client.linked != nil:
		return netconn.NewStreamTryWriter(client.linked)
	}
	return netconn.NewTryWriter(client.tcp)
}

// NewRoomProbe returns a probe of what a client's connection takes; nil for any other connection.
func NewRoomProbe(c net.Conn) *netconn.RoomProbe {
	client, ok := c.(*serverConn)
	switch {
	case !ok:
		return nil
	case client.linked != nil:
		return netconn.NewStreamRoomProbe(client.linked)
	}
	return netconn.NewRoomProbe(client.tcp)
}

// CloseWrite closes the write half, with TLS after close_notify.
func (c *serverConn) CloseWrite() error {
	switch {
	case c.tlsConn != nil:
		return c.tlsConn.CloseWrite()
	case c.linked != nil:
		return c.linked.CloseWrite()
	}
	return c.tcp.CloseWrite()
}

// Close closes the connection, in two steps after LingerOnClose.
func (c *serverConn) Close() error {
	if c.staysOpen() {
		return nil
	}
	if c.linked != nil {
		return c.linked.Close()
	}
	defer c.listener.unregister(c)
	c.watched.watcher.forget(&c.watched)
	c.idleSince.Store(0)
	if c.lingers.CompareAndSwap(true, false) && c.CloseWrite() == nil {
		c.discardInput(time.Now().Add(lingerTime))
	}
	if c.tlsConn != nil {
		return c.tlsConn.Close()
	}
	return c.tcp.Close()
}

// staysOpen reports whether a call of Close has no effect. Of the calls of fasthttp and of the goroutine that has the connection, either one
// may come first, and the last one closes.
func (c *serverConn) staysOpen() bool {
	for n := c.keptOpen.Load(); n > 0; n = c.keptOpen.Load() {
		if c.keptOpen.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

// discardInput reads until the client has closed or been silent for lingerSilence, at most until the given time.
func (c *serverConn) discardInput(until time.Time) {
	var discarded [4 << 10]byte
	for {
		now := time.Now()
		deadline := now.Add(lingerSilence)
		if deadline.After(until) {
			deadline = until
		}
		if !now.Before(until) || c.SetReadDeadline(deadline) != nil {
			return
		}
		if _, err := c.tcp.Read(discarded[:]); err != nil {
			return
		}
	}
}

func (c *serverConn) LocalAddr() net.Addr  { return c.lower.LocalAddr() }
func (c *serverConn) RemoteAddr() net.Addr { return c.lower.RemoteAddr() }

// SetReadDeadline sets the deadline, which a drain may replace by an earlier one while the connection is idle.
func (c *serverConn) SetReadDeadline(t time.Time) error {
	if c.between {
		t = time.Now().Add(keepAliveTimeout) // fasthttp takes the connection for a new one
	}
	c.storeDeadline(t)
	return c.lower.SetReadDeadline(t)
}

// SetWriteDeadline sets the deadline of writes. With TLS, nothing can be written after it has passed.
func (c *serverConn) SetWriteDeadline(t time.Time) error {
	if c.tlsConn != nil {
		return c.tlsConn.SetWriteDeadline(t)
	}
	return c.lower.SetWriteDeadline(t)
}

// SetDeadline sets both deadlines.
func (c *serverConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// LingerOnClose makes the close of a client's connection wait until its input has been discarded, so that the client gets the
// response. It has no effect on other connections, nor on a stream, whose end does not overtake the response.
func LingerOnClose(c net.Conn) {
	if client, ok := c.(*serverConn); ok {
		client.lingers.Store(true)
	}
}

// TruncateOnClose makes the close of a client's connection show that the response is not complete: it prevents close_notify with TLS, and resets a
// stream behind what was written.
func TruncateOnClose(c net.Conn) {
	client, ok := c.(*serverConn)
	switch {
	case !ok:
	case client.linked != nil:
		client.linked.Abort()
	case client.tlsConn != nil:
		client.tlsConn.Poison()
	}
}

// shortBodyBuffer returns memory for a body, which is valid until the next request of the same connection.
func shortBodyBuffer(c net.Conn, length int) []byte {
	client := c.(*serverConn)
	if cap(client.shortBody) < length {
		client.shortBody = make([]byte, length, max(length, 1<<10))
	}
	return client.shortBody[:length]
}

// neverSent reports whether no byte has arrived on a client's connection.
func neverSent(c net.Conn) bool { return !c.(*serverConn).received.Load() }
