package transport

import (
	"bytes"
	"context"
	"errors"
	"time"

	"colonnade/internal/lazyctx"
	"colonnade/openai"
	"colonnade/reasons"
)

const (
	// maxHeld is how many bytes of a response are held: a small response as a whole, or a stream up to its first event.
	maxHeld = 64 << 10
	// framingGrace is how long after the last event of a stream its framing may take to end.
	framingGrace = time.Second
)

// ReadOptions is how to read a response.
type ReadOptions struct {
	API        openai.API
	Dialect    openai.Dialect // of the client's route
	StripUsage bool           // remove the usage event, for which the request has asked and its client has not
	TrackUsage bool           // extract the usage and the end: see [Response.Usage] and [Response.JSONEnd]
	// AnswerModel, unless it is empty, is written in place of the model's name in a successful response: see [openai.ModelRenamer].
	AnswerModel string
	// Parts is how many completions a stream of llama.cpp's own API has, each with an end of its own.
	Parts openai.StreamParts
	// Translate turns the events of a stream into those of the client's API; nil = none.
	Translate *openai.Translator
	// Hold is how many bytes of a response that is no stream are held, if they are all of it; 0 = 64 KiB.
	Hold int
	// RequireFraming refuses a response that only the end of the connection delimits, which no node sends.
	RequireFraming bool
}

// Response is a response of which the first byte has arrived. Next returns the bytes that were held until then, and the rest as it
// arrives. A response is for one goroutine. Close must be called, and may be called several times.
type Response struct {
	ctx         context.Context
	abort       *Abort // nil = none
	transport   *Transport
	conn        *conn
	lingerLimit time.Duration
	deadline    time.Time    // of the exchange
	watch       lazyctx.Hook // calls Conn.Cancel at the end of ctx; see release

	// A request that waits has a Response, so fields of one byte stand together.
	api           openai.API
	detached      bool // from the context
	connCancelled bool // the context ended before detached: the connection's deadlines are in the past, or will be
	whole         bool // held is the whole body
	swapped       bool // SwapBody has given held away
	unsent        bool // nothing of the request was sent
	upgraded      bool // the connection is a WebSocket now
	ending        bool // limitFraming was called

	turnaround time.Duration // see Turnaround

	head    head
	body    body
	stream  *openai.Stream       // nil unless the response is an event stream
	usage   *openai.UsageScanner // scans a JSON body that is too long to be held
	renamer *renamer             // nil = the model's name stays
	held    []byte               // returned by Next before the rest of the body
	memory  *[]byte              // of held, if that has been memory of another response: see SwapBody
	pulled  *pulled              // returned by pull before it reads on; nil = nothing
	size    int64                // bytes that Next has returned
}

// Status returns the HTTP status, or the status in the first event of a stream if that is an error.
func (resp *Response) Status() int {
	if resp.stream != nil {
		if first, failed := resp.stream.First(); first == openai.ErrorEvent && failed != nil {
			return failed.Status
		}
	}
	return resp.head.status
}

// HTTPStatus returns the status in the head.
func (resp *Response) HTTPStatus() int { return resp.head.status }

// Header returns the first value of a header, or "".
func (resp *Response) Header(name string) string { return resp.head.get(name) }

// NotAPI reports whether the response is no API's, whatever its status: an HTML page, or a body with a content coding, which the
// request did not accept.
func (resp *Response) NotAPI() bool {
	return resp.head.encoded || openai.IsHTML(resp.head.get("content-type"))
}

// Stream returns the state of an event stream, or nil for any other response.
func (resp *Response) Stream() *openai.Stream { return resp.stream }

// Usage returns the usage that the response has reported so far. TrackUsage is needed for long bodies.
func (resp *Response) Usage() (openai.Usage, bool) {
	switch {
	case resp.stream != nil:
		return resp.stream.Usage()
	case resp.usage != nil:
		return resp.usage.Usage()
	}
	return openai.BodyUsage(resp.api, resp.held)
}

// Body returns the body, and whether it is whole. A small body that is no stream is whole when [Transport.Do] returns.
func (resp *Response) Body() ([]byte, bool) { return resp.held, resp.whole }

// ErrorBody returns the JSON of a response that is an error: its body, or the data of the first event of a stream. It is nil if that
// is too long to be held, or has a content coding.
func (resp *Response) ErrorBody() []byte {
	if resp.stream == nil {
		if resp.whole && !resp.head.encoded {
			return resp.held
		}
		return nil
	}
	for line := range bytes.Lines(resp.held) {
		data, ok := line, true // of JSON
		if resp.stream.Framing() != openai.JSONLines {
			data, ok = bytes.CutPrefix(line, []byte("data:"))
		}
		if data = bytes.TrimSpace(data); ok && len(data) > 0 {
			return data
		}
	}
	return nil
}

// Cancelled returns the cause of the end of the exchange's context, or nil. A whole body is not affected by that.
func (resp *Response) Cancelled() error {
	if resp.ctx == nil || resp.whole || resp.ctx.Err() == nil { // Cause costs more
		return nil
	}
	return context.Cause(resp.ctx)
}

// Turnaround returns the time from the first byte of the request on this connection until the head of the response had arrived, so
// without the time for making the connection. It is 0 if that is not known: of a response that came before the whole request was sent.
func (resp *Response) Turnaround() time.Duration { return resp.turnaround }

// Linger returns [Request.Linger].
func (resp *Response) Linger() time.Duration { return resp.lingerLimit }

// Length returns the length of the body in bytes, or -1 if it is unknown.
func (resp *Response) Length() int64 {
	if resp.stream != nil || resp.renamer != nil {
		return -1
	}
	return resp.head.length
}

// CloseDelimited reports whether only the end of the connection ends the body, so that a truncated one looks complete.
func (resp *Response) CloseDelimited() bool { return resp.body.framing == framingClose }

// IsJSON reports whether the body is JSON by its content type.
func (resp *Response) IsJSON() bool { return openai.IsJSON(resp.head.get("content-type")) }

// JSONEnd returns the end of what Next has returned of a long JSON body that is tracked; of any other body it is unclear.
func (resp *Response) JSONEnd() openai.JSONEnd {
	if resp.usage == nil {
		return openai.JSONUnclear
	}
	return resp.usage.End()
}

// TimeoutReason returns which limit a response that has timed out has reached.
func (resp *Response) TimeoutReason() string {
	if !resp.deadline.IsZero() && !time.Now().Before(resp.deadline) {
		return reasons.TotalTimeout
	}
	return reasons.IdleTimeout
}

// Size returns how many bytes Next has returned.
func (resp *Response) Size() int64 { return resp.size }

// Done reports whether Next has returned all of the body. It is known early only for a body of known length.
func (resp *Response) Done() bool {
	return resp.conn == nil || resp.stream == nil && resp.body.done && resp.held == nil
}

// DetachContext ends the effect of the context on the exchange.
func (resp *Response) DetachContext() {
	if !resp.detached {
		resp.detached, resp.connCancelled = true, !resp.release()
	}
}

// Abort returns an Abort that ends the exchange from now on, also while Next waits.
func (resp *Response) Abort() *Abort {
	if resp.abort == nil {
		resp.abort = new(Abort)
		if resp.conn != nil {
			resp.abort.attach(resp.conn.cancel)
		}
	}
	return resp.abort
}

// Arrived returns about how many bytes have arrived that Next has not returned.
func (resp *Response) Arrived() int {
	c := resp.conn
	if c == nil {
		return 0
	}
	n := c.Arrived()
	if c.br != nil {
		n += c.br.Buffered() - resp.body.held
	}
	return n
}

// release stops Conn.Cancel at the end of the context and of the request's Abort, and reports whether neither has called it.
func (resp *Response) release() bool {
	aborted := resp.abort.detach()
	return resp.watch.Stop() && !aborted
}

// finish ends an exchange whose response was read to its end.
func (resp *Response) finish() {
	c := resp.conn
	if c == nil {
		return
	}
	resp.conn = nil
	resp.DetachContext()
	if s := c.Stream(); s != nil {
		s.Finish()
		resp.releaseOverLink(c)
		return
	}
	reusable := !resp.connCancelled && !resp.head.close && resp.body.framing != framingClose && resp.body.held == 0
	if reusable && c.br.Buffered() > 0 {
		behind, _ := c.br.Peek(c.br.Buffered())
		err := checkUnread(behind, 0)
		if reusable = err == nil; errors.Is(err, errOutOfTurn) {
			resp.transport.idle.distrust(c.target.Address)
		}
	}
	if !reusable {
		c.Close()
		resp.transport.releaseReader(c)
		return
	}
	resp.transport.put(c)
}

// Close ends the exchange. Unless the response was read to its end, it closes the connection, and waits for up to [Request.Linger]
// until the server has closed it too.
func (resp *Response) Close() {
	c := resp.conn
	if c == nil {
		return
	}
	resp.conn = nil
	resp.DetachContext()
	c.Linger(resp.lingerLimit)
	resp.transport.releaseReader(c)
}

// NewAnswer returns an answer of an API that is JSON, and is whole.
func NewAnswer(api openai.API, status int, body []byte) *Response {
	resp := NewResponse(status, "application/json", body)
	resp.api = api
	return resp
}

// NewResponse returns a whole response of our own, with a body of contentType.
func NewResponse(status int, contentType string, body []byte) *Response {
	return &Response{
		head:     head{status: status, length: int64(len(body)), lines: "Content-Type: " + contentType},
		held:     body,
		whole:    true,
		detached: true, // it has no context
	}
}
