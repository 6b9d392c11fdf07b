package server

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/netconn"
	"colonnade/openai"
)

// WriteError answers with e. An empty id is left out.
func WriteError(rc *fasthttp.RequestCtx, e *openai.Error, requestID string) {
	renderError(&rc.Response, e, requestID)
	_ = rc.SetWriteDeadline(time.Now().Add(netconn.WriteStall))
}

// renderError is the one place where an error becomes a response.
func renderError(r *fasthttp.Response, e *openai.Error, requestID string) {
	h := &r.Header
	SetUnlessEmpty(h, hop.HeaderRequestID, requestID)
	SetUnlessEmpty(h, hop.HeaderReason, e.Reason)
	SetUnlessEmpty(h, "Allow", e.Allow)
	if e.RetryAfter > 0 {
		seconds := (e.RetryAfter + time.Second - 1) / time.Second
		h.Set(hop.HeaderRetryAfter, strconv.Itoa(int(seconds)))
		h.Set(hop.HeaderRetryAfterMS, strconv.FormatInt(e.RetryAfterMS(), 10))
	}
	if e.NoRetry {
		h.Set(hop.HeaderShouldRetry, "false")
	}
	if e.Status == fasthttp.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	renderBody(r, e.Status, "application/json", e.AppendJSON(nil, requestID))
}

// WriteBody answers with a body of our own, for which the client does not have for ever.
func WriteBody(rc *fasthttp.RequestCtx, status int, contentType string, body []byte) {
	renderBody(&rc.Response, status, contentType, body)
	_ = rc.SetWriteDeadline(time.Now().Add(netconn.WriteStall))
}

func renderBody(r *fasthttp.Response, status int, contentType string, body []byte) {
	r.SetStatusCode(status)
	r.Header.SetContentType(contentType)
	r.SetBodyRaw(body)
}

func SetUnlessEmpty(h *fasthttp.ResponseHeader, name, value string) {
	if value != "" {
		h.Set(name, value)
	}
}
