package relay

import (
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/netconn"
	"colonnade/forwarding/transport"
)

// interimTimeout bounds the write of an interim response, which only nodes that read them ask for.
const interimTimeout = time.Second

// WriteResponse makes response the response to the client. A whole body, which the caller has ended, is written as it is; the rest of
// any other is written by relay, which ends it. WriteResponse reports whether relay is used.
func WriteResponse(rc *fasthttp.RequestCtx, response *transport.Response, relay *Relay) bool {
	rc.SetStatusCode(response.HTTPStatus())
	if contentType := response.Header("content-type"); contentType != "" {
		rc.Response.Header.SetContentType(contentType)
	}
	_ = rc.SetWriteDeadline(time.Now().Add(netconn.WriteStall))
	if body, whole := response.Body(); whole {
		rc.Response.SetBodyRaw(body)
		return false
	}
	rc.Response.ImmediateHeaderFlush = response.Stream() == nil
	rc.Response.SetBodyStream(relay, int(response.Length()))
	return true
}

// WriteProgress sends the progress of a waiting request in an interim response. Only the goroutine that writes the final response may
// call it. After an error nothing more can be written.
func WriteProgress(client net.Conn, p hop.Progress) error {
	if err := client.SetWriteDeadline(time.Now().Add(interimTimeout)); err != nil {
		return err
	}
	if _, err := client.Write([]byte("HTTP/1.1 102 Processing\r\n" + hop.HeaderProgress + ": " + p.String() + "\r\n\r\n")); err != nil {
		return err
	}
	return client.SetWriteDeadline(time.Time{}) // else it would hold for the final response
}
