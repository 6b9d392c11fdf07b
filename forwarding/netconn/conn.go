package netconn

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/forwarding/link"
)

const (
	// SocketBuffer is the size in bytes to request for a socket's buffers; the kernel doubles it. With the kernel's default,
	// megabytes of a response would be buffered for a reader that stalls.
	SocketBuffer = 128 << 10
	// WriteStall is how long a write may make no progress before the other side counts as gone.
	WriteStall = 30 * time.Second
	// writePiece is the number of bytes that share one write deadline.
	writePiece = 64 << 10
)

// PastDeadline returns a deadline in the past. Setting it wakes the goroutine that reads or writes.
func PastDeadline() time.Time { return time.Unix(1, 0) }

// Conn is a TCP connection, with or without TLS, or a stream of a link, whose deadlines roll forward. One goroutine may read while another one writes;
// Cancel may be called by any goroutine.
type Conn struct {
	net.Conn
	socket *Socket      // below Conn; nil with a stream
	tls    *TLSConn     // nil without TLS
	stream *link.Stream // nil with a socket
	wraps  bool         // Conn is that of Wrap

	ReadAhead   []byte               // returned by Read before anything from the connection
	IdleTimeout time.Duration        // longest time for one Read; 0 = no limit
	Deadline    time.Time            // deadline of all reads; zero = none
	Tick        func() time.Duration // called while Read waits; returns when to be called next; nil = never
	Received    *atomic.Bool         // set when bytes have been read from the connection; nil = not
	Pump        *Pump                // for PollShared; nil = none
	Flusher     *link.Flusher        // called after each step of Poll; nil = none

	cancelled    atomic.Bool
	moving       sync.Mutex // held while the pump takes or returns the connection, and by Cancel
	poller       poller
	*socketState // nil with a stream, and on a Conn of Wrap
}

// socketState is needed only over a socket. A Conn over a stream does without: each waiting request has one.
type socketState struct {
	unread unread
	asker  asker
	oob    [oobSize]byte // for receive
}

// New returns a Conn over socket, or over secure, which lies over socket; secure is nil without TLS.
func New(socket *Socket, secure *TLSConn) *Conn {
	both := new(struct {
		Conn
		own socketState
	})
	c := &both.Conn
	c.Conn, c.socket, c.tls, c.socketState = socket, socket, secure, &both.own
	c.poller.oob = &c.oob
	if secure != nil {
		c.Conn = secure
	}
	c.unread.receive = c.unread.from
	if secure == nil {
		announceRest(socket)
	}
	return c
}

// Wrap returns a Conn that reads and writes through outer, which lies over socket and, unless it is nil, secure.
func Wrap(outer net.Conn, socket *Socket, secure *TLSConn) *Conn {
	return &Conn{Conn: outer, socket: socket, tls: secure, wraps: true}
}

// PeerExpires returns when the certificate of the other side expires, or zero without TLS.
func (c *Conn) PeerExpires() time.Time {
	if c.tls == nil {
		return time.Time{}
	}
	certificates := c.tls.Conn().ConnectionState().PeerCertificates
	if len(certificates) == 0 {
		return time.Time{}
	}
	return certificates[0].NotAfter
}

// Cancel makes current and later reads and writes fail with [ErrCancelled]. The order matters: Cancel sets the flag before the
// deadline, and Read and WriteWithin move the deadline before they check the flag, so they notice one of the two.
func (c *Conn) Cancel() {
	c.cancelled.Store(true)
	c.moving.Lock()
	defer c.moving.Unlock()
	c.poller.wake()
	_ = c.SetDeadline(PastDeadline())
}

// ErrCancelled is returned by reads and writes after [Conn.Cancel].
var ErrCancelled = errors.New("exchange was cancelled")

// Cancelled reports whether Cancel has been called.
func (c *Conn) Cancelled() bool { return c.cancelled.Load() }

// Read moves the read deadline forward, then reads.
func (c *Conn) Read(p []byte) (int, error) {
	if len(c.ReadAhead) > 0 {
		n := copy(p, c.ReadAhead)
		c.ReadAhead = c.ReadAhead[n:]
		return n, nil
	}
	if c.poller.active {
		n, err := c.poller.receive(p)
		c.noteReceived(n)
		return n, err
	}
	if c.poller.failure != nil {
		return 0, c.poller.failure
	}
	deadline := c.nextReadLimit()
	for {
		wake := c.nextTick()
		woken := !wake.IsZero() && (deadline.IsZero() || wake.Before(deadline))
		if !woken {
			wake = deadline
		}
		if err := c.moveReadDeadline(wake); err != nil {
			return 0, err
		}
		n, err := c.Conn.Read(p)
		if n == 0 && woken && errors.Is(err, os.ErrDeadlineExceeded) {
			continue // only the tick was due
		}
		c.noteReceived(n)
		return n, err
	}
}

// moveReadDeadline sets the deadline of reads, and returns an error after Cancel.
func (c *Conn) moveReadDeadline(to time.Time) error {
	if err := c.SetReadDeadline(to); err != nil {
		return err
	}
	if c.cancelled.Load() { // after the deadline was moved: see Cancel
		return ErrCancelled
	}
	return nil
}

// noteReceived sets Received if n bytes were read. A load is cheaper than a store, which would slow the loads of other connections.
func (c *Conn) noteReceived(n int) {
	if n > 0 && c.Received != nil && !c.Received.Load() {
		c.Received.Store(true)
	}
}

// nextTick calls Tick, and returns when to call it again; zero means never.
func (c *Conn) nextTick() time.Time {
	if c.Tick == nil {
		return time.Time{}
	}
	return time.Now().Add(c.Tick())
}

// Linger closes the connection in two steps: it closes the write half, then waits for at most limit until the other side has
// closed too. Input is discarded. An engine stops generating when it sees the end of its request, so once it has closed, its
// slot is free.
func (c *Conn) Linger(limit time.Duration) {
	defer c.Close()
	c.AwaitClose(limit)
}

// AwaitClose closes the write half and waits, for at most limit, until the other side has closed too. It reports whether it has.
func (c *Conn) AwaitClose(limit time.Duration) bool {
	if limit <= 0 || c.CloseWrite() != nil {
		return false
	}
	until := time.Now().Add(limit)
	var drain [4 << 10]byte
	for time.Now().Before(until) {
		_ = c.SetReadDeadline(until)
		// A late Cancel moves the deadline once more, so a timeout alone does not end the wait.
		if _, err := c.Conn.Read(drain[:]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return true
		}
	}
	return false
}

// Abort makes the next Close reset the connection, so that the other side notices the end even if it does not read what was sent
// before.
func (c *Conn) Abort() {
	if c.stream != nil {
		c.stream.Abort()
		return
	}
	if c.tls != nil {
		c.tls.Poison()
	}
	_ = c.socket.tcp.SetLinger(0)
}

// CloseWrite closes the write half.
func (c *Conn) CloseWrite() error {
	switch {
	case c.stream != nil:
		return c.stream.CloseWrite()
	case c.tls != nil:
		return c.tls.CloseWrite()
	}
	return c.socket.CloseWrite()
}

// WriteWithin writes all of p: each piece of 64 KiB within stall, and everything by limit unless that is zero.
func (c *Conn) WriteWithin(p []byte, stall time.Duration, limit time.Time) (int, error) {
	for done := 0; ; {
		deadline := time.Now().Add(stall)
		if !limit.IsZero() && limit.Before(deadline) {
			deadline = limit
		}
		if err := c.SetWriteDeadline(deadline); err != nil {
			return done, err
		}
		// After the deadline was moved: see Cancel.
		if c.cancelled.Load() {
			return done, ErrCancelled
		}
		n, err := c.Conn.Write(p[done:min(done+writePiece, len(p))])
		if done += n; err != nil || done == len(p) {
			return done, err
		}
	}
}
