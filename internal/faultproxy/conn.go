package faultproxy

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// connectTimeout bounds the connect to the server.
	connectTimeout = 30 * time.Second
	// cutLinger is how long a cut connection still reads what its ends send: an end that closes with unread bytes would get an RST.
	cutLinger = time.Second
)

// conn is a connection of a client, and the one to the server that belongs to it.
type conn struct {
	client *net.TCPConn
	ended  chan struct{} // closed when both connections have been closed

	mu     sync.Mutex   // guards the fields below, and those of the pipes
	server *net.TCPConn // nil until it is connected
	pipes  [2]*pipe     // to the server, to the client
	quiet  bool         // healed, but stays open until one of its ends has closed it
	done   bool
}

func newConn(client *net.TCPConn, delay time.Duration, faults []Fault) *conn {
	c := &conn{client: client, ended: make(chan struct{})}
	for i, way := range []Way{ToServer, ToClient} {
		c.pipes[i] = newPipe(c, way, delay)
	}
	for _, f := range faults {
		c.inject(f)
	}
	return c
}

// serve connects to the server, and carries bytes until the connection has ended.
func (c *conn) serve(ctx context.Context, target string) {
	defer c.end(false)
	if c.swallowsAll() { // also the connect
		_, _ = io.Copy(io.Discard, c.client)
		return
	}
	dialer := net.Dialer{Timeout: connectTimeout}
	server, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		c.end(true)
		return
	}
	if !c.begin(server.(*net.TCPConn)) {
		return
	}
	var running sync.WaitGroup
	for _, p := range c.pipes {
		running.Go(p.read)
		running.Go(p.write)
	}
	running.Wait()
}

// swallowsAll reports whether a new connection loses all bytes in both directions.
func (c *conn) swallowsAll() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pipes {
		if !p.swallowsAllLocked() {
			return false
		}
	}
	return true
}

// begin takes the connection to the server. It reports false if the connection has ended.
func (c *conn) begin(server *net.TCPConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		_ = server.Close()
		return false
	}
	c.server = server
	c.pipes[0].from, c.pipes[0].to = c.client, server
	c.pipes[1].from, c.pipes[1].to = server, c.client
	for _, p := range c.pipes {
		p.beginFaultsLocked()
	}
	return !c.done
}

// inject has a fault on this connection.
func (c *conn) inject(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pipes {
		if f.holdsFor(p.way) {
			p.pending = append(p.pending, f)
			p.beginFaultsLocked()
		}
	}
}

// heal ends the faults.
func (c *conn) heal(delay time.Duration, quietly bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lost := false
	for _, p := range c.pipes {
		lost = lost || p.lost
		p.healLocked(delay)
	}
	switch {
	case !lost:
	case quietly:
		c.quiet = true
		c.settleLocked()
	default:
		c.endLocked(false)
	}
}

// cutLocked has both ends get a FIN.
func (c *conn) cutLocked() {
	for _, p := range c.pipes {
		p.shutLocked()
		_ = p.from.SetReadDeadline(time.Now().Add(cutLinger))
	}
}

// settleLocked closes the connection if no more can come in either direction.
func (c *conn) settleLocked() {
	settled := true
	for _, p := range c.pipes {
		settled = settled && p.eof && p.shut
		if p.eof && p.lost && c.quiet {
			settled = true
			break
		}
	}
	if settled {
		c.endLocked(false)
	}
}

// end closes the connection, by an RST if reset.
func (c *conn) end(reset bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(reset)
}

func (c *conn) endLocked(reset bool) {
	if c.done {
		return
	}
	c.done = true
	for _, one := range []*net.TCPConn{c.client, c.server} {
		if one == nil {
			continue
		}
		if reset {
			_ = one.SetLinger(0)
		}
		_ = one.Close()
	}
	close(c.ended)
}
