package relay

import (
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/transport"

	"github.com/valyala/fasthttp"
)

// WriteResponse answers with what has arrived of a, and gives the rest to relay, which then ends it. A whole answer has
// been ended by the caller already. It returns whether the relay was used.
func WriteResponse(rc *fasthttp.RequestCtx, a *transport.Response, relay *Relay) bool {
	rc.SetStatusCode(a.HTTPStatus())
	if contentType := a.Header("content-type"); contentType != "" {
		rc.Response.Header.SetContentType(contentType)
	}
	_ = rc.SetWriteDeadline(time.Now().Add(netconn.WriteStall))
	if body, whole := a.Body(); whole {
		rc.Response.SetBodyRaw(body)
		return false
	}
	rc.Response.ImmediateHeaderFlush = a.Stream() == nil
	rc.Response.SetBodyStream(relay, int(a.Length()))
	return true
}
