package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"colonnade/forwarding/link"
	"colonnade/forwarding/netconn"
)

// Transport makes exchanges with servers, and keeps idle connections to them. Its methods may be called by several goroutines at
// once. The zero value is not usable: see [New].
type Transport struct {
	readers sync.Pool // of *bufio.Reader
	heads   sync.Pool // of *[]byte, for requests while they are sent
	bodies  sync.Pool // of *[]byte, for whole bodies: see Response.SwapBody
	idle    idleConns
	links   links
	pump    *netconn.Pump // of streams
}

// New returns a transport. The caller must call Run.
func New(logger *slog.Logger) *Transport {
	t := &Transport{
		readers: sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBuffer) }},
		heads:   sync.Pool{New: func() any { return new([]byte) }},
		idle:    idleConns{logger: logger, lists: map[Target]*idleList{}, distrusted: map[string]time.Time{}},
		links:   links{logger: logger, targets: map[Target]*linkSet{}},
	}
	t.links.transport = t
	t.links.ctx, t.links.cancel = context.WithCancel(context.Background())
	t.pump = netconn.NewPump(&t.links.flusher)
	return t
}

// Flusher returns what the steps of responses flush: see [Response.FollowShared]. A stream of a link to which such a step writes must have it.
func (t *Transport) Flusher() *link.Flusher { return &t.links.flusher }

// LinkStats are the numbers of links to other nodes and of their streams.
type LinkStats struct{ Links, Streams int }

// LinkStats returns how many links and streams are open.
func (t *Transport) LinkStats() LinkStats { return t.links.stats() }

// Run closes connections that have been idle for too long, until ctx ends; then it closes all idle ones, and all links.
func (t *Transport) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			t.idle.expire(now)
			t.links.expire(now)
		case <-ctx.Done():
			t.idle.close()
			t.links.close()
			t.pump.Close()
			return nil
		}
	}
}

// Idle returns the number of idle connections.
func (t *Transport) Idle() int { return t.idle.len() }

// Distrusted returns the number of servers to which no connections are kept, since they have sent bytes out of turn.
func (t *Transport) Distrusted() int { return t.idle.distrustedLen(time.Now()) }

// put keeps a connection after a response that was read to its end.
func (t *Transport) put(c *conn) {
	t.releaseReader(c)
	c.Tick, c.Received = nil, nil
	t.idle.put(c)
}

func (t *Transport) takeReader(c *conn) {
	c.br = t.readers.Get().(*bufio.Reader)
	c.br.Reset(c)
}

func (t *Transport) releaseReader(c *conn) {
	if c.br == nil {
		return
	}
	c.br.Reset(nil)
	t.readers.Put(c.br)
	c.br = nil
}

// Do sends r once, and returns the response when its first byte has arrived. If ctx ends before, Do closes the exchange as
// [Response.Close] does, and returns the context's cause. Any other failure is an [ExchangeError]. The caller must close the
// response.
//
// If a kept connection cannot be used any more, and the server cannot have received the whole request, Do sends it on another; likewise if a link has not
// sent it.
func (t *Transport) Do(ctx context.Context, r *Request, s ReadOptions) (*Response, error) {
	if cause := r.cause(ctx); cause != nil {
		return nil, cause
	}
	began := time.Now()
	if r.Link != nil && len(r.Body) <= MaxLinkBody && !r.upgrades() {
		if l := t.links.take(r); l != nil {
			resp, err := t.exchange(ctx, t.overLink(l), r, &s, began)
			if !errors.Is(err, link.ErrNotSent) {
				return resp, err
			}
		}
	}
	for !r.upgrades() { // which keeps its connection, so it gets a new one
		c := t.idle.take(&r.Target, r.Account, began)
		if c == nil {
			break
		}
		resp, err := t.exchange(ctx, c, r, &s, began)
		if !errors.Is(err, errStale) {
			return resp, err
		}
		if errors.Is(err, errPartlySent) {
			break // a long body is not sent in part again and again
		}
	}
	c, err := t.dial(ctx, r, began)
	if err != nil {
		return nil, r.failed(ctx, PhaseConnect, err)
	}
	return t.exchange(ctx, c, r, &s, began)
}

// exchange is Do on one connection.
func (t *Transport) exchange(ctx context.Context, c *conn, r *Request, s *ReadOptions, began time.Time) (*Response, error) {
	c.account = r.Account
	c.IdleTimeout, c.Deadline, c.Tick, c.Received = 0, r.firstByteBy(began), r.Tick, r.Received

	resp := &Response{ctx: ctx, abort: r.Abort, transport: t, conn: c, lingerLimit: r.Linger, deadline: r.Deadline}
	resp.watch.Attach(ctx, c.cancel)
	r.Abort.attach(c.cancel)
	begun := false
	defer func() {
		if !begun { // after a panic, too
			resp.Close()
		}
	}()
	if err := resp.begin(r, s, began); err != nil {
		resp.Close()
		if errors.Is(err, errOutOfTurn) {
			t.idle.distrust(r.Target.Address)
		}
		phase := resp.phase()
		if r.Target.Peer.SentAlert(err) && resp.head.status == 0 {
			phase, err = PhaseConnect, r.Target.Peer.Explain(err)
		}
		return nil, r.failed(ctx, phase, err)
	}
	begun = true
	return resp, nil
}

// phase returns the phase in which Do failed on a connection. Any byte of the body of a response below 300 that is not a stream means
// PhaseStream, although it is held; otherwise it is PhaseFirstByte, or PhaseConnect if nothing was sent.
func (resp *Response) phase() Phase {
	switch {
	case resp.unsent:
		return PhaseConnect
	case resp.stream == nil && len(resp.held) > 0 && resp.head.status < 300:
		return PhaseStream
	}
	return PhaseFirstByte
}

// begin sends the request, and reads the response up to its first byte. began is when the request was dispatched.
func (resp *Response) begin(r *Request, s *ReadOptions, began time.Time) error {
	n, err := resp.conn.send(r, began)
	resp.transport.takeReader(resp.conn)
	if err != nil {
		if answered, err := resp.sendFailed(r, n, err); !answered {
			return err
		}
		return resp.readFirst(s)
	}
	h, err := resp.conn.readHead(r.OnProgress)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errNoResponse
		}
		return err
	}
	resp.head, resp.turnaround = h, time.Since(resp.conn.sentAt)
	resp.body = newBody(resp.conn.br, &resp.head)
	if s.RequireFraming && resp.CloseDelimited() {
		return fmt.Errorf("%w: neither content-length nor transfer-encoding", errMalformed)
	}
	if h.status == 101 {
		resp.upgraded = true
		return r.checkUpgrade(&resp.head)
	}
	if err := resp.readFirst(s); err != nil {
		return err
	}
	if resp.conn != nil { // else the body is whole
		resp.conn.IdleTimeout, resp.conn.Deadline, resp.conn.Tick = r.IdleTimeout, r.Deadline, nil
	}
	return nil
}

// sendFailed handles a request of which only n bytes could be sent. It reports whether the server has answered all the same.
func (resp *Response) sendFailed(r *Request, n int64, err error) (answered bool, _ error) {
	c := resp.conn
	switch {
	case errors.Is(err, ErrNotSent), errors.Is(err, errNotValid), errors.Is(err, link.ErrNotSent), n == 0 && errors.Is(err, errStale):
		resp.lingerLimit = 0 // the server has nothing to end
		return false, err
	case c.kept && !netconn.IsTimeout(err) && !c.Cancelled():
		// Anything that can be read may belong to an earlier request.
		resp.lingerLimit = 0
		return false, fmt.Errorf("%w: %w", errPartlySent, err)
	}
	if err = resp.readEarlyRefusal(r, err); err == nil {
		return true, nil
	}
	resp.unsent = n == 0 && netconn.IsRefused(err)
	return false, err
}

// readEarlyRefusal reads a response after a request could not be sent to its end: a server that refuses a request for its size may
// respond before. It returns failure if there is none.
func (resp *Response) readEarlyRefusal(r *Request, failure error) error {
	resp.conn.IdleTimeout = framingGrace
	h, err := resp.conn.readHead(nil)
	if r.Target.Peer.SentAlert(err) {
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

// errNotValid is returned for a request with a value that must not be sent.
var errNotValid = errors.New("request is not valid")

// errNoResponse is returned if the server has closed the connection without a byte.
var errNoResponse = errors.New("connection closed without a response")
