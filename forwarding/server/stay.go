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

// stay is what a client's connection knows of its server's end: it leaves between two requests, and only after it has
// been silent for a while, which is when its client is least likely to send another one. Then it says that nothing more
// will be sent, and takes what still comes for a moment, so that a request that crosses that word is lost without a
// reset: its client sees a connection that ended before an answer began, and may send it again.
type stay struct {
	door  *door
	waits atomic.Int64 // since when it waits for a request, by [door.since]; 0 = it has one
	limit atomic.Int64 // the deadline for reading that the server has set, likewise; 0 = none
	woken atomic.Bool  // its deadline is not that one

	waking sync.Mutex // held while it is woken, or is becoming one that must not be
}

// turn follows a connection from request to request.
func turn(nc net.Conn, state fasthttp.ConnState) {
	c := nc.(*clientConn)
	switch state {
	case fasthttp.StateNew: // it has waited since it was accepted
	case fasthttp.StateIdle:
		c.waits.Store(c.door.now())
	default:
		c.waits.Store(0)
	}
}

// leavesBy says when the connection leaves, if it may.
func (c *clientConn) leavesBy() (time.Time, bool) {
	quiet, since := c.door.leave.Load(), c.waits.Load()
	if quiet == 0 || since == 0 {
		return time.Time{}, false
	}
	by, soon := c.door.at(since+quiet), time.Now().Add(time.Millisecond) // else what has arrived would not be read
	if by.Before(soon) {
		by = soon
	}
	return by, true
}

// wake makes a connection that waits for a request look whether it is to leave.
func (c *clientConn) wake() {
	c.waking.Lock()
	defer c.waking.Unlock()
	if c.waits.Load() != 0 {
		c.woken.Store(true)
		_ = c.tcp.SetReadDeadline(netconn.LongAgo())
	}
}

// stopWaiting makes a connection one that has something to do, and puts the server's own deadline in force: from here
// on it is not woken.
func (c *clientConn) stopWaiting() {
	c.waking.Lock()
	defer c.waking.Unlock()
	c.waits.Store(0)
	c.woken.Store(false)
	c.restore()
}

// came notes that something has come of what is not yet a request, as with TLS: that is no silence.
func (c *clientConn) came() {
	if since := c.waits.Load(); since != 0 {
		c.waits.CompareAndSwap(since, max(since, c.door.now())) // it may have been given more time
	}
}

// readOrLeave reads, or ends the stream of requests.
func (c *clientConn) readOrLeave(p []byte) (int, error) {
	for {
		by, leaves := c.leavesBy()
		if leaves {
			_ = c.tcp.SetReadDeadline(by)
		}
		n, err := c.read(p)
		late := n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
		switch {
		case late && c.woken.Swap(false):
			c.restore()
		case late && leaves && c.isDripping(by):
		case late && leaves:
			c.lingers.Store(true)
			return 0, io.EOF
		case leaves:
			c.restore()
			return n, err
		default:
			return n, err
		}
	}
}

// isDripping says that a connection that was to leave has not been silent since, and that its time is not over.
func (c *clientConn) isDripping(by time.Time) bool {
	later, leaves := c.leavesBy()
	if !leaves || time.Until(later) <= 2*time.Millisecond || !later.After(by) {
		return false
	}
	limit := c.limit.Load()
	return limit == 0 || time.Now().Before(c.door.at(limit))
}

// restore puts the server's own deadline back.
func (c *clientConn) restore() {
	var deadline time.Time
	if limit := c.limit.Load(); limit != 0 {
		deadline = c.door.at(limit)
	}
	_ = c.tcp.SetReadDeadline(deadline)
}

// isLate says that the server's deadline for reading has passed.
func (c *clientConn) isLate() bool {
	limit := c.limit.Load()
	return limit != 0 && !time.Now().Before(c.door.at(limit))
}

func (c *clientConn) keep(t time.Time) {
	if t.IsZero() {
		c.limit.Store(0)
		return
	}
	c.limit.Store(c.door.since(t))
}
