package transport

import (
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/netconn"
)

const (
	// handshakeGUID is hashed with a key (RFC 6455, section 1.3).
	handshakeGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
)

const (
	// HandshakeVersion is the only version of WebSocket (RFC 6455).
	HandshakeVersion = "13"
	// HandshakeKeySize is the length of a decoded key in bytes.
	HandshakeKeySize = 16
)

// Handshake requests a WebSocket (RFC 6455, section 4). Extensions are neither offered nor accepted: with compression, a small
// message could expand to a huge one.
type Handshake struct {
	Key       string   // base64 of 16 bytes
	Protocols []string // offered subprotocols, the preferred one first
}

// NewHandshake returns a handshake with a random key.
func NewHandshake(protocols []string) *Handshake {
	var key [HandshakeKeySize]byte
	_, _ = rand.Read(key[:]) // never fails
	return &Handshake{Key: base64.StdEncoding.EncodeToString(key[:]), Protocols: protocols}
}

// AcceptKey returns the value of Sec-WebSocket-Accept for the key.
func (h *Handshake) AcceptKey() string {
	sum := sha1.Sum([]byte(h.Key + handshakeGUID))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// appendFields appends the header lines of the request.
func (h *Handshake) appendFields(b []byte) []byte {
	b = append(b, "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: "+HandshakeVersion+"\r\nSec-WebSocket-Key: "...)
	b = append(b, h.Key...)
	if len(h.Protocols) > 0 {
		b = append(b, "\r\nSec-WebSocket-Protocol: "...)
		b = append(b, strings.Join(h.Protocols, ", ")...)
	}
	return append(b, "\r\n"...)
}

// check returns an error unless response, which has status 101, accepts the handshake. Without a handshake (nil) no response may.
func (h *Handshake) check(response *head) error {
	protocol := response.get("sec-websocket-protocol")
	switch {
	case h == nil:
		return fmt.Errorf("%w: status 101 without a handshake", errMalformed)
	case !strings.EqualFold(response.get("upgrade"), "websocket"), !hasOption(response.get("connection"), "upgrade"):
		return fmt.Errorf("%w: status 101 without an upgrade to websocket", errMalformed)
	case response.get("sec-websocket-accept") != h.AcceptKey():
		return fmt.Errorf("%w: sec-websocket-accept does not match the key", errMalformed)
	case response.get("sec-websocket-extensions") != "":
		return fmt.Errorf("%w: it accepts a WebSocket extension that was not offered", errMalformed)
	case protocol != "" && !slices.Contains(h.Protocols, protocol):
		return fmt.Errorf("%w: it accepts a WebSocket subprotocol that was not offered", errMalformed)
	}
	return nil
}

// checkUpgrade returns an error unless response, which has status 101, accepts the upgrade that was requested.
func (r *Request) checkUpgrade(response *head) error {
	if !r.OpensLink {
		return r.Handshake.check(response)
	}
	if !strings.EqualFold(response.get("upgrade"), hop.UpgradeLink) || !hasOption(response.get("connection"), "upgrade") {
		return fmt.Errorf("%w: status 101 without an upgrade to %s", errMalformed, hop.UpgradeLink)
	}
	return nil
}

// hasOption reports whether the value of a Connection header lists option.
func hasOption(list, option string) bool {
	for o := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(o, " \t"), option) {
			return true
		}
	}
	return false
}

// Upgraded reports whether the server has accepted the handshake, or the upgrade: the connection is a WebSocket now, or has the other protocol.
func (resp *Response) Upgraded() bool { return resp.upgraded }

// TakeConn returns the connection of an upgraded response, which the caller must close. It reports false if the context has ended
// before: then the caller must close the response.
func (resp *Response) TakeConn() (*netconn.Conn, bool) {
	if resp.conn == nil || !resp.upgraded || !resp.release() {
		return nil, false
	}
	c := resp.conn
	resp.conn = nil
	// Bytes behind the head move to the connection, and the buffer goes back: a WebSocket may be silent for long.
	if n := c.br.Buffered(); n > 0 {
		early, _ := c.br.Peek(n)
		c.ReadAhead = bytes.Clone(early)
	}
	resp.transport.releaseReader(c)
	c.Tick = nil
	return c.Conn, true
}
