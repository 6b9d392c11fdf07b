package netconn

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"colonnade/forwarding/link"
)

// ErrWouldBlock is returned by [Conn.Read] within [Conn.Poll] when nothing has arrived.
var ErrWouldBlock = errors.New("nothing to read has arrived")

// recheck bounds how long Poll relies on the kernel's word that nothing is left to read.
const recheck = time.Second

// poller is the state of [Conn.Poll] and [Conn.PollShared].
type poller struct {
	ready   func(fd uintptr) bool // method value of Conn.pollReady
	failure error                 // of Poll, for the next Read
	alone   int                   // how many more times the goroutine of PollShared calls step itself; 0 = always
	patient bool                  // the read deadline is that of the exchange; otherwise it comes after recheck at most
	due     bool                  // the connection is to be shared now

	mu      sync.Mutex // held by a shared step, and guards the fields below while shared
	active  bool       // the goroutine is in step
	shared  bool       // a pump calls step
	drained bool       // nothing is left in the socket
	ended   bool       // step has returned false
	step    func() bool
	stream  *link.Stream // instead of fd
	fd      int
	heard   time.Time // when bytes came last
	acks    acks
	panic   any // of a shared step
	woken   chan struct{}
	oob     *[oobSize]byte // points to socketState.oob; nil over a stream
}

// Poll calls step whenever there may be something to read, until step returns false. Within step, Read does not wait: it returns
// ErrWouldBlock, and step is to return true then. Poll saves what Read pays for each piece on a busy connection: a second read that
// finds nothing, before it waits, and a new deadline. step must neither close the connection nor start another Poll.
//
// IdleTimeout, Deadline and Cancel end Poll; the next Read returns the error. Over TLS, on a Conn of Wrap, and with a Tick, Poll returns at once.
func (c *Conn) Poll(step func() bool) {
	c.poller.alone = 0
	c.startPoll(step)
}

// PollShared is Poll for a step that never waits, not even to write. If the connection has a Pump, another goroutine calls step after a number of
// calls, and that for many connections. To move a socket there and back costs about as much as a few pieces.
func (c *Conn) PollShared(after int, step func() bool) {
	if c.stream != nil && c.CanPoll() {
		c.poller.failure = c.followStream(step)
		return
	}
	c.poller.alone = 0
	if c.Pump != nil {
		c.poller.alone = after
	}
	c.startPoll(step)
}

func (c *Conn) startPoll(step func() bool) {
	switch {
	case !c.CanPoll():
	case c.stream != nil:
		c.poller.failure = c.pollStream(step)
	default:
		c.poller.failure = c.poll(step)
	}
}

// CanPoll reports whether Poll has an effect.
func (c *Conn) CanPoll() bool { return c.tls == nil && !c.wraps && c.Tick == nil }

func (c *Conn) poll(step func() bool) error {
	p := &c.poller
	if p.ready == nil {
		p.ready = c.pollReady
	}
	p.step, p.heard, p.patient, p.ended, p.due = step, time.Now(), false, false, false
	defer func() { p.step, p.active = nil, false }() // after a panic, too
	for {
		if err := c.setPollDeadline(); err != nil {
			return err
		}
		err := c.socket.readWith(p.ready)
		switch {
		case p.ended:
			return nil
		case c.cancelled.Load():
			return ErrCancelled
		case p.due:
			p.due = false
			if err := c.share(); err != nil || p.ended {
				return err
			}
		case !errors.Is(err, os.ErrDeadlineExceeded) || p.patient && !time.Now().Before(c.readLimit(p.heard)):
			return err
		default:
			p.patient = true // what follows is a read, so nothing is missed
		}
	}
}

// pollReady is called by the runtime when bytes may have arrived. It returns whether to stop waiting.
func (c *Conn) pollReady(fd uintptr) bool {
	p := &c.poller
	p.fd = int(fd)
	heard := p.heard
	more := p.callStep()
	c.Flusher.Flush()
	if p.heard != heard {
		p.heard = time.Now() // the time that step took, to write to a slow client perhaps, is no silence of the other side
	}
	if !more {
		p.ended = true
		return true
	}
	if p.alone > 0 {
		if p.alone--; p.alone == 0 {
			p.due = true
			return true
		}
	}
	if p.patient && p.heard != heard {
		p.patient = false
		return c.setPollDeadline() != nil
	}
	return false
}

// callStep calls the step, and returns whether it wants more.
func (p *poller) callStep() bool {
	p.drained, p.active = false, true
	more := p.step()
	p.active = false
	return more
}

// receive reads what has arrived.
func (p *poller) receive(buf []byte) (int, error) {
	if p.stream != nil {
		return p.receiveStream(buf)
	}
	if p.drained {
		return 0, ErrWouldBlock
	}
	for {
		n, left, err := p.receiveNow(buf)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return 0, ErrWouldBlock
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		}
		p.drained, p.heard = left == 0, time.Now()
		return n, nil
	}
}

// setPollDeadline sets the deadline of the next wait. A patient wait ends at the limit of the exchange. Another one ends after recheck,
// and a read follows: the kernel does not say that a reset came together with the last bytes.
func (c *Conn) setPollDeadline() error {
	limit := c.readLimit(c.poller.heard)
	if by := time.Now().Add(recheck); !c.poller.patient && (limit.IsZero() || by.Before(limit)) {
		limit = by
	}
	return c.moveReadDeadline(limit)
}

// nextReadLimit returns when a read fails that begins now; zero means never.
func (c *Conn) nextReadLimit() time.Time {
	if c.IdleTimeout <= 0 { // without looking at the clock
		return c.Deadline
	}
	return c.readLimit(time.Now())
}

// readLimit returns when a read fails that has waited since a time; zero means never.
func (c *Conn) readLimit(since time.Time) time.Time {
	if c.IdleTimeout <= 0 {
		return c.Deadline
	}
	if idle := since.Add(c.IdleTimeout); c.Deadline.IsZero() || idle.Before(c.Deadline) {
		return idle
	}
	return c.Deadline
}
