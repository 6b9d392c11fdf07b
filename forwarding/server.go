package forwarding

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/openai"
)

const (
	// requestBuffer bounds a request's head.
	requestBuffer = 16 << 10
	// readGrace is how long a request may take to arrive, and slowest what it must then keep up with.
	readGrace     = 10 * time.Second
	slowest       = 1 << 20 // bytes a second
	chunkedGrace  = 30 * time.Second
	keepAlive     = 75 * time.Second
	maxConcurrent = 64 << 10
)

// ServerConfig is what differs between the servers of an entry and of a colo.
type ServerConfig struct {
	Handle  func(*fasthttp.RequestCtx)
	Refuse  func(*fasthttp.RequestCtx, *openai.Error) // for requests that could not be read
	MaxBody func() int                                // bytes
	InHand  *InHand
	Logger  *slog.Logger
}

// NewServer returns a server with what fasthttp leaves open closed: whole bodies only, limits on size and time, no
// multipart parsing of its own, and our errors instead of its plain texts.
func NewServer(c ServerConfig) *fasthttp.Server {
	return &fasthttp.Server{
		Handler: func(rc *fasthttp.RequestCtx) {
			c.Handle(rc)
			if len(rc.Request.Header.Peek("Upgrade")) > 0 && !rc.Hijacked() {
				rc.SetConnectionClose() // somebody on the way may take it for a tunnel all the same
			}
		},
		ConnState: c.InHand.connState,
		ErrorHandler: func(rc *fasthttp.RequestCtx, err error) {
			c.Refuse(rc, readError(err, c.MaxBody()))
			rc.SetConnectionClose()
		},
		HeaderReceived: func(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
			return fasthttp.RequestConfig{ReadTimeout: bodyTimeout(h.ContentLength()), MaxRequestBodySize: c.MaxBody()}
		},
		ReadTimeout:                  readGrace,
		IdleTimeout:                  keepAlive,
		ReadBufferSize:               requestBuffer,
		Concurrency:                  maxConcurrent,
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true, // no bytes of a request in a log
		Logger:                       serverLog{c.Logger},
	}
}

// bodyTimeout is how long a body of that length may take; negative = chunked.
func bodyTimeout(length int) time.Duration {
	if length < 0 {
		return chunkedGrace
	}
	return readGrace + time.Duration(length/slowest)*time.Second
}

// readError says what was wrong with a request that could not be read.
func readError(err error, maxBody int) *openai.Error {
	var small *fasthttp.ErrSmallBuffer
	var timeout net.Error
	switch {
	case errors.As(err, &small):
		return openai.HeadersTooLarge(requestBuffer)
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return openai.RequestTooLarge(int64(maxBody))
	case errors.Is(err, fasthttp.ErrTimeout), errors.As(err, &timeout) && timeout.Timeout():
		return openai.RequestTimeout()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return openai.InvalidRequest("", "the body ended before its announced length")
	}
	return openai.InvalidRequest("", "the request is not well-formed HTTP/1.1")
}

// CheckHead runs the strict guard over a request's head as it stood on the wire. What came behind a chunked body is
// refused too: fasthttp answers for it as for headers, and nobody has looked at it.
func CheckHead(rc *fasthttp.RequestCtx) *openai.Error {
	h := &rc.Request.Header
	if len(h.PeekTrailerKeys()) > 0 {
		return openai.InvalidRequest("", "trailers are not supported")
	}
	return openai.CheckHead(openai.RequestHead{
		Method: h.Method(), Target: h.RequestURI(), Protocol: h.Protocol(), Raw: h.RawHeaders(), Host: h.Host(),
	})
}

// serverLog takes what fasthttp has to say: mostly connections that broke, which is no news.
type serverLog struct{ logger *slog.Logger }

// Printf implements fasthttp's logger.
func (l serverLog) Printf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if strings.Contains(text, "panic") { // in writing an answer, after the handler: fasthttp has caught it
		l.logger.Error("server: " + text)
		return
	}
	l.logger.Debug("server: " + text)
}

// Listen listens on address, with bounded buffers below every connection: a client that stops reading must not make the
// kernel store megabytes for it.
func Listen(address string) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return boundedListener{ln}, nil
}

type boundedListener struct{ net.Listener }

// Accept bounds the send buffer of each connection.
func (l boundedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(socketBuffer)
	}
	return c, nil
}
