package server

import (
	"io"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/netconn"
	"colonnade/openai"
)

// Head is the head of a request of another node: in text, or binary.
type Head struct {
	text   *fasthttp.RequestHeader // nil = it is binary
	binary hop.RequestHead
}

// TextHead returns a head that fasthttp has parsed.
func TextHead(h *fasthttp.RequestHeader) *Head { return &Head{text: h} }

// Check returns an error for a head that two servers could read differently: see [CheckHead]. A binary one can be read in one way only, and
// [hop.ParseRequestHead] has refused values with control characters.
func (h *Head) Check() *openai.Error {
	if h.text != nil {
		return CheckHead(h.text, 0)
	}
	return nil
}

// Method returns the method.
func (h *Head) Method() []byte {
	if h.text != nil {
		return h.text.Method()
	}
	return h.binary.Method
}

// Target returns the target of the request line.
func (h *Head) Target() []byte {
	if h.text != nil {
		return h.text.RequestURI()
	}
	return h.binary.Target
}

// Field returns the first value of a header.
func (h *Head) Field(name string) []byte {
	if h.text != nil {
		return h.text.Peek(name)
	}
	return h.binary.Fields.Get(name)
}

// Exchange is a request of another node and its answer: as HTTP/1.1 on a connection or a stream, or with binary heads on a stream of a link. Its methods
// return parts of memory that is used again once the answer has been written, which happens after the handler has returned.
type Exchange struct {
	Head
	Arrived time.Time // when the head had; in text, with the first 8 KiB of the body

	rc   *fasthttp.RequestCtx // nil = the heads are binary, and the field below is in use
	wire binaryExchange
}

// TextExchange returns the exchange of a request that fasthttp has parsed.
func TextExchange(rc *fasthttp.RequestCtx) *Exchange {
	return &Exchange{Head: Head{text: &rc.Request.Header}, Arrived: rc.Time(), rc: rc}
}

// Text returns what fasthttp knows of the exchange, or nil for one with binary heads.
func (x *Exchange) Text() *fasthttp.RequestCtx { return x.rc }

// Conn returns the connection, or the stream of a link.
func (x *Exchange) Conn() net.Conn {
	if x.rc != nil {
		return x.rc.Conn()
	}
	return x.wire.conn
}

// ReadBody is [Request.ReadBody].
func (x *Exchange) ReadBody(r *Request, limit int, account string) ([]byte, *openai.Error) {
	if x.rc != nil {
		return r.ReadBody(x.rc, limit, account)
	}
	body, err := x.wire.readBody(r, x.Head.binary.Length, limit, account)
	if err != nil {
		return nil, bodyError(err, limit)
	}
	return body, nil
}

// SetField sets a header of the answer, once, unless the value is empty.
func (x *Exchange) SetField(name, value string) {
	if x.rc != nil {
		SetUnlessEmpty(&x.rc.Response.Header, name, value)
		return
	}
	x.wire.output = hop.AppendHeadField(x.wire.output, name, value)
}

// WriteWhole makes a body the answer. It must not change until that has been written.
func (x *Exchange) WriteWhole(status int, contentType string, body []byte) {
	if x.rc != nil {
		WriteBody(x.rc, status, contentType, body)
		return
	}
	x.begin(status, contentType)
	x.wire.whole, x.wire.write = body, nil
}

// KeepBody keeps the body of WriteWhole at least until its answer has been written. It returns the body of an earlier answer that was written, or nil. It is for
// binary heads only.
func (x *Exchange) KeepBody(body []byte) (earlier []byte) {
	m := x.wire.memory
	earlier, m.body = m.body, body
	return earlier
}

// WriteError makes e the answer, in the dialect of the request's path. The id of the request may be empty.
func (x *Exchange) WriteError(e *openai.Error, requestID string) {
	if x.rc != nil {
		WriteError(x.rc, e, requestID)
		return
	}
	d := openai.DialectOf(x.Target(), len(x.Field("anthropic-version")) > 0)
	eachErrorField(d, e, requestID, x.SetField)
	x.WriteWhole(e.Status, "application/json", e.AppendBody(nil, d, requestID))
}

// WriteBody has body called after the handler has returned, with a writer of the answer's body: of so many bytes, or for -1 of one chunk by each call. An
// error of body resets the stream. The request must stay open until body has returned. It is for binary heads only.
func (x *Exchange) WriteBody(status int, contentType string, length int64, body func(io.Writer) error) {
	x.begin(status, contentType)
	x.wire.length, x.wire.write = length, body
}

// Suspend lets the exchange wait without a goroutine. After the handler has returned, the server calls start with a function wake. The owner of the wait calls wake
// once, when the wait is over; wake does not block. A worker then calls goOn in place of the handler. The handler must return at once, and the request must stay
// open. It is for binary heads only.
func (x *Exchange) Suspend(start func(wake func()), goOn func()) {
	if x.rc != nil {
		panic("an exchange in text cannot be suspended")
	}
	x.wire.start, x.wire.goOn = start, goOn
}

func (x *Exchange) begin(status int, contentType string) {
	x.SetField("Content-Type", contentType)
	x.wire.status = status
	_ = x.wire.conn.SetWriteDeadline(time.Now().Add(netconn.WriteStall))
}

// CloseConn makes the answer the last of its connection. A stream carries no other.
func (x *Exchange) CloseConn() {
	if x.rc != nil {
		x.rc.SetConnectionClose()
	}
}
