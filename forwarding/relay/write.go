package relay

import (
	"bytes"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/netconn"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
)

// interimTimeout bounds the write of an interim response, which only nodes that read them ask for.
const interimTimeout = time.Second

// WriteWhole writes a response to the client if its body has arrived as a whole, and reports whether it has. The caller has ended the
// exchange. Any other response is for WriteRest.
func WriteWhole(rc *fasthttp.RequestCtx, response *transport.Response) bool {
	body, whole := response.Body()
	if whole {
		writeHead(rc, response)
		rc.Response.SetBodyRaw(body)
		response.SwapBody(rc.Response.SwapBody) // fasthttp keeps it until it has written the response; until then, the handler may read the body
	}
	return whole
}

// WriteRest makes relay write its response to the client, after the handler has returned.
func WriteRest(rc *fasthttp.RequestCtx, relay *Relay) {
	writeHead(rc, relay.Response)
	relay.chunked = relay.Response.Length() < 0 && rc.Request.Header.IsHTTP11()
	if relay.chunked && relay.Response.Stream() != nil && server.WriteStream(rc, relay.writeAll) {
		return
	}
	rc.Response.ImmediateHeaderFlush = relay.Response.Stream() == nil
	rc.Response.SetBodyStream(relay, int(relay.Response.Length()))
}

// AnswerWhole is WriteWhole of an exchange between nodes.
func AnswerWhole(x *server.Exchange, response *transport.Response) bool {
	if rc := x.Text(); rc != nil {
		return WriteWhole(rc, response)
	}
	body, whole := response.Body()
	if whole {
		x.WriteWhole(response.HTTPStatus(), response.Header("content-type"), body)
		response.SwapBody(x.KeepBody)
	}
	return whole
}

// AnswerRest is WriteRest of an exchange between nodes.
func AnswerRest(x *server.Exchange, relay *Relay) {
	if rc := x.Text(); rc != nil {
		WriteRest(rc, relay)
		return
	}
	response := relay.Response
	relay.chunked = response.Length() < 0
	x.WriteBody(response.HTTPStatus(), response.Header("content-type"), response.Length(), relay.writeAll)
}

// WriteUntilClose makes relay write its response to the client after the handler has returned, without a length and without chunks, and
// closes the connection. request is that of the client. A response that is truncated resets the connection, unless it is a stream,
// which shows its end.
func WriteUntilClose(rc *fasthttp.RequestCtx, request *server.Request, relay *Relay) {
	writeHead(rc, relay.Response)
	rc.SetConnectionClose()
	head := bytes.Clone(rc.Response.Header.Header())
	rc.HijackSetNoResponse(true)
	conn := rc.Conn()
	request.HijackOutput(rc, func(client *netconn.Conn) {
		defer func() { _ = relay.Close() }()
		err := relay.write(client, head)
		if err == nil {
			_, err = relay.WriteTo(client)
		}
		switch {
		case err == nil:
			server.LingerOnClose(conn) // a reset would discard what the client has not read
		case relay.Response.Stream() == nil:
			client.Abort()
		}
	})
}

func writeHead(rc *fasthttp.RequestCtx, response *transport.Response) {
	rc.SetStatusCode(response.HTTPStatus())
	if contentType := response.Header("content-type"); contentType != "" {
		rc.Response.Header.SetContentType(contentType)
	}
	_ = rc.SetWriteDeadline(time.Now().Add(netconn.WriteStall))
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
