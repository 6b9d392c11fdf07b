package entry

import (
	"slices"
	"strings"
	"time"

	"colonnade/analytics/capture"
	"colonnade/forwarding/hop"
	"colonnade/openai"
)

// capturedHeaders are the request headers that a capture has, beside those of Colonnade and of the SDKs (x-colonnade-…, x-stainless-…). None
// of them has a key.
var capturedHeaders = []string{
	"accept", "content-length", "content-type", "openai-beta", "origin", "traceparent", "tracestate", "user-agent", hop.HeaderRequestID, "x-session-affinity",
}

// beginCapture begins the record of the request, if its account is captured. The client learns that from a header.
func (c *call) beginCapture() {
	if c.capture != nil || c.caller.Account == nil {
		return
	}
	if c.capture = c.entry.captures.Begin(c.caller.Account.Name); c.capture == nil {
		return
	}
	c.rc.Response.Header.Set(hop.HeaderCaptured, c.capturedUntil())
	path, _, _ := strings.Cut(string(c.rc.RequestURI()), "?") // a query may have a key
	headers := map[string]string{}
	for name, value := range c.rc.Request.Header.All() {
		if name := strings.ToLower(string(name)); isCaptured(name) {
			headers[name] = string(value)
		}
	}
	c.capture.Describe(capture.Request{ID: c.id, ClientID: c.clientID, Method: string(c.rc.Method()), Path: path, Headers: headers})
}

// isCaptured reports whether a capture has a request header, by its name in lower case.
func isCaptured(name string) bool {
	return strings.HasPrefix(name, "x-colonnade-") || strings.HasPrefix(name, "x-stainless-") || slices.Contains(capturedHeaders, name)
}

// capturedUntil returns when the capture ends, for the client.
func (c *call) capturedUntil() string { return c.capture.Until().UTC().Format(time.RFC3339) }

// captureBody gives the request's body to its capture.
func (c *call) captureBody() {
	if c.capture != nil {
		c.capture.RequestBody(c.raw)
	}
}

// captureAnswer gives the answer to the capture when the handler returns. The body of one that streams follows, while it is written. The
// messages of a realtime session are not captured.
func (c *call) captureAnswer(streaming bool) {
	if c.capture == nil {
		return
	}
	response := &c.rc.Response
	status, headers := response.StatusCode(), map[string]string{}
	for name, value := range response.Header.All() {
		headers[strings.ToLower(string(name))] = string(value)
	}
	if streaming && c.route.API == openai.Realtime {
		status, streaming = 101, false
	} else if !streaming {
		c.capture.ResponseBody(response.Body())
	}
	c.capture.Answer(status, headers)
	if !streaming {
		c.capture.End()
	}
}
