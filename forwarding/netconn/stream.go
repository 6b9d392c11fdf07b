package netconn

import (
	"errors"
	"net"
	"time"

	"colonnade/forwarding/link"
)

// NewOverStream returns a Conn over a stream of a link. If that is one of [link.Link.NewStream], Ask opens it.
func NewOverStream(s *link.Stream) *Conn { return &Conn{Conn: s, stream: s} }

// ReuseOver puts a Conn of NewOverStream over another stream. The Conn must have carried one whole exchange, without Poll and Cancel, and no goroutine may
// use it any more.
func (c *Conn) ReuseOver(s *link.Stream) {
	c.Conn, c.stream = s, s
	c.IdleTimeout, c.Deadline, c.Tick, c.Received = 0, time.Time{}, nil, nil
}

// WrapStream is Wrap for an outer that lies over a stream of a link.
func WrapStream(outer net.Conn, s *link.Stream) *Conn {
	return &Conn{Conn: outer, stream: s, wraps: true}
}

// Stream returns the stream below, or nil if there is a socket.
func (c *Conn) Stream() *link.Stream { return c.stream }

// askStream is [Conn.Ask] for a stream, which gets no other request.
func (c *Conn) askStream(request []byte, sent func()) (int, error) {
	if err := c.moveReadDeadline(c.nextReadLimit()); err != nil {
		return 0, err
	}
	err := c.stream.Open(request, true)
	sent()
	if err != nil {
		return 0, err
	}
	return len(request), c.stream.Await()
}

// pollStream is [Conn.Poll] for a stream.
func (c *Conn) pollStream(step func() bool) error {
	p := &c.poller
	p.step, p.stream, p.heard = step, c.stream, time.Now()
	defer func() { p.step, p.active = nil, false }() // after a panic, too
	for {
		before := p.heard
		more := p.callStep()
		c.Flusher.Flush()
		if !more {
			return nil
		}
		if p.heard != before {
			p.heard = time.Now() // the time that step took is no silence of the other side
		}
		if err := c.moveReadDeadline(c.readLimit(p.heard)); err != nil {
			return err
		}
		err := c.stream.Await()
		switch {
		case c.cancelled.Load():
			return ErrCancelled
		case err != nil:
			return err
		}
	}
}

// followStream is [Conn.PollShared] for a stream: the reader of the link calls step.
func (c *Conn) followStream(step func() bool) error {
	p := &c.poller
	c.moving.Lock()
	if p.woken == nil {
		p.woken = make(chan struct{}, 1)
	}
	c.moving.Unlock()
	p.mu.Lock()
	p.step, p.stream, p.heard, p.shared = step, c.stream, time.Now(), true
	p.mu.Unlock()
	c.stream.OnArrival(p.sharedStep)
	p.sharedStep() // for what has arrived before
	c.Flusher.Flush()
	err := c.awaitShared(nil)
	c.stream.OnArrival(nil)
	p.mu.Lock() // no step is under way then
	thrown := p.panic
	p.shared, p.active, p.step, p.panic = false, false, nil, nil
	p.mu.Unlock()
	if thrown != nil {
		panic(thrown)
	}
	return err
}

// receiveStream reads what has arrived.
func (p *poller) receiveStream(buf []byte) (int, error) {
	n, err := p.stream.TryRead(buf)
	if n > 0 {
		p.heard = time.Now()
	}
	if errors.Is(err, link.ErrWouldBlock) {
		err = ErrWouldBlock
	}
	return n, err
}
