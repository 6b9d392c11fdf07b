package server

import (
	"net"
	"sync"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/netconn"
)

// Hijack calls run with the client's connection after the handler has returned and the response has been written. run has a
// goroutine of its own, and the connection is closed when it returns. The request must stay open until then. run is called exactly
// once: if the connection breaks before, for which fasthttp does not call it, run gets the closed connection.
//
// run reads the client's input, so that the watch of [Request.WatchClient] does not count it.
func (r *Request) Hijack(rc *fasthttp.RequestCtx, run func(*netconn.Conn)) {
	if r.client != nil {
		r.client.watcher.ignoreInput(r.client)
	}
	r.HijackOutput(rc, run)
}

// HijackOutput is Hijack for a run that only writes: a client that sends much meanwhile has left.
func (r *Request) HijackOutput(rc *fasthttp.RequestCtx, run func(*netconn.Conn)) {
	conn := rc.Conn()
	r.inflight.hijacks.add(conn, func(client *netconn.Conn) {
		// No caller would recover from a panic, and the process would end.
		defer func() { LogPanic(r.inflight.logger, "hijacked connection", recover()) }()
		run(client)
	})
	rc.Hijack(func(nc net.Conn) {
		run, ok := r.inflight.hijacks.take(conn)
		if !ok {
			return
		}
		client := wrapHijacked(conn)
		client.ReadAhead = drainReadAhead(nc, conn)
		conn.(*serverConn).keptOpen.Add(1)
		go func() { // fasthttp frees its memory for the request when this function returns, and not after the session
			defer conn.Close()
			run(client)
		}()
	})
}

// connState is called by fasthttp when the state of a connection changes.
func (f *Inflight) connState(c net.Conn, state fasthttp.ConnState) {
	if state != fasthttp.StateClosed {
		return
	}
	if run, ok := f.hijacks.take(c); ok {
		run(wrapHijacked(c))
	}
}

// hijacks are the connections for which Hijack was called and run was not.
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

func wrapHijacked(c net.Conn) *netconn.Conn {
	client := c.(*serverConn)
	if client.linked != nil {
		return netconn.WrapStream(client, client.linked)
	}
	return netconn.Wrap(client, client.tcp, client.tlsConn)
}

// drainReadAhead returns what fasthttp has read of conn after the request, before it handed the connection out as nc.
func drainReadAhead(nc, conn net.Conn) (readAhead []byte) {
	_ = conn.SetReadDeadline(netconn.PastDeadline()) // only what is in memory already
	var piece [512]byte
	for {
		n, err := nc.Read(piece[:])
		readAhead = append(readAhead, piece[:n]...)
		if err != nil {
			return readAhead
		}
	}
}
