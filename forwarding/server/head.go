package server

import (
	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/httpguard"
	"colonnade/openai"
)

// lengthChunked is fasthttp's content length of a chunked body. That of a request without a body is below it.
const lengthChunked = -1

// CheckHead checks a request's head as it was on the wire: see [httpguard.CheckHead]. Content-Length may announce at most maxBody
// bytes.
func CheckHead(h *fasthttp.RequestHeader, maxBody int) *openai.Error {
	return httpguard.CheckHead(requestHead(h, maxBody))
}

// CheckLinkHead is CheckHead for a request that [Server.AcceptLink] may accept.
func CheckLinkHead(h *fasthttp.RequestHeader) *openai.Error {
	head := requestHead(h, 0)
	head.Upgrade = hop.UpgradeLink
	return httpguard.CheckHead(head)
}

func requestHead(h *fasthttp.RequestHeader, maxBody int) httpguard.RequestHead {
	return httpguard.RequestHead{
		Method: h.Method(), Target: h.RequestURI(), Protocol: h.Protocol(), Raw: h.RawHeaders(), Host: h.Host(), MaxBody: maxBody,
	}
}

// skipRejectedBody keeps fasthttp from waiting for a body that the handler will not read, and from sending 100 Continue for it.
// fasthttp has no option for that, so the body is declared empty: the handler refuses the request, and the connection ends.
func (c *Config) skipRejectedBody(h *fasthttp.RequestHeader) {
	length, expects := h.ContentLength(), len(expectHeader.Of(h)) > 0
	if expects && (length == 0 || length < lengthChunked) {
		h.Del("Expect") // without a body; a proxy on the path could take the 100 for the response
		return
	}
	if length <= maxPrefetch && !expects || !c.rejectsEarly(h) {
		return
	}
	h.Del("Expect")
	if length != lengthChunked {
		h.SetContentLength(0)
		h.SetConnectionClose()
	}
}

// rejectsEarly calls RejectEarly. After a panic the request goes on to the handler, which recovers from its own.
func (c *Config) rejectsEarly(h *fasthttp.RequestHeader) (rejects bool) {
	defer func() {
		if LogPanic(c.Logger, "early rejection", recover()) {
			rejects = false
		}
	}()
	return c.RejectEarly != nil && c.RejectEarly(h)
}

// mayHaveUnread reports whether the request may not have been read to its end.
func mayHaveUnread(rc *fasthttp.RequestCtx) bool {
	if !rc.Request.IsBodyStream() {
		return false
	}
	n := rc.Request.Header.ContentLength()
	return n < 0 || n > maxPrefetch || rc.Request.Header.ConnectionClose()
}
