package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// maxIdleTime is shorter than the time after which engines close idle connections (uvicorn: 5 s).
	maxIdleTime = 4 * time.Second
	// maxIdlePerTarget is the highest number of idle connections to one target.
	maxIdlePerTarget = 512
)

// Transport makes exchanges with servers, and keeps idle connections to them. Its methods may be called by several goroutines at
// once. The zero value is not usable: see [New].
type Transport struct {
	readers sync.Pool // of *bufio.Reader

	mu     sync.Mutex         // guards the fields below
	idle   map[Target][]*conn // the most recently used last
	closed bool
}

// New returns a transport. The caller must call Run.
func New() *Transport {
	return &Transport{
		readers: sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBuffer) }},
		idle:    map[Target][]*conn{},
	}
}

// Run closes connections that have been idle for too long, until ctx ends; then it closes all idle ones.
func (t *Transport) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.closeIdle(time.Now().Add(-maxIdleTime))
		case <-ctx.Done():
			t.close()
			return nil
		}
	}
}

func (t *Transport) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.closeIdle(time.Now().Add(time.Hour))
}

func (t *Transport) closeIdle(before time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for to, conns := range t.idle {
		// In order of time: the stale ones come first.
		n := 0
		for n < len(conns) && conns[n].idleSince.Before(before) {
			conns[n].Close()
			n++
		}
		if conns = slices.Delete(conns, 0, n); len(conns) == 0 {
			delete(t.idle, to)
		} else {
			t.idle[to] = conns
		}
	}
}

// Idle returns the number of idle connections.
func (t *Transport) Idle() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, conns := range t.idle {
		n += len(conns)
	}
	return n
}

// take returns the most recently used idle connection that can be used again, or nil.
func (t *Transport) take(to Target) *conn {
	for {
		c := t.pop(to)
		if c == nil {
			return nil
		}
		if time.Since(c.idleSince) < maxIdleTime && c.trustVersion == to.Peer.Version() && c.Quiet() {
			return c
		}
		c.Close()
	}
}

func (t *Transport) pop(to Target) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	conns := t.idle[to]
	if len(conns) == 0 {
		return nil
	}
	c := conns[len(conns)-1]
	conns[len(conns)-1] = nil
	t.idle[to] = conns[:len(conns)-1]
	return c
}

// put keeps a connection after a response that was read to its end.
func (t *Transport) put(to Target, c *conn) {
	t.releaseReader(c)
	c.Tick = nil
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || len(t.idle[to]) >= maxIdlePerTarget {
		c.Close()
		return
	}
	c.idleSince = time.Now()
	t.idle[to] = append(t.idle[to], c)
}

func (t *Transport) releaseReader(c *conn) {
	c.br.Reset(nil)
	t.readers.Put(c.br)
	c.br = nil
}

// Do sends r once, and returns the response when its first byte has arrived. If ctx ends before, Do closes the exchange as
// [Response.Close] does, and returns the context's cause. Any other failure is an [ExchangeError]. The caller must close the
// response.
func (t *Transport) Do(ctx context.Context, r *Request, s ReadOptions) (*Response, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var c *conn
	if r.Handshake == nil { // which keeps its connection, so it gets a new one
		c = t.take(r.Target)
	}
	if c == nil {
		var err error
		if c, err = dial(ctx, r.Target, r.ConnectTimeout); err != nil {
			return nil, exchangeError(ctx, PhaseConnect, err)
		}
	}
	c.br = t.readers.Get().(*bufio.Reader)
	c.br.Reset(c)
	c.IdleTimeout, c.Deadline, c.Tick = 0, r.Deadline, r.Tick

	resp := &Response{ctx: ctx, transport: t, target: r.Target, conn: c, lingerLimit: r.Linger, deadline: r.Deadline}
	resp.unwatch = context.AfterFunc(ctx, c.Cancel)
	begun := false
	defer func() {
		if !begun { // after a panic, too
			resp.Close()
		}
	}()
	if err := resp.begin(r, s); err != nil {
		resp.Close()
		phase := resp.phase()
		if r.Target.Peer.SentAlert(err) && resp.head.status == 0 {
			phase, err = PhaseConnect, r.Target.Peer.Explain(err)
		}
		return nil, exchangeError(ctx, phase, err)
	}
	begun = true
	return resp, nil
}

// phase returns the phase in which Do failed on a connection. Any byte of the body of a response below 300 that is not a stream means
// PhaseStream, although it is held; otherwise it is PhaseFirstByte.
func (resp *Response) phase() Phase {
	if resp.stream == nil && len(resp.held) > 0 && resp.head.status < 300 {
		return PhaseStream
	}
	return PhaseFirstByte
}

// begin sends the request, and reads the response up to its first byte.
func (resp *Response) begin(r *Request, s ReadOptions) error {
	sent := time.Now()
	if err := resp.conn.send(r); err != nil {
		if errors.Is(err, ErrNotSent) {
			resp.lingerLimit = 0
			return err
		}
		if err = resp.readEarlyRefusal(err); err != nil {
			return err
		}
		return resp.readFirst(s)
	}
	if r.FirstByteTimeout > 0 {
		resp.conn.IdleTimeout = 0
		if by := sent.Add(r.FirstByteTimeout); r.Deadline.IsZero() || by.Before(r.Deadline) {
			resp.conn.Deadline = by
		}
	}
	h, err := readHeadWithProgress(resp.conn.br, r.OnProgress)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errNoResponse
		}
		return err
	}
	resp.head = h
	resp.body = newBody(resp.conn.br, &resp.head)
	if h.status == 101 {
		resp.upgraded = true
		return r.Handshake.check(&resp.head)
	}
	if err := resp.readFirst(s); err != nil {
		return err
	}
	if resp.conn != nil { // else the body is whole
		resp.conn.IdleTimeout, resp.conn.Deadline, resp.conn.Tick = r.IdleTimeout, r.Deadline, nil
	}
	return nil
}

// readEarlyRefusal reads a response after a request could not be sent to its end: a server that refuses a request for its size may
// respond before. It returns failure if there is none.
func (resp *Response) readEarlyRefusal(failure error) error {
	resp.conn.IdleTimeout = framingGrace
	h, err := readHead(resp.conn.br)
	if resp.target.Peer.SentAlert(err) {
		return err
	}
	if err != nil || h.status < 400 {
		return failure
	}
	h.close = true
	resp.head, resp.body = h, newBody(resp.conn.br, &h)
	return nil
}

// ErrNotSent is returned if the precondition of a request was false, and nothing of it was sent.
var ErrNotSent = errors.New("precondition failed: the request was not sent")

// errNoResponse is returned if the server has closed the connection without a byte.
var errNoResponse = errors.New("connection closed without a response")
