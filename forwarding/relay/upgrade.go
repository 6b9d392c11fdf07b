package relay

import (
	"encoding/base64"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/net/http/httpguts"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/openai"
)

// maxProtocols is how many subprotocols of a client's offer are used.
const maxProtocols = 16

// ReadHandshake returns the WebSocket handshake of a request that [server.CheckHead] has accepted.
func ReadHandshake(rc *fasthttp.RequestCtx) (*transport.Handshake, *openai.Error) {
	h := &rc.Request.Header
	if !h.ConnectionUpgrade() || !strings.EqualFold(string(h.Peek("Upgrade")), "websocket") {
		return nil, openai.InvalidRequest("", "this URL is for WebSocket only: connect to it with wss:// or ws://")
	}
	if version := string(h.Peek("Sec-WebSocket-Version")); version != transport.HandshakeVersion {
		return nil, openai.InvalidRequest("", "the header sec-websocket-version is %.40q: it must be %s",
			version, transport.HandshakeVersion)
	}
	key := string(h.Peek("Sec-WebSocket-Key"))
	if raw, err := base64.StdEncoding.Strict().DecodeString(key); err != nil || len(raw) != transport.HandshakeKeySize {
		return nil, openai.InvalidRequest("", "the header sec-websocket-key must be base64 of %d bytes", transport.HandshakeKeySize)
	}
	read := &transport.Handshake{Key: key}
	for _, line := range h.PeekAll("Sec-WebSocket-Protocol") {
		for protocol := range strings.SplitSeq(string(line), ",") {
			if protocol = strings.Trim(protocol, " \t"); httpguts.ValidHeaderFieldName(protocol) && len(read.Protocols) < maxProtocols {
				read.Protocols = append(read.Protocols, protocol)
			}
		}
	}
	return read, nil
}

// SwitchProtocols accepts the client's handshake with the subprotocol that upstream has accepted. The caller must hijack the connection
// with [server.Request.Hijack].
func SwitchProtocols(rc *fasthttp.RequestCtx, client *transport.Handshake, upstream *transport.Response) {
	rc.SetStatusCode(fasthttp.StatusSwitchingProtocols)
	h := &rc.Response.Header
	h.Set("Upgrade", "websocket")
	h.Set("Connection", "Upgrade")
	h.Set("Sec-WebSocket-Accept", client.AcceptKey())
	server.SetUnlessEmpty(h, "Sec-WebSocket-Protocol", upstream.Header("sec-websocket-protocol"))
	_ = rc.SetWriteDeadline(time.Now().Add(netconn.WriteStall))
}
