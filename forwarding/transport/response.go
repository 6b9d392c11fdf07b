package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"colonnade/openai"
	"colonnade/reasons"
)

const (
	// maxHeld is how much of an answer is held back: a whole small answer, or a stream's head until its first event.
	maxHeld = 64 << 10
	// framingGrace is how long a stream that has properly ended may take to end its framing too.
	framingGrace = time.Second
)

// ReadOptions says how an answer is to be read.
type ReadOptions struct {
	API        openai.API
	StripUsage bool // take out the usage event that we asked for
	TrackUsage bool // find out what it took: see [Response.Usage]
}

// Response is a server's response: what came up to the first byte, and the rest as it comes. It is for one goroutine.
// Close must be called, and may be called again.
type Response struct {
	ctx           context.Context
	transport     *Transport
	target        Target
	conn          *conn
	lingerLimit   time.Duration
	deadline      time.Time // of the whole exchange
	unwatch       func() bool
	detached      bool // unwatch was called
	cancelledLate bool // by a cancellation that had begun before: the deadlines are not ours

	head     head
	body     body
	stream   *openai.Stream       // of an event stream; else nil
	usage    *openai.UsageScanner // follows a JSON body that is too long to be held
	held     []byte               // to be delivered before the body
	whole    bool                 // held is all there is
	switched bool                 // the connection is a WebSocket now
	size     int64                // bytes delivered
}

// Status is the HTTP status, or for a stream that began with an error event the status that the event says.
func (a *Response) Status() int {
	if a.stream != nil {
		if first, failed := a.stream.First(); first == openai.ErrorEvent && failed != nil {
			return failed.Status
		}
	}
	return a.head.status
}

// HTTPStatus is the status of the answer's head, also for a stream that began with an error event.
func (a *Response) HTTPStatus() int { return a.head.status }

// Header returns the first value of a header, or nothing.
func (a *Response) Header(name string) string { return a.head.get(name) }

// NotAPI reports an answer that is none of an API's, whatever its status says: a page for people, or a body in a
// coding that was not asked for, which its client could not read.
func (a *Response) NotAPI() bool { return a.head.encoded || openai.IsHTML(a.head.get("content-type")) }

// Stream returns what follows the answer's events, or nil if it is no event stream.
func (a *Response) Stream() *openai.Stream { return a.stream }

// Usage is what the answer says that it took, as far as it has been delivered, if its [ReadOptions] asked for it.
func (a *Response) Usage() (openai.Usage, bool) {
	switch {
	case a.stream != nil:
		return a.stream.Usage()
	case a.usage != nil:
		return a.usage.Usage()
	}
	return openai.BodyUsage(a.held)
}

// Body returns the whole body, if it has arrived: small answers and refusals do before [Transport.Do] returns.
func (a *Response) Body() ([]byte, bool) { return a.held, a.whole }

// ErrorBody is how an answer that is an error says what is wrong, as JSON: its body, or the data of the event that a
// stream began with. It is nil if that is too long to be held, or cannot be read.
func (a *Response) ErrorBody() []byte {
	if a.stream == nil {
		if a.whole && !a.head.encoded {
			return a.held
		}
		return nil
	}
	for line := range bytes.Lines(a.held) {
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if data = bytes.TrimSpace(data); ok && len(data) > 0 {
			return data
		}
	}
	return nil
}

// Cancelled returns the cause of the end of the context that the exchange runs under, or nil.
func (a *Response) Cancelled() error {
	if a.ctx == nil {
		return nil
	}
	return context.Cause(a.ctx)
}

// Linger is how long the other side is given to close after a cancellation: see [Request.Linger].
func (a *Response) Linger() time.Duration { return a.lingerLimit }

// Length is the body's length, or -1 if only its end will tell.
func (a *Response) Length() int64 {
	if a.stream != nil {
		return -1
	}
	return a.head.length
}

// readFirst reads as far as the answer commits us: a whole small answer, or a stream up to its first event.
func (a *Response) readFirst(s ReadOptions) error {
	if openai.IsEventStream([]byte(a.head.get("content-type"))) && a.head.status < 300 && !a.head.encoded {
		a.stream = openai.NewStream(openai.StreamConfig{API: s.API, StripUsage: s.StripUsage})
		return a.readFirstEvent()
	}
	if a.head.length > maxHeld {
		a.trackUsage(s)
		_, err := a.readSome()
		return err
	}
	for len(a.held) <= maxHeld {
		more, err := a.readSome()
		if err != nil {
			return err
		}
		if !more {
			a.whole = true
			a.finish()
			return nil
		}
	}
	a.trackUsage(s)
	return nil
}

// trackUsage looks for the usage in what will pass.
func (a *Response) trackUsage(s ReadOptions) {
	if s.TrackUsage && openai.IsJSON(a.head.get("content-type")) {
		a.usage = new(openai.UsageScanner)
	}
}

// readSome adds the next piece to what is held. It reports false at the body's end.
func (a *Response) readSome() (bool, error) {
	piece, err := a.body.next()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	a.held = append(a.held, piece...)
	return true, err
}

func (a *Response) readFirstEvent() error {
	for len(a.held) <= maxHeld {
		piece, err := a.body.next()
		if errors.Is(err, io.EOF) {
			return errEmptyStream
		}
		if err != nil {
			return err
		}
		a.held = append(a.held, a.stream.Feed(piece)...)
		if err := a.stream.Err(); err != nil {
			return err
		}
		if first, _ := a.stream.First(); first != openai.NoEvent {
			return nil
		}
	}
	return nil
}

var errEmptyStream = errors.New("stream ended before its first event")

// Next returns the bytes to deliver next, valid until the following call; it may return none and no error. At the end
// that the other side meant it returns io.EOF, else an [ExchangeError] or the context's cause.
func (a *Response) Next() ([]byte, error) {
	if held := a.held; held != nil {
		a.held = nil
		a.delivered(held)
		return held, nil
	}
	if a.conn == nil {
		return nil, io.EOF
	}
	if a.stream != nil && a.stream.Ended() {
		a.conn.IdleTimeout = framingGrace
	}
	piece, err := a.body.next()
	switch {
	case errors.Is(err, io.EOF):
		a.finish()
		return a.streamTail()
	case err != nil:
		return nil, exchangeError(a.ctx, PhaseStream, err)
	}
	if a.stream != nil {
		piece = a.stream.Feed(piece)
		if err := a.stream.Err(); err != nil {
			return nil, &ExchangeError{Phase: PhaseStream, Err: err}
		}
	}
	a.delivered(piece)
	return piece, nil
}

// delivered takes note of what is delivered.
func (a *Response) delivered(piece []byte) {
	a.size += int64(len(piece))
	if a.usage != nil {
		a.usage.Write(piece)
	}
}

// streamTail returns what a stream that ended without an empty line still has.
func (a *Response) streamTail() ([]byte, error) {
	if a.stream != nil {
		if tail := a.stream.Finish(); len(tail) > 0 {
			a.size += int64(len(tail))
			return tail, nil
		}
	}
	return nil, io.EOF
}

// TimeoutReason returns which limit an answer that has timed out has reached.
func (a *Response) TimeoutReason() string {
	if !a.deadline.IsZero() && !time.Now().Before(a.deadline) {
		return reasons.TotalTimeout
	}
	return reasons.IdleTimeout
}

// Size is how many bytes Next has returned.
func (a *Response) Size() int64 { return a.size }

// Done reports whether all of a body of known length has been returned by Next.
func (a *Response) Done() bool {
	return a.conn == nil || a.stream == nil && a.body.done && a.held == nil
}

// DetachContext ends the watch over the context, whose end has no effect after it.
func (a *Response) DetachContext() {
	if !a.detached {
		a.detached, a.cancelledLate = true, !a.unwatch()
	}
}

// finish ends an exchange whose answer was read to its end.
func (a *Response) finish() {
	c := a.conn
	if c == nil {
		return
	}
	a.conn = nil
	a.DetachContext()
	reusable := !a.cancelledLate && !a.head.close && a.body.framing != framingClose && a.body.held == 0 && c.br.Buffered() == 0
	if !reusable {
		c.Close()
		a.transport.releaseReader(c)
		return
	}
	a.transport.put(a.target, c)
}

// Close ends the exchange. Unless the answer was read to its end, the connection is closed, and the other side is given
// [Request.Linger] to close it too.
func (a *Response) Close() {
	c := a.conn
	if c == nil {
		return
	}
	a.conn = nil
	a.DetachContext()
	c.Linger(a.lingerLimit)
	a.transport.releaseReader(c)
}

// NewResponse returns a whole response of our own, with a body of contentType.
func NewResponse(status int, contentType string, body []byte) *Response {
	return &Response{
		head:  head{status: status, length: int64(len(body)), lines: "Content-Type: " + contentType},
		held:  body,
		whole: true,
	}
}
