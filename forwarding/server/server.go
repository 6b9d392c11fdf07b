package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/link"
	"colonnade/forwarding/peertls"
	"colonnade/openai"
)

const (
	// MaxHead is the highest size of a request's head, in bytes.
	MaxHead = 16 << 10
	// readTimeout bounds the time in which a head must arrive, and after it that of the first maxPrefetch bytes of its body.
	readTimeout = 10 * time.Second
	// keepAliveTimeout bounds the time between two requests of a connection.
	keepAliveTimeout = 75 * time.Second
	// MaxConns is the highest number of connections.
	MaxConns = 64 << 10
)

// Config is what differs between the servers of entries and of colos.
type Config struct {
	Handle func(*fasthttp.RequestCtx)
	// HandleExchange handles the requests with binary heads; nil = there are none.
	HandleExchange func(*Exchange)
	// HandleError responds to a request that could not be read.
	HandleError func(*fasthttp.RequestCtx, *openai.Error)
	// RejectEarly reports whether Handle will refuse a request with this head, whatever its body is, so that the body need not be
	// read. Nil = it never will.
	RejectEarly func(*fasthttp.RequestHeader) bool
	Inflight    *Inflight
	Logger      *slog.Logger
	// MaxPerIP is the highest number of connections of one IPv4 address or one IPv6 /64 network; 0 = no limit.
	MaxPerIP int
	// MaxConns is the highest number of all connections, at most [MaxConns], which 0 means. Once there are so many, idle ones are closed for
	// new ones.
	MaxConns int
	// OnRefusedConn, unless it is nil, is called for each connection that is refused by MaxPerIP or by the limit for all.
	OnRefusedConn func()
	// Flusher is shared by the links that [Server.AcceptLink] serves; nil = each writes alone.
	Flusher *link.Flusher
	// TLS is the configuration of a listener for any client. A connection whose handshake agrees on a protocol other than HTTP/1.1 ends
	// with that handshake. Peers is the certificate of a listener for nodes only. Without either, connections use no TLS.
	TLS   *tls.Config
	Peers *peertls.TrustStore
}

// tls returns the configuration of connections, or nil without TLS.
func (c *Config) tls() *tls.Config {
	if c.TLS != nil {
		return c.TLS
	}
	return c.Peers.ServerTLS()
}

// Server serves the requests of one listener. It ends without failing a request, in the steps [Server.Drain],
// [Server.AwaitQuiet], [Server.StopAccepting] and [Server.Shutdown].
//
// fasthttp's own shutdown would fail requests. It closes the listener at once, which resets the connections in its backlog. It
// closes idle connections without a look at what has arrived meanwhile, and others after a response without Connection: close. And
// it does not wait for hijacked connections.
type Server struct {
	http *fasthttp.Server

	handleExchange func(*Exchange)
	exchanges      sync.Pool // of *exchangeMemory

	limiter  *connLimiter
	links    links
	tls      *tls.Config         // nil = without TLS
	peers    *peertls.TrustStore // nil = any client is accepted
	logger   *slog.Logger
	inflight *Inflight
	draining atomic.Bool

	mu       sync.Mutex // guards the fields below
	listener *listener  // nil before Serve
	stopped  bool       // StopAccepting was called
}

// New returns a server with strict settings of fasthttp: limits on sizes and times, no multipart parser, and OpenAI-shaped errors.
// A handler reads the body with [Request.ReadBody]. A request that gets its response before its body was read to its end is the
// last of its connection, so that no part of the body can be taken for another request.
func New(c Config) *Server {
	s := &Server{inflight: c.Inflight, logger: c.Logger, tls: c.tls(), peers: c.Peers, handleExchange: c.HandleExchange}
	s.exchanges.New = func() any { return new(exchangeMemory) }
	s.limiter = newConnLimiter(&c, s.tls != nil)
	s.links.logger, s.links.flusher, s.links.limit = c.Logger, c.Flusher, link.NewLimit(s.limiter.maxTotal)
	s.links.workers.serve = s.doTask
	s.http = &fasthttp.Server{
		Handler: func(rc *fasthttp.RequestCtx) {
			rc.Conn().(*serverConn).noteRequest()
			c.handle(rc)
			s.markLast(rc)
			s.detachStream(rc)
		},
		ConnState: func(nc net.Conn, state fasthttp.ConnState) {
			onConnState(nc, state)
			c.Inflight.connState(nc, state)
		},
		ErrorHandler: func(rc *fasthttp.RequestCtx, err error) {
			if neverSent(rc.Conn()) {
				_ = rc.Conn().Close() // an unused connection: its client expects no response
				return
			}
			c.handleError(rc, readError(err))
			rc.SetConnectionClose()
			LingerOnClose(rc.Conn())
		},
		HeaderReceived: func(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
			c.skipRejectedBody(h)
			return fasthttp.RequestConfig{ReadTimeout: readTimeout, MaxRequestBodySize: maxPrefetch}
		},
		StreamRequestBody:            true,
		ReadTimeout:                  readTimeout,
		IdleTimeout:                  keepAliveTimeout,
		ReadBufferSize:               MaxHead,
		Concurrency:                  math.MaxInt32, // connLimiter allows fewer, and refuses others with a reason; streams are of nodes of the fleet
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true, // no bytes of requests in the log
		Logger:                       serverLog{c.Logger},
	}
	return s
}

// Serve serves the connections of ln, a plain TCP listener, until StopAccepting.
func (s *Server) Serve(ln net.Listener) error {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return fmt.Errorf("cannot serve %s: a %T is no listener of TCP alone", ln.Addr(), ln)
	}
	l := s.openListener(tcp)
	if l == nil {
		return ln.Close()
	}
	defer close(l.served)
	if err := s.http.Serve(l); err != nil {
		return fmt.Errorf("cannot serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// openListener returns nil if StopAccepting was called before.
func (s *Server) openListener(ln *net.TCPListener) *listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.listener = newListener(ln, s)
	}
	return s.listener
}

// ConnStats returns the numbers of open and of refused connections.
func (s *Server) ConnStats() ConnStats { return s.limiter.stats() }

// markLast makes the response that is about to be written the last of its connection, where it must be. The client may send more
// before it reads that: the rest of a request, or another request.
func (s *Server) markLast(rc *fasthttp.RequestCtx) {
	if rc.Hijacked() {
		return
	}
	// A stream of a link carries one exchange. A proxy on the path may take the connection for a tunnel after any response to an upgrade.
	if isStream(rc.Conn()) || s.draining.Load() || mayHaveUnread(rc) || len(rc.Request.Header.Peek("Upgrade")) > 0 {
		rc.SetConnectionClose()
	}
	if rc.Response.ConnectionClose() {
		LingerOnClose(rc.Conn())
	}
}

// handle calls Handle, which recovers from its own panics. A panic that escapes it gets a response here.
func (c *Config) handle(rc *fasthttp.RequestCtx) {
	defer func() {
		if LogPanic(c.Logger, "request", recover()) {
			rc.Conn().(*serverConn).abandonStream()
			rc.Response.Reset()
			WriteError(rc, openai.Internal(), "")
			rc.SetConnectionClose()
		}
	}()
	c.Handle(rc)
}

// handleError calls HandleError. fasthttp would not recover from its panic, nor from one in RejectEarly, and the process would end.
func (c *Config) handleError(rc *fasthttp.RequestCtx, e *openai.Error) {
	defer func() {
		if LogPanic(c.Logger, "error handler", recover()) {
			rc.Response.Reset()
			WriteError(rc, openai.Internal(), "")
		}
	}()
	c.HandleError(rc, e)
}
