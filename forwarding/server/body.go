package server

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/netconn"
	"colonnade/openai"
	"colonnade/reasons"
)

const (
	// maxPrefetch is how much of a body is there before a handler is called. The handler reads the rest of a longer one
	// itself, or one that comes in chunks: by then it knows who sends it.
	maxPrefetch = 8 << 10
	// progress is what a body must bring in each window, unless that is its end: a client on a bad link gets a large
	// one through, and nobody keeps a connection by dripping.
	progressWindow = 10 * time.Second
	minProgress    = 8 << 10
	// minProgressLoaded is what it must bring once bodies that are not whole yet hold half of the memory that they may:
	// whoever holds much of it then has to pay with bandwidth.
	minProgressLoaded = 256 << 10
)

var errBodyTooLarge = errors.New("body is too large")

// ReadBody reads the request's body, of at most limit bytes. It is valid until the answer's end. A request that is
// answered without, or after an error, is its connection's last: see [NewServer].
func (c *Request) ReadBody(rc *fasthttp.RequestCtx, limit int) ([]byte, *openai.Error) {
	stream := rc.Request.BodyStream()
	if stream == nil {
		return nil, nil
	}
	body, err := c.readBody(rc, stream, limit)
	if err != nil {
		return nil, bodyError(err, limit)
	}
	if len(rc.Request.Header.PeekTrailerKeys()) > 0 {
		return nil, noTrailers() // fasthttp answers for them as for headers, and nobody has looked at them
	}
	rc.Request.SetBodyRaw(body) // and the stream is gone, which says that the body was read to its end
	return body, nil
}

func (c *Request) readBody(rc *fasthttp.RequestCtx, stream io.Reader, limit int) ([]byte, error) {
	length := rc.Request.Header.ContentLength()
	switch {
	case length > limit:
		return nil, errBodyTooLarge
	case length >= 0 && length <= maxPrefetch: // the server has it
		body := shortBodyBuffer(rc.Conn(), length)
		_, err := io.ReadFull(stream, body)
		return body, err
	}
	in := bodyReader{conn: rc.Conn(), stream: stream, length: length, limit: limit, bodies: &c.inflight.bodies}
	err := in.readAll(c.Context)
	c.body = in.body // until it is let go
	return in.body, err
}

// bodyReader reads one body.
type bodyReader struct {
	conn   net.Conn
	stream io.Reader
	length int // announced; negative = in chunks
	limit  int
	bodies *bodyMemory

	body    []byte
	counted int // bytes that are counted
}

func (in *bodyReader) readAll(ctx context.Context) error {
	defer func() { in.bodies.release(in.counted) }()
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_ = in.conn.SetReadDeadline(netconn.PastDeadline())
	})
	defer func() {
		if !stop() {
			<-woken // no deadline may move any more
		}
	}()
	for whole := false; !whole; {
		deadline := time.Now().Add(progressWindow)
		if err := in.conn.SetReadDeadline(deadline); err != nil {
			return err
		}
		// After the deadline has moved: it is moved back after the context's end, so one of the two is seen.
		if ctx.Err() != nil {
			return netconn.ErrCancelled
		}
		var err error
		whole, err = in.readWindow(len(in.body) + in.bodies.required(in.limit))
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return netconn.ErrCancelled
		case !time.Now().Before(deadline):
			return os.ErrDeadlineExceeded // which fasthttp hides inside chunks
		default:
			return err
		}
	}
	return nil
}

// readWindow reads until so much of the body is there, or all of it.
func (in *bodyReader) readWindow(until int) (whole bool, err error) {
	for len(in.body) < until {
		if len(in.body) == cap(in.body) {
			if err := in.grow(); err != nil {
				return false, err
			}
		}
		n, err := in.stream.Read(in.body[len(in.body):cap(in.body)])
		in.body = in.body[:len(in.body)+n]
		switch {
		case len(in.body) > in.limit:
			return false, errBodyTooLarge
		case errors.Is(err, io.EOF):
			return true, in.checkEnd()
		case err != nil:
			return false, err
		}
	}
	return false, nil
}

// grow makes room for as much again as has come, and not for more than may come.
func (in *bodyReader) grow() error {
	most := in.limit + 1
	if in.length >= 0 {
		most = in.length
	}
	size := max(2*len(in.body), minBuffer)
	if size+size/8 > most {
		size = most // with the last bit of it too
	}
	size = roundUp(size)
	if err := in.bodies.reserve(size, in.limit); err != nil { // beside what there is, until that has been copied
		return err
	}
	grown := append(in.bodies.get(size), in.body...)
	in.bodies.put(in.body)
	in.bodies.release(in.counted)
	in.body, in.counted = grown, size
	return nil
}

// checkEnd tells a body's end from that of its connection, which fasthttp's stream does not: io.EOF is either. A stream
// that has ended says so again, without reading; another one tries to read, and finds that its time is over.
func (in *bodyReader) checkEnd() error {
	if in.length >= 0 {
		if len(in.body) < in.length {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	if err := in.conn.SetReadDeadline(netconn.PastDeadline()); err != nil {
		return err
	}
	if _, err := in.stream.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// bodyError says what was wrong with a body that could not be read.
func bodyError(err error, limit int) *openai.Error {
	switch {
	case errors.Is(err, errBodyTooLarge):
		return openai.RequestTooLarge(int64(limit))
	case errors.Is(err, errBodyMemory):
		return openai.Unavailable(reasons.BodyMemory, time.Second)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return openai.RequestTimeout("its body must bring 8 KiB every 10 s, or its end")
	case errors.Is(err, netconn.ErrCancelled): // by us: nobody watches the client yet
		return openai.Unavailable(reasons.Draining, time.Second)
	}
	return readError(err)
}
