package faultproxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"time"
)

const (
	readSize  = 32 << 10
	window    = 64 << 10 // bytes that a pipe holds
	wide      = 16 << 20 // of one with a delay
	chunkCost = 128      // of a chunk beside its bytes, in the window
	dripsIn   = time.Second / 100
)

// chunk is what one read has returned.
type chunk struct {
	at   time.Time // of the read
	data []byte
	// end is of the last chunk: io.EOF for a FIN, or another error for an RST.
	end error
}

func (c *chunk) cost() int { return len(c.data) + chunkCost }

// pipe is one direction of a connection.
type pipe struct {
	conn     *conn
	way      Way
	from, to *net.TCPConn // set before read and write run
	// Each wakes one goroutine after a change, and has a capacity of one.
	wakeReader, wakeWriter chan struct{}

	// The fields below are guarded by the mutex of the connection.

	queue   []chunk
	held    int       // cost of the queue
	passed  int64     // bytes that were written
	dripped time.Time // when the next bytes may be written, by rate
	eof     bool      // the sender has ended the stream, or the connection
	shut    bool      // the receiver got the end of the stream; more is thrown away

	pending []Fault // that have not begun
	delay   time.Duration
	rate    int // of Drip; 0 = none
	stalled bool
	lost    bool // everything is swallowed, and nothing will pass again
}

func newPipe(c *conn, way Way, delay time.Duration) *pipe {
	return &pipe{conn: c, way: way, delay: delay, wakeReader: make(chan struct{}, 1), wakeWriter: make(chan struct{}, 1)}
}

// wake has both goroutines look again.
func (p *pipe) wake() {
	wake(p.wakeReader)
	wake(p.wakeWriter)
}

func wake(sleeper chan struct{}) {
	select {
	case sleeper <- struct{}{}:
	default:
	}
}

// read puts what arrives into the queue, until the stream ends.
func (p *pipe) read() {
	buffer := make([]byte, readSize)
	for p.awaitRoom() {
		n, err := p.from.Read(buffer)
		p.arrived(buffer[:n], err)
		if err != nil {
			return
		}
	}
}

// awaitRoom waits until the queue has room. It reports false if the connection has ended.
func (p *pipe) awaitRoom() bool {
	for {
		p.conn.mu.Lock()
		room, done := p.held < p.windowLocked(), p.conn.done
		p.conn.mu.Unlock()
		if room || done {
			return !done
		}
		select {
		case <-p.wakeReader:
		case <-p.conn.ended:
		}
	}
}

func (p *pipe) windowLocked() int {
	if p.delay > 0 && p.rate == 0 && !p.stalled {
		return wide
	}
	return window
}

func (p *pipe) arrived(data []byte, err error) {
	now := time.Now()
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	p.eof = err != nil
	if p.lost || p.shut {
		p.conn.settleLocked()
		return
	}
	if len(data) > 0 {
		p.putLocked(chunk{at: now, data: bytes.Clone(data)})
	}
	if err != nil {
		p.putLocked(chunk{at: now, end: err})
	}
}

func (p *pipe) putLocked(c chunk) {
	p.queue = append(p.queue, c)
	p.held += c.cost()
	if len(p.queue) == 1 {
		wake(p.wakeWriter)
	}
}

// takeLocked takes n bytes of the first chunk out of the queue.
func (p *pipe) takeLocked(n int) (data []byte) {
	head := &p.queue[0]
	data, head.data = head.data[:n], head.data[n:]
	p.held -= n
	if len(head.data) == 0 {
		p.held -= head.cost()
		p.queue[0] = chunk{}
		p.queue = p.queue[1:]
	}
	wake(p.wakeReader)
	return data
}

func (p *pipe) clearLocked() { p.queue, p.held = nil, 0 }

// write writes what is in the queue when it is due, until the connection has ended.
func (p *pipe) write() {
	for {
		data, due, done := p.next()
		switch {
		case done:
			return
		case data == nil:
			p.sleep(due)
		default:
			n, err := p.to.Write(data)
			p.wrote(n, err)
		}
	}
}

// next returns the bytes to write now. If there are none, it returns when to look again; zero = after a change.
func (p *pipe) next() (data []byte, due time.Time, done bool) {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	if p.conn.done {
		return nil, due, true
	}
	if p.stalled || len(p.queue) == 0 {
		return nil, due, false
	}
	head := &p.queue[0]
	due = head.at.Add(p.delay)
	if p.rate > 0 && p.dripped.After(due) {
		due = p.dripped
	}
	if time.Until(due) > 0 {
		return nil, due, false
	}
	if head.end == nil {
		return p.takeLocked(p.allowedLocked(len(head.data))), due, false
	}
	if errors.Is(head.end, io.EOF) {
		p.shutLocked()
		p.conn.settleLocked()
	} else {
		p.conn.endLocked(true)
	}
	return nil, time.Time{}, p.conn.done
}

// allowedLocked returns how many of the next n bytes may be written at once: not beyond the next fault, and no faster than they drip.
func (p *pipe) allowedLocked(n int) int {
	for _, f := range p.pending {
		n = int(min(int64(n), f.At-p.passed))
	}
	if p.rate > 0 {
		n = min(n, max(p.rate/int(time.Second/dripsIn), 1))
	}
	return n
}

// wrote counts bytes that were written, and begins the faults that stood behind them.
func (p *pipe) wrote(n int, err error) {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	p.passed += int64(n)
	if p.rate > 0 {
		p.dripped = time.Now().Add(time.Duration(n) * time.Second / time.Duration(p.rate))
	}
	if err != nil {
		p.receiverGoneLocked(err)
	}
	p.beginFaultsLocked()
}

// receiverGoneLocked has the sender learn that the receiver has closed its connection, after what the receiver had sent before.
func (p *pipe) receiverGoneLocked(err error) {
	p.shut = true
	p.clearLocked()
	for _, back := range p.conn.pipes {
		if back != p && !back.lost {
			back.putLocked(chunk{at: time.Now(), end: err})
		}
	}
}

// beginFaultsLocked begins the faults whose bytes have passed, once there is a connection to the server.
func (p *pipe) beginFaultsLocked() {
	if p.to == nil {
		return
	}
	waiting := p.pending
	p.pending = nil
	for _, f := range waiting {
		if f.At > p.passed {
			p.pending = append(p.pending, f)
		} else {
			p.beginLocked(f)
		}
	}
}

func (p *pipe) beginLocked(f Fault) {
	defer p.wake()
	switch f.Kind {
	case Stall:
		p.stalled = true
	case Swallow:
		p.lost = true
		p.clearLocked()
	case Drip:
		p.rate, p.dripped = f.Rate, time.Now()
	case Slow:
		p.delay = f.Delay
	case HalfClose:
		p.shutLocked()
	case Cut:
		p.conn.cutLocked()
	case Reset:
		p.conn.endLocked(true)
	}
}

// shutLocked has the receiver get a FIN, and nothing after it.
func (p *pipe) shutLocked() {
	if !p.shut {
		p.shut = true
		_ = p.to.CloseWrite()
	}
	p.clearLocked()
	p.wake()
}

// swallowsAllLocked reports whether a new connection loses all bytes in this direction, and has it do so.
func (p *pipe) swallowsAllLocked() bool {
	for _, f := range p.pending {
		p.lost = p.lost || f.Kind == Swallow && f.At <= 0
	}
	return p.lost
}

func (p *pipe) healLocked(delay time.Duration) {
	p.stalled, p.rate, p.delay, p.pending = false, 0, delay, nil
	p.wake()
}

// sleep returns when a time has come, after a change, or when the connection has ended. It may return early.
func (p *pipe) sleep(until time.Time) {
	var timer <-chan time.Time // never, if until is zero
	if !until.IsZero() {
		rest := time.Until(until)
		if rest <= slept {
			sleepExactly(rest)
			return
		}
		t := time.NewTimer(rest - slept)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-timer:
	case <-p.wakeWriter:
	case <-p.conn.ended:
	}
}
