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
	// maxIdleTime must be shorter than the time after which engines close an idle connection (uvicorn: 5 s).
	maxIdleTime = 4 * time.Second
	// maxIdlePerTarget bounds the idle connections to one address.
	maxIdlePerTarget = 512
)

// Transport keeps connections to servers. Its zero value is not usable: see [NewTransport].
type Transport struct {
	readers sync.Pool // of *bufio.Reader

	mu     sync.Mutex         // guards the fields below
	idle   map[Target][]*conn // the most recently used last
	closed bool
}

// New returns a transport, which the caller runs.
func New() *Transport {
	return &Transport{
		readers: sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBuffer) }},
		idle:    map[Target][]*conn{},
	}
}

// Run closes connections that have been idle too long, and all idle ones at the end.
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
		// Ordered by time: the stale ones stand in front.
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

// Idle counts the idle connections.
func (t *Transport) Idle() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, conns := range t.idle {
		n += len(conns)
	}
	return n
}

// take returns the idle connection that was used last and is still open, or none.
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

// put keeps a connection whose answer was read to its end.
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

// Do sends r once and returns the answer up to its first byte. When ctx ends first, it returns the context's cause,
// after it has lingered. Any other failure is an [ExchangeError]. The caller must Close the answer.
func (t *Transport) Do(ctx context.Context, r *Request, s ReadOptions) (*Response, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var c *conn
	if r.Handshake == nil { // else it will keep its connection: one of its own, that has not aged
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

	a := &Response{ctx: ctx, transport: t, target: r.Target, conn: c, lingerLimit: r.Linger, deadline: r.Deadline}
	a.unwatch = context.AfterFunc(ctx, c.Cancel)
	begun := false
	defer func() {
		if !begun { // but panicked, perhaps
			a.Close()
		}
	}()
	if err := a.begin(r, s); err != nil {
		a.Close()
		phase := a.phase()
		if r.Target.Peer.SentAlert(err) && a.head.status == 0 {
			phase, err = PhaseConnect, r.Target.Peer.Explain(err)
		}
		return nil, exchangeError(ctx, phase, err)
	}
	begun = true
	return a, nil
}

// phase is how far an answer has come that is not there up to its first byte, or as a whole. Of an unstreamed one every
// byte commits us, though we hold them back; of one that is an error already, none.
func (a *Response) phase() Phase {
	if a.stream == nil && len(a.held) > 0 && a.head.status < 300 {
		return PhaseStream
	}
	return PhaseFirstByte
}

// begin sends the request and reads the answer up to its first byte.
func (a *Response) begin(r *Request, s ReadOptions) error {
	sent := time.Now()
	if err := a.conn.send(r); err != nil {
		if errors.Is(err, ErrNotSent) {
			a.lingerLimit = 0
			return err
		}
		if err = a.readEarlyRefusal(err); err != nil {
			return err
		}
		return a.readFirst(s)
	}
	if r.FirstByteTimeout > 0 {
		a.conn.IdleTimeout = 0
		if by := sent.Add(r.FirstByteTimeout); r.Deadline.IsZero() || by.Before(r.Deadline) {
			a.conn.Deadline = by
		}
	}
	h, err := readHeadWithProgress(a.conn.br, r.OnProgress)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errNoAnswer
		}
		return err
	}
	a.head = h
	a.body = newBody(a.conn.br, &a.head)
	if h.status == 101 {
		a.switched = true
		return r.Handshake.check(&a.head)
	}
	if err := a.readFirst(s); err != nil {
		return err
	}
	if a.conn != nil { // else all of it has come
		a.conn.IdleTimeout, a.conn.Deadline, a.conn.Tick = r.IdleTimeout, r.Deadline, nil
	}
	return nil
}

// readEarlyRefusal looks for a reason when a request could not be sent to its end: who refuses it for its size, say, answers
// before that. It returns the failure if there is none.
func (a *Response) readEarlyRefusal(failure error) error {
	a.conn.IdleTimeout = framingGrace
	h, err := readHead(a.conn.br)
	if a.target.Peer.SentAlert(err) {
		return err
	}
	if err != nil || h.status < 400 {
		return failure
	}
	h.close = true
	a.head, a.body = h, newBody(a.conn.br, &h)
	return nil
}

// ErrNotSent is a request of which nothing was sent, since it no longer might.
var ErrNotSent = errors.New("the request may not be sent any more")

// errNoAnswer is a connection that was closed without a byte.
var errNoAnswer = errors.New("connection closed without an answer")
