package server

import (
	"errors"
	"net"
	"sync"

	"colonnade/forwarding/netconn"

	"github.com/valyala/fasthttp"
)

// wrapHijacked returns a client's connection that was taken over from the server.
func wrapHijacked(c net.Conn) *netconn.Conn {
	client := c.(*serverConn)
	return netconn.Wrap(client, client.tcp, client.secure)
}

// drainReadAhead returns what a server has read of below beyond the request before it handed the connection out as nc.
func drainReadAhead(nc, below net.Conn) (early []byte) {
	_ = below.SetReadDeadline(netconn.PastDeadline()) // nothing but what is in memory already
	var piece [512]byte
	for {
		n, err := nc.Read(piece[:])
		early = append(early, piece[:n]...)
		if err != nil {
			return early
		}
	}
}

// hijacks are the connections that were asked for and not handed out yet.
type hijacks struct {
	mu      sync.Mutex // guards the field below
	pending map[net.Conn]func(*netconn.Conn)
}

func (h *hijacks) add(c net.Conn, run func(*netconn.Conn)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pending == nil {
		h.pending = map[net.Conn]func(*netconn.Conn){}
	}
	h.pending[c] = run
}

func (h *hijacks) take(c net.Conn) (func(*netconn.Conn), bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	run, ok := h.pending[c]
	delete(h.pending, c)
	return run, ok
}

// Hijack calls run with the client's connection once the handler has returned and its answer was written, in a
// goroutine of its own; the connection is closed when run returns. The custody must last until then. fasthttp forgets a
// hijack whose connection breaks before; then run gets the connection closed, so that it is called in any case, and
// once.
func (c *Request) Hijack(rc *fasthttp.RequestCtx, run func(*netconn.Conn)) {
	below := rc.Conn()
	c.inflight.hijacks.add(below, func(client *netconn.Conn) {
		// Nobody else would catch a panic, and the process would end.
		defer func() { LogPanic(c.inflight.logger, "connection's relay", recover()) }()
		run(client)
	})
	rc.Hijack(func(nc net.Conn) {
		run, ok := c.inflight.hijacks.take(below)
		if !ok {
			return
		}
		client := wrapHijacked(below)
		client.ReadAhead = drainReadAhead(nc, below)
		go func() { // the server gives back its memory for the request when this returns: it would be idle for an hour
			defer below.Close()
			run(client)
		}()
	})
}

// connState is called by the server when a connection's state changes.
func (h *Inflight) connState(c net.Conn, state fasthttp.ConnState) {
	if state != fasthttp.StateClosed {
		return
	}
	if run, ok := h.hijacks.take(c); ok {
		run(wrapHijacked(c))
	}
}

var errNoHalfClose = errors.New("connection cannot be closed by halves")
