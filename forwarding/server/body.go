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
	"colonnade/internal/lazyctx"
	"colonnade/openai"
)

const (
	// maxPrefetch is how many bytes of a body arrive before the handler is called. The handler reads a longer body, or a chunked one,
	// itself: by then it has authenticated the client.
	maxPrefetch = 8 << 10
	// minProgress is how many bytes of a body must arrive in each progressWindow, unless the body ends. A client with a slow link
	// can send a large body, and no client can hold a connection by a byte at a time.
	progressWindow = 10 * time.Second
	minProgress    = 8 << 10
	// A body that holds more than cheapMemory must bring a share of the rest in addition: one part of progressPart. So a client pays for
	// memory with bandwidth, and a body that has stopped after 16 MiB does not hold them for long by a byte at a time.
	cheapMemory  = 512 << 10
	progressPart = 16
	// minProgressLoaded and progressPartLoaded hold instead while the client's bodies hold half of the memory that they may.
	minProgressLoaded  = 256 << 10
	progressPartLoaded = 4
)

var errBodyTooLarge = errors.New("body is too large")

// ReadBody reads the body of the request, of at most limit bytes. Its memory is counted to the account while it arrives, or without one
// to the client's address. The body is valid until the response has been written. If ReadBody is not called, or returns an error, the
// response is the last of its connection: see [New].
func (r *Request) ReadBody(rc *fasthttp.RequestCtx, limit int, account string) ([]byte, *openai.Error) {
	stream := rc.Request.BodyStream()
	if stream == nil {
		return nil, nil
	}
	body, err := r.readBody(rc, stream, limit, account)
	if err != nil {
		return nil, bodyError(err, limit)
	}
	if len(rc.Request.Header.PeekTrailerKeys()) > 0 {
		return nil, noTrailers() // fasthttp adds them to the headers, unchecked
	}
	rc.Request.SetBodyRaw(body) // removes the stream, which tells mayHaveUnread that the body was read
	return body, nil
}

// BodyArrived reports whether the whole body of a request had arrived when the handler was called.
func BodyArrived(h *fasthttp.RequestHeader) bool {
	length := h.ContentLength()
	return length >= 0 && length <= maxPrefetch
}

func (r *Request) readBody(rc *fasthttp.RequestCtx, stream io.Reader, limit int, account string) ([]byte, error) {
	length := rc.Request.Header.ContentLength()
	switch {
	case length > limit:
		return nil, errBodyTooLarge
	case BodyArrived(&rc.Request.Header):
		body := shortBodyBuffer(rc.Conn(), length)
		_, err := io.ReadFull(stream, body)
		return body, err
	}
	return r.readLongBody(rc.Conn(), stream, length, limit, account)
}

// readLongBody reads a body that may take long to arrive. A negative length means that it is chunked.
func (r *Request) readLongBody(conn net.Conn, stream io.Reader, length, limit int, account string) ([]byte, error) {
	in := bodyReader{conn: conn, stream: stream, length: length, limit: limit, memory: &r.inflight.bodyMemory}
	in.share.conn, in.share.key = in.conn, holderOf(in.conn, account)
	if err := in.readAll(r.Context); err != nil {
		in.memory.put(in.body)
		return nil, err
	}
	r.body = in.body // until Close
	return in.body, nil
}

func holderOf(c net.Conn, account string) holderKey {
	if account != "" {
		return holderKey{account: account}
	}
	return holderKey{network: clientPrefix(c.RemoteAddr())}
}

// bodyReader reads one body.
type bodyReader struct {
	conn   net.Conn
	stream io.Reader
	length int // from Content-Length; negative = chunked
	limit  int
	memory *bodyMemory

	body  []byte
	share unfinishedBody
}

// readAll reads the body. It ends early when ctx ends, or when the body is evicted from memory.
func (r *bodyReader) readAll(ctx context.Context) (err error) {
	defer func() {
		if evicted := r.memory.end(&r.share); evicted != nil {
			err = evicted
		}
	}()
	woken := make(chan struct{})
	var watch lazyctx.Hook
	watch.Attach(ctx, func() {
		defer close(woken)
		_ = r.conn.SetReadDeadline(netconn.PastDeadline())
	})
	defer func() {
		if !watch.Stop() {
			<-woken // so that no deadline moves after the return
		}
	}()
	for complete := false; !complete; {
		deadline := time.Now().Add(progressWindow)
		if err := r.conn.SetReadDeadline(deadline); err != nil {
			return err
		}
		// After the deadline was set: the end of ctx moves it afterwards, and so does an eviction. So either this check or the read
		// notices them.
		if ctx.Err() != nil || r.share.evicted.Load() {
			return netconn.ErrCancelled
		}
		var err error
		complete, err = r.readWindow(len(r.body) + r.required())
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return netconn.ErrCancelled
		case !time.Now().Before(deadline):
			return os.ErrDeadlineExceeded // fasthttp returns another error from inside a chunk
		default:
			return err
		}
	}
	return nil
}

// required returns how many bytes of the body must arrive in the next window.
func (r *bodyReader) required() int {
	own, holder := r.memory.holds(&r.share)
	if holder > r.memory.perHolder(r.limit)/2 {
		return int(max(minProgressLoaded, own/progressPartLoaded))
	}
	return int(max(minProgress, (own-cheapMemory)/progressPart))
}

// readWindow reads until the body has size bytes, or is complete.
func (r *bodyReader) readWindow(size int) (complete bool, err error) {
	for len(r.body) < size {
		if len(r.body) == cap(r.body) {
			if err := r.grow(); err != nil {
				return false, err
			}
		}
		n, err := r.stream.Read(r.body[len(r.body):cap(r.body)])
		r.body = r.body[:len(r.body)+n]
		switch {
		case len(r.body) > r.limit:
			return false, errBodyTooLarge
		case errors.Is(err, io.EOF):
			return true, r.checkEnd()
		case err != nil:
			return false, err
		}
	}
	return false, nil
}

// grow doubles the memory, up to what the body can have.
func (r *bodyReader) grow() error {
	most := r.limit + 1
	if r.length >= 0 {
		most = r.length
	}
	size := max(2*len(r.body), minBuffer)
	if size+size/8 > most {
		size = most // rather than a last step for a small rest
	}
	size = roundUp(size)
	if err := r.memory.reserve(&r.share, size, r.limit); err != nil { // in addition to the old memory, until that has been copied
		return err
	}
	grown, old := append(r.memory.get(size), r.body...), cap(r.body)
	r.memory.put(r.body)
	r.memory.release(&r.share, old)
	r.body = grown
	return nil
}

// checkEnd returns an error if the stream has ended with its connection, which fasthttp's stream reports as io.EOF, too. At the end
// of a chunked body the stream returns io.EOF again without reading; otherwise it reads, and the deadline has passed.
func (r *bodyReader) checkEnd() error {
	if r.length >= 0 {
		if len(r.body) < r.length {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	if err := r.conn.SetReadDeadline(netconn.PastDeadline()); err != nil {
		return err
	}
	if _, err := r.stream.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return nil
}
