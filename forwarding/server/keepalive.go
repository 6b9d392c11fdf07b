package server

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/forwarding/netconn"

	"github.com/valyala/fasthttp"
)

// keepAlive is what a client's connection knows of its server's end: it leaves between two requests, and only after it has
// been silent for a while, which is when its client is least likely to send another one. Then it says that nothing more
// will be sent, and takes what still comes for a moment, so that a request that crosses that word is lost without a
// reset: its client sees a connection that ended before an answer began, and may send it again.
type keepAlive struct {
	listener     *listener
	idleSince    atomic.Int64 // since when it waits for a request, by [door.since]; 0 = it has one
	readDeadline atomic.Int64 // the deadline for reading that the server has set, likewise; 0 = none
	woken        atomic.Bool  // its deadline is not that one

	waking sync.Mutex // held while it is woken, or is becoming one that must not be
}

// onConnState follows a connection from request to request.
func onConnState(nc net.Conn, state fasthttp.ConnState) {
	c := nc.(*serverConn)
	switch state {
	case fasthttp.StateNew: // it has waited since it was accepted
	case fasthttp.StateIdle:
		c.idleSince.Store(c.listener.nanosNow())
	default:
		c.idleSince.Store(0)
	}
}

// idleDeadline says when the connection leaves, if it may.
func (c *serverConn) idleDeadline() (time.Time, bool) {
	quiet, since := c.listener.idleLimit.Load(), c.idleSince.Load()
	if quiet == 0 || since == 0 {
		return time.Time{}, false
	}
	by, soon := c.listener.timeOf(since+quiet), time.Now().Add(time.Millisecond) // else what has arrived would not be read
	if by.Before(soon) {
		by = soon
	}
	return by, true
}

// wake makes a connection that waits for a request look whether it is to leave.
func (c *serverConn) wake() {
	c.waking.Lock()
	defer c.waking.Unlock()
	if c.idleSince.Load() != 0 {
		c.woken.Store(true)
		_ = c.tcp.SetReadDeadline(netconn.PastDeadline())
	}
}

// setActive makes a connection one that has something to do, and puts the server's own deadline in force: from here
// on it is not woken.
func (c *serverConn) setActive() {
	c.waking.Lock()
	defer c.waking.Unlock()
	c.idleSince.Store(0)
	c.woken.Store(false)
	c.restoreDeadline()
}

// noteBytes notes that something has come of what is not yet a request, as with TLS: that is no silence.
func (c *serverConn) noteBytes() {
	if since := c.idleSince.Load(); since != 0 {
		c.idleSince.CompareAndSwap(since, max(since, c.listener.nanosNow())) // it may have been given more time
	}
}

// readUntilIdle reads, or ends the stream of requests.
func (c *serverConn) readUntilIdle(p []byte) (int, error) {
	for {
		by, leaves := c.idleDeadline()
		if leaves {
			_ = c.tcp.SetReadDeadline(by)
		}
		n, err := c.read(p)
		late := n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
		switch {
		case late && c.woken.Swap(false):
			c.restoreDeadline()
		case late && leaves && c.stillActive(by):
		case late && leaves:
			c.lingers.Store(true)
			return 0, io.EOF
		case leaves:
			c.restoreDeadline()
			return n, err
		default:
			return n, err
		}
	}
}

// stillActive says that a connection that was to leave has not been silent since, and that its time is not over.
func (c *serverConn) stillActive(by time.Time) bool {
	later, leaves := c.idleDeadline()
	if !leaves || time.Until(later) <= 2*time.Millisecond || !later.After(by) {
		return false
	}
	limit := c.readDeadline.Load()
	return limit == 0 || time.Now().Before(c.listener.timeOf(limit))
}

// restoreDeadline puts the server's own deadline back.
func (c *serverConn) restoreDeadline() {
	var deadline time.Time
	if limit := c.readDeadline.Load(); limit != 0 {
		deadline = c.listener.timeOf(limit)
	}
	_ = c.tcp.SetReadDeadline(deadline)
}

// deadlinePassed says that the server's deadline for reading has passed.
func (c *serverConn) deadlinePassed() bool {
	limit := c.readDeadline.Load()
	return limit != 0 && !time.Now().Before(c.listener.timeOf(limit))
}

func (c *serverConn) storeDeadline(t time.Time) {
	if t.IsZero() {
		c.readDeadline.Store(0)
		return
	}
	c.readDeadline.Store(c.listener.nanosOf(t))
}
