package transport

import (
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"colonnade/forwarding/netconn"
)

const (
	// handshakeGUID goes into the answer to a key (RFC 6455, section 1.3).
	handshakeGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
)

const (
	// HandshakeVersion is the only version of WebSocket (RFC 6455).
	HandshakeVersion = "13"
	// HandshakeKeySize is the length of a decoded key in bytes.
	HandshakeKeySize = 16
)

// Handshake asks for a WebSocket (RFC 6455, section 4). Extensions are neither offered nor taken: with compression, a
// small message could become a huge one.
type Handshake struct {
	Key       string   // base64 of 16 bytes
	Protocols []string // subprotocols on offer, the best first
}

// NewHandshake returns a handshake of our own.
func NewHandshake(protocols []string) *Handshake {
	var key [HandshakeKeySize]byte
	_, _ = rand.Read(key[:]) // does not fail since Go 1.24
	return &Handshake{Key: base64.StdEncoding.EncodeToString(key[:]), Protocols: protocols}
}

// AcceptKey returns the value of Sec-WebSocket-Accept that answers the key.
func (h *Handshake) AcceptKey() string {
	sum := sha1.Sum([]byte(h.Key + handshakeGUID))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// appendFields appends the header lines that ask.
func (h *Handshake) appendFields(b []byte) []byte {
	b = append(b, "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: "+HandshakeVersion+"\r\nSec-WebSocket-Key: "...)
	b = append(b, h.Key...)
	if len(h.Protocols) > 0 {
		b = append(b, "\r\nSec-WebSocket-Protocol: "...)
		b = append(b, strings.Join(h.Protocols, ", ")...)
	}
	return append(b, "\r\n"...)
}

// check reports why an answer that switches protocols is not the one that was asked for. Without a handshake none is.
func (h *Handshake) check(answer *head) error {
	protocol := answer.get("sec-websocket-protocol")
	switch {
	case h == nil:
		return fmt.Errorf("%w: it switches protocols, which was not asked for", errMalformed)
	case !strings.EqualFold(answer.get("upgrade"), "websocket"), !hasOption(answer.get("connection"), "upgrade"):
		return fmt.Errorf("%w: it does not switch to websocket", errMalformed)
	case answer.get("sec-websocket-accept") != h.AcceptKey():
		return fmt.Errorf("%w: sec-websocket-accept does not answer the key", errMalformed)
	case answer.get("sec-websocket-extensions") != "":
		return fmt.Errorf("%w: it takes a WebSocket extension that was not offered", errMalformed)
	case protocol != "" && !slices.Contains(h.Protocols, protocol):
		return fmt.Errorf("%w: it takes a WebSocket subprotocol that was not offered", errMalformed)
	}
	return nil
}

// hasOption reports whether a Connection header lists option.
func hasOption(list, option string) bool {
	for o := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(o, " \t"), option) {
			return true
		}
	}
	return false
}

// Upgraded reports whether the other side has taken the request's handshake: the connection is a WebSocket now.
func (a *Response) Upgraded() bool { return a.switched }

// TakeConn returns the connection of an answer that has switched, which the caller closes. It reports false if the context's end
// came first: then the answer is still to be closed.
func (a *Response) TakeConn() (*netconn.Conn, bool) {
	if a.conn == nil || !a.switched || !a.unwatch() {
		return nil, false
	}
	c := a.conn
	a.conn = nil
	// What has come with the answer is kept, and the memory for reading given back: it may be long until it is used.
	if n := c.br.Buffered(); n > 0 {
		early, _ := c.br.Peek(n)
		c.ReadAhead = bytes.Clone(early)
	}
	a.transport.releaseReader(c)
	c.Tick = nil
	return c.Conn, true
}
