package server

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/httpguard"
	"colonnade/forwarding/peertls"
	"colonnade/openai"
)

const (
	// requestBuffer bounds a request's head.
	requestBuffer = 16 << 10
	// readTimeout is how long a head may take to arrive, and a short body behind it.
	readTimeout      = 10 * time.Second
	keepAliveTimeout = 75 * time.Second
	maxConcurrent    = 64 << 10 // connections
)

// Config is what differs between the servers of an entry and of a colo.
type Config struct {
	Handle      func(*fasthttp.RequestCtx)
	HandleError func(*fasthttp.RequestCtx, *openai.Error) // for requests that could not be read
	// Unwanted says by the head alone that the handler will refuse a request, whatever its body is. Nil = no.
	RejectEarly func(*fasthttp.RequestHeader) bool
	Inflight    *Inflight
	Logger      *slog.Logger
	// MaxPerIP is the most connections of one IP address, or of one IPv6 /64 network; 0 = no limit.
	// Crowded is called for each that is refused, for that reason or since there are too many in all. Nil = nobody
	// wants to know.
	MaxPerIP      int
	OnRefusedConn func()
	// TLS is spoken with anybody, or else Peers with nodes of the fleet only; without either, the connections are
	// plain.
	TLS   *peertls.Certificate
	Peers *peertls.TrustStore
}

// tls is what connections begin with, or nil.
func (c *Config) tls() *tls.Config {
	if c.TLS != nil {
		return c.TLS.ServerTLS()
	}
	return c.Peers.ServerTLS()
}

// New returns a server with what fasthttp leaves open closed: limits on size and time, no multipart parsing of
// its own, and our errors instead of its plain texts. A handler gets a longer body by [Request.ReadBody]. A request that
// is answered before its body has been read to its end is the connection's last, so that nothing of the body is ever
// taken for another request.
func New(c Config) *Server {
	s := &Server{inflight: c.Inflight, logger: c.Logger, tls: c.tls(), peers: c.Peers}
	s.limiter = newConnLimiter(&c, s.tls != nil)
	s.http = &fasthttp.Server{
		Handler: func(rc *fasthttp.RequestCtx) {
			c.handle(rc)
			s.markLast(rc)
		},
		ConnState: func(nc net.Conn, state fasthttp.ConnState) {
			onConnState(nc, state)
			c.Inflight.connState(nc, state)
		},
		ErrorHandler: func(rc *fasthttp.RequestCtx, err error) {
			if neverSent(rc.Conn()) {
				_ = rc.Conn().Close() // it was opened and not used: nobody waits for an answer
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
		ReadBufferSize:               requestBuffer,
		Concurrency:                  2 * maxConcurrent, // the door lets in fewer, and tells the others so
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		KeepHijackedConns:            true, // see Hijack
		SecureErrorLogMessage:        true, // no bytes of a request in a log
		Logger:                       serverLog{c.Logger},
	}
	return s
}

// markLast ends the connection with the answer that is about to be written, if it is to. The client may then have sent
// more before it reads this: the rest of a request, or another one.
func (s *Server) markLast(rc *fasthttp.RequestCtx) {
	if rc.Hijacked() {
		return
	}
	// After a request to switch protocols, somebody on the way may take the connection for a tunnel, whatever the
	// answer.
	if s.draining.Load() || mayHaveUnread(rc) || len(rc.Request.Header.Peek("Upgrade")) > 0 {
		rc.SetConnectionClose()
	}
	if rc.Response.ConnectionClose() {
		LingerOnClose(rc.Conn())
	}
}

// handle is Handle, which answers its own panics: another one, while it did that or before it could, is answered here.
func (c *Config) handle(rc *fasthttp.RequestCtx) {
	defer func() {
		if LogPanic(c.Logger, "handling of a request", recover()) {
			rc.Response.Reset()
			WriteError(rc, openai.Internal(), "")
			rc.SetConnectionClose()
		}
	}()
	c.Handle(rc)
}

// handleError is Refuse. Here, and in unwanted, nobody else would catch a panic, and the process would end.
func (c *Config) handleError(rc *fasthttp.RequestCtx, e *openai.Error) {
	defer func() {
		if LogPanic(c.Logger, "refusal of a request", recover()) {
			rc.Response.Reset()
			WriteError(rc, openai.Internal(), "")
		}
	}()
	c.HandleError(rc, e)
}

// rejectsEarly is Unwanted. A request that it panics over goes on to the handler, which catches its own.
func (c *Config) rejectsEarly(h *fasthttp.RequestHeader) (is bool) {
	defer func() {
		if LogPanic(c.Logger, "look at a request's head", recover()) {
			is = false
		}
	}()
	return c.RejectEarly != nil && c.RejectEarly(h)
}

// skipRejectedBody keeps the server from waiting for a body that nobody will read, and from asking for it. fasthttp knows
// no such thing, so it is passed off for an empty one: the handler refuses the request, and the connection ends there.
func (c *Config) skipRejectedBody(h *fasthttp.RequestHeader) {
	length, expects := h.ContentLength(), len(h.Peek("Expect")) > 0
	if expects && (length == 0 || length < lengthChunked) {
		h.Del("Expect") // there is nothing to ask for, and somebody on the way may take a 100 for the answer
		return
	}
	if length <= maxPrefetch && !expects || !c.rejectsEarly(h) {
		return
	}
	h.Del("Expect")
	if length != lengthChunked {
		h.SetContentLength(0)
		h.SetConnectionClose()
	}
}

// lengthChunked is a body's length that only its end will tell; a request without one is below it.
const lengthChunked = -1

// mayHaveUnread says that a request may not have been read to its end.
func mayHaveUnread(rc *fasthttp.RequestCtx) bool {
	if !rc.Request.IsBodyStream() {
		return false
	}
	n := rc.Request.Header.ContentLength()
	return n < 0 || n > maxPrefetch || rc.Request.Header.ConnectionClose()
}

// readError says what was wrong with a request that could not be read.
func readError(err error) *openai.Error {
	var small *fasthttp.ErrSmallBuffer
	var timeout net.Error
	switch {
	case errors.As(err, &small):
		return openai.HeadersTooLarge(requestBuffer)
	case errors.Is(err, fasthttp.ErrTimeout), errors.As(err, &timeout) && timeout.Timeout():
		return openai.RequestTimeout("its head, and the first 8 KiB of its body, must be there within 10 s")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return openai.InvalidRequest("", "the body ended before its announced length")
	}
	return openai.InvalidRequest("", "the request is not well-formed HTTP/1.1")
}

// CheckHead runs the strict guard over a request's head as it stood on the wire. The body may be of at most maxBody
// bytes.
func CheckHead(h *fasthttp.RequestHeader, maxBody int) *openai.Error {
	return httpguard.CheckHead(httpguard.RequestHead{
		Method: h.Method(), Target: h.RequestURI(), Protocol: h.Protocol(), Raw: h.RawHeaders(), Host: h.Host(), MaxBody: maxBody,
	})
}

func noTrailers() *openai.Error { return openai.InvalidRequest("", "trailers are not supported") }
