package server

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/netconn"
	"colonnade/openai"
)

// WriteError writes e as the response, in the dialect of the request's path. The id of the request may be empty.
func WriteError(rc *fasthttp.RequestCtx, e *openai.Error, requestID string) {
	h := &rc.Request.Header
	WriteErrorIn(rc, openai.DialectOf(h.RequestURI(), len(h.Peek("anthropic-version")) > 0), e, requestID)
}

// WriteErrorIn writes e as the response, in a dialect. The id of the request may be empty.
func WriteErrorIn(rc *fasthttp.RequestCtx, d openai.Dialect, e *openai.Error, requestID string) {
	renderError(&rc.Response, d, e, requestID)
	_ = rc.SetWriteDeadline(time.Now().Add(netconn.WriteStall))
}

// renderError makes a response of an error. No other function does.
func renderError(r *fasthttp.Response, d openai.Dialect, e *openai.Error, requestID string) {
	eachErrorField(d, e, requestID, func(name, value string) { SetUnlessEmpty(&r.Header, name, value) })
	renderBody(r, e.Status, "application/json", e.AppendBody(nil, d, requestID))
}

// eachErrorField calls set with the name and value of each header of an error; a value may be empty.
func eachErrorField(d openai.Dialect, e *openai.Error, requestID string, set func(name, value string)) {
	if requestID != "" {
		EachRequestID(d, requestID, func(name HeaderName, id string) { set(name.String(), id) })
	}
	set(hop.HeaderReason, e.Reason)
	set("Allow", e.Allow)
	if e.RetryAfter > 0 {
		seconds := (e.RetryAfter + time.Second - 1) / time.Second
		set(hop.HeaderRetryAfter, strconv.Itoa(int(seconds)))
		set(hop.HeaderRetryAfterMS, strconv.FormatInt(e.RetryAfterMS(), 10))
	}
	if e.NoRetry {
		set(hop.HeaderShouldRetry, "false")
	}
	if e.Status == fasthttp.StatusUnauthorized {
		set("WWW-Authenticate", "Bearer")
	}
}

// WriteBody writes a body as the response.
func WriteBody(rc *fasthttp.RequestCtx, status int, contentType string, body []byte) {
	renderBody(&rc.Response, status, contentType, body)
	_ = rc.SetWriteDeadline(time.Now().Add(netconn.WriteStall))
}

func renderBody(r *fasthttp.Response, status int, contentType string, body []byte) {
	r.SetStatusCode(status)
	r.Header.SetContentType(contentType)
	r.SetBodyRaw(body)
}

// EachRequestID calls set with the name and value of each header in which clients of a dialect read the id of the request.
func EachRequestID(d openai.Dialect, id string, set func(name HeaderName, value string)) {
	set(requestIDHeader, id)
	if d == openai.DialectAnthropic {
		set(anthropicIDHeader, id)
	}
}

// SetUnlessEmpty sets a header, unless its value would be empty.
func SetUnlessEmpty(h *fasthttp.ResponseHeader, name, value string) {
	if value != "" {
		h.Set(name, value)
	}
}
