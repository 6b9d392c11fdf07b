package server

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/netconn"
)

// keepAlive closes a connection between two requests when its server drains, at a time when its client is least likely to send
// another request: after the client has been silent for the listener's idleLimit.
//
//	accepted ──→ idle ──→ active: a request, or a TLS handshake ──→ idle …
//	              │ idleLimit is set, and the client has been silent for so long
//	              └──→ readUntilIdle returns io.EOF ──→ fasthttp calls Close, which lingers
//
// Close sends FIN and discards input for a while. A request that crosses the FIN is lost, but without a reset: its client sees a
// connection that ended before a response, and may send the request again.
//
// Only the connection's own goroutine reads. It blocks until its deadline, so closeGracefully wakes it: wake moves the deadline
// into the past, and readUntilIdle then computes the next one. A connection must not be woken during a TLS handshake, which could
// not be resumed; waking orders the two.
type keepAlive struct {
	listener     *listener
	idleSince    atomic.Int64 // time by listener.nanosOf since which the connection is idle; 0 = it is active
	readDeadline atomic.Int64 // fasthttp's deadline, likewise; 0 = none
	woken        atomic.Bool  // wake has replaced the deadline
	lastRequest  atomic.Int64 // when the last request was answered, or the next one's head began, likewise; 0 = it is being served

	waking sync.Mutex // held by wake, and by setActive
}

// onConnState follows the requests of a connection. fasthttp calls it.
func onConnState(nc net.Conn, state fasthttp.ConnState) {
	c := nc.(*serverConn)
	if c.linked != nil {
		return // a stream has one request, and ends
	}
	switch state {
	case fasthttp.StateNew: // idle since it was accepted
	case fasthttp.StateIdle:
		now := c.listener.nanosNow()
		c.idleSince.Store(now)
		c.lastRequest.Store(now)
	case fasthttp.StateActive: // a head begins
		c.idleSince.Store(0)
		c.lastRequest.Store(c.listener.nanosNow())
	case fasthttp.StateHijacked: // active before, and if it was for a stream, perhaps idle by now
	default:
		c.idleSince.Store(0)
	}
}

// noteRequest notes that a whole head has arrived.
func (c *serverConn) noteRequest() { c.lastRequest.Store(0) }

// withoutRequestSince returns since when the connection has had no request, or 0 while it has one. It counts anew when a head begins.
func (c *serverConn) withoutRequestSince() int64 { return c.lastRequest.Load() }

// idleDeadline returns when the connection closes unless its client sends something, and whether it may close.
func (c *serverConn) idleDeadline() (time.Time, bool) {
	quiet, since := c.listener.idleLimit.Load(), c.idleSince.Load()
	if quiet == 0 || since == 0 {
		return time.Time{}, false
	}
	deadline, earliest := c.listener.timeOf(since+quiet), time.Now().Add(time.Millisecond) // input that has arrived is read before it
	if deadline.Before(earliest) {
		deadline = earliest
	}
	return deadline, true
}

// wake makes an idle connection compute its deadline again.
func (c *serverConn) wake() {
	c.waking.Lock()
	defer c.waking.Unlock()
	if c.idleSince.Load() != 0 {
		c.woken.Store(true)
		_ = c.tcp.SetReadDeadline(netconn.PastDeadline())
	}
}

// setActive makes the connection active, and restores fasthttp's deadline: it is not woken from now on.
func (c *serverConn) setActive() {
	c.waking.Lock()
	defer c.waking.Unlock()
	c.idleSince.Store(0)
	c.woken.Store(false)
	c.restoreDeadline()
}

// noteBytes restarts the silence, for encrypted bytes that are not a whole record yet. With TLS it is called for each read.
func (c *serverConn) noteBytes() {
	if since := c.idleSince.Load(); since != 0 {
		c.idleSince.CompareAndSwap(since, max(since, c.listener.nanosNow())) // since may lie in the future: see restartIdle
	}
}

// readUntilIdle reads, and returns io.EOF when the connection is to close. A read that timed out is handled in this order: the
// connection was woken, so try again with the new deadline; bytes have arrived since the deadline was computed, likewise; the
// client was silent.
func (c *serverConn) readUntilIdle(p []byte) (int, error) {
	for {
		deadline, mayClose := c.idleDeadline()
		if mayClose {
			_ = c.tcp.SetReadDeadline(deadline)
		}
		n, err := c.readNow(p)
		timedOut := n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
		switch {
		case timedOut && c.woken.Swap(false):
			c.restoreDeadline()
		case timedOut && mayClose && c.stillActive(deadline):
		case timedOut && mayClose:
			c.lingers.Store(true)
			return 0, io.EOF
		case mayClose:
			c.restoreDeadline()
			return n, err
		default:
			return n, err
		}
	}
}

// stillActive reports whether bytes have arrived since deadline was computed, and fasthttp's own deadline has not passed.
func (c *serverConn) stillActive(deadline time.Time) bool {
	later, mayClose := c.idleDeadline()
	if !mayClose || time.Until(later) <= 2*time.Millisecond || !later.After(deadline) {
		return false
	}
	return !c.deadlinePassed()
}

// restoreDeadline puts fasthttp's own deadline back in force.
func (c *serverConn) restoreDeadline() {
	var deadline time.Time
	if n := c.readDeadline.Load(); n != 0 {
		deadline = c.listener.timeOf(n)
	}
	_ = c.tcp.SetReadDeadline(deadline)
}

// deadlinePassed reports whether fasthttp's own deadline has passed.
func (c *serverConn) deadlinePassed() bool {
	n := c.readDeadline.Load()
	return n != 0 && !time.Now().Before(c.listener.timeOf(n))
}

func (c *serverConn) storeDeadline(t time.Time) {
	if t.IsZero() {
		c.readDeadline.Store(0)
		return
	}
	c.readDeadline.Store(c.listener.nanosOf(t))
}
