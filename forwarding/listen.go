package forwarding

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

const (
	// lingerTime is how long a connection's end waits for a client that still sends, and lingerSilence for one that has
	// stopped.
	lingerTime    = 5 * time.Second
	lingerSilence = time.Second
)

// Listen listens on address, for [Server.Serve].
func Listen(address string) (net.Listener, error) {
	config := net.ListenConfig{}
	config.SetMultipathTCP(false) // such a listener knows nothing of [turnAway], and connections would fall back to TCP anyway
	return config.Listen(context.Background(), "tcp", address)
}

// clientConn is a client's connection, as a [door] lets it in: whatever a server calls a connection is one. To close one from which not everything was read would reset it, and a reset may
// take the answer away from a client that has not read it yet; so such an end is made in two steps.
type clientConn struct {
	*net.TCPConn
	stay
	heard   atomic.Bool // something has come
	lingers atomic.Bool // Close waits for what still comes
	short   []byte      // holds short bodies, one after another
}

// Read notes that something has come.
func (c *clientConn) Read(p []byte) (int, error) {
	n, err := c.readOrLeave(p)
	if n > 0 && !c.heard.Load() {
		c.heard.Store(true)
	}
	return n, err
}

// Close says that nothing more will be sent, takes what still comes until the client has closed too or its time is over,
// and closes.
func (c *clientConn) Close() error {
	defer c.door.closed(c)
	c.waits.Store(0)
	if c.lingers.CompareAndSwap(true, false) && c.CloseWrite() == nil {
		c.drain(time.Now().Add(lingerTime))
	}
	return c.TCPConn.Close()
}

func (c *clientConn) drain(until time.Time) {
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
		if _, err := c.TCPConn.Read(drain[:]); err != nil {
			return
		}
	}
}

// lingerOn makes the coming end of a connection gentle, of which not everything was read.
func lingerOn(c net.Conn) {
	if client, ok := c.(*clientConn); ok { // and not what a test relays to
		client.lingers.Store(true)
	}
}

// shortBody returns memory for a body that is used no longer than until the next request on the same connection.
func shortBody(c net.Conn, length int) []byte {
	client := c.(*clientConn)
	if cap(client.short) < length {
		client.short = make([]byte, length, max(length, 1<<10))
	}
	return client.short[:length]
}

// isSilent says that a client has not sent anything, ever.
func isSilent(c net.Conn) bool { return !c.(*clientConn).heard.Load() }
