package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/netconn"
)

// stream is the body of a response that is written without fasthttp. An exchange with binary heads has no fasthttp. An event stream in text may last for minutes, and fasthttp would keep its memory for the
// request all that time: a reader of MaxHead bytes, a writer, and the parsed request. So fasthttp gives the connection up as if it were hijacked,
// a goroutine writes the head and the body, and then fasthttp serves the connection again:
//
//	handler → WriteStream → detachStream: fasthttp hijacks → writeStream → serveAgain: the next request
type stream struct {
	// write writes the pieces of the body, each by one call of the writer.
	write  func(io.Writer) error
	head   []byte // not written yet
	last   bool   // the connection ends with this response
	length int64  // of the body; negative = it is written in chunks
}

// WriteStream registers body, which is called after the handler has returned, and writes the body of the response. Each call of its writer is one chunk, and
// an error of body closes the connection without the last chunk. The request must stay open until body has returned, and body must not use rc. WriteStream
// returns false, and does nothing, for a connection that is not of a [Server].
func WriteStream(rc *fasthttp.RequestCtx, body func(io.Writer) error) bool {
	c, ok := rc.Conn().(*serverConn)
	if ok {
		c.stream = &stream{write: body, length: -1}
	}
	return ok
}

// detachStream has the stream written for which the handler has called WriteStream, if it has.
func (s *Server) detachStream(rc *fasthttp.RequestCtx) {
	c := rc.Conn().(*serverConn)
	body := c.stream
	if body == nil {
		return
	}
	c.stream = nil
	if body.last = rc.Response.ConnectionClose() || rc.Request.Header.ConnectionClose(); body.last {
		rc.SetConnectionClose()
	}
	rc.Response.Header.SetContentLength(-1) // in chunks
	body.head = bytes.Clone(rc.Response.Header.Header())
	rc.HijackSetNoResponse(true)
	s.inflight.hijacks.add(c, func(*netconn.Conn) { s.writeStream(c, body) })
	rc.Hijack(func(nc net.Conn) {
		if run, ok := s.inflight.hijacks.take(c); ok {
			c.readAhead = drainReadAhead(nc, c)
			c.keptOpen.Add(1)
			go run(nil)
		}
	})
}

// abandonStream ends a stream whose handler has failed after WriteStream. It calls the body with a writer that fails, so that the body releases what
// it holds.
func (c *serverConn) abandonStream() {
	if body := c.stream; body != nil {
		c.stream = nil
		_ = body.write(closedWriter{})
	}
}

// closedWriter fails as a connection that is closed.
type closedWriter struct{}

func (closedWriter) Write([]byte) (int, error) { return 0, net.ErrClosed }

// writeStream writes a response, and serves the next requests of the connection.
func (s *Server) writeStream(c *serverConn, body *stream) {
	err := c.writeBody(body)
	var panicked PanicError
	switch {
	case errors.As(err, &panicked):
		s.logger.Error("panic while writing a stream", "panic", string(panicked))
	case err != nil:
		s.logger.Debug("stream was not written to its end", "error", err)
	}
	if err != nil {
		TruncateOnClose(c)
	}
	if err != nil || body.last {
		_ = c.Close()
		return
	}
	s.serveAgain(c)
}

// writeBody writes a response to its end. It recovers from panics, since the process would end.
func (c *serverConn) writeBody(body *stream) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = NewPanicError(recovered)
		}
	}()
	w := bodyWriter{conn: c, head: body.head, chunked: body.length < 0}
	if err := body.write(&w); err != nil {
		return err
	}
	end := w.head
	if w.chunked {
		end = append(end, "0\r\n\r\n"...)
	}
	if len(end) > 0 {
		_, err = c.Write(end)
	}
	return err
}

// serveAgain has fasthttp serve a connection whose response has been written to its end.
func (s *Server) serveAgain(c *serverConn) {
	_ = c.SetWriteDeadline(time.Time{})
	c.between = true
	onConnState(c, fasthttp.StateIdle)
	_ = s.http.ServeConn(c) // which closes it
}

// bodyWriter writes the pieces of a body, and the head with the first. If the body is chunked, each piece is a chunk.
type bodyWriter struct {
	conn    *serverConn
	head    []byte // not written yet
	chunked bool
}

func (w *bodyWriter) Write(piece []byte) (int, error) {
	written := piece
	switch {
	case w.chunked:
		written = AppendChunk(w.head, piece)
	case len(w.head) > 0:
		written = append(w.head, piece...)
	}
	w.head = nil
	if _, err := w.conn.Write(written); err != nil {
		return 0, err
	}
	return len(piece), nil
}

// AppendChunk appends a chunk of the chunked transfer coding. The piece must not be empty: that would be the last chunk.
func AppendChunk(dst, piece []byte) []byte {
	dst = strconv.AppendInt(dst, int64(len(piece)), 16)
	dst = append(dst, "\r\n"...)
	dst = append(dst, piece...)
	return append(dst, "\r\n"...)
}
