package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"colonnade/forwarding/peertls"
	"colonnade/openai"
)

// tlsState is the TLS handshake of a client's connection. Only the goroutine that reads uses it.
//
//	idle ── first bytes ─┬─ a ClientHello ─→ active: handshake ─┬─→ established, idle until the first request
//	                     │                                      ├─→ handshakeErr: an alert was sent
//	                     │                                      └─→ handshakeErr: the client wanted nothing but the handshake
//	                     └─ plain HTTP ──────────────────────────→ handshakeErr: a 400 was sent
type tlsState struct {
	established  bool
	handshakeErr error     // returned by all further reads
	peer         *peerCert // nil before the handshake, and without mutual TLS
}

// helloBuffer is the size of the first read of a connection, in bytes.
const helloBuffer = 512

// handshake performs the TLS handshake. Until the first byte the connection is idle, and may close for a drain. From there on it is
// active, since a handshake that is interrupted cannot be resumed.
func (c *serverConn) handshake() error {
	if c.handshakeErr != nil {
		return c.handshakeErr
	}
	first := make([]byte, helloBuffer)
	n, err := c.readUntilIdle(first)
	if err != nil {
		return err
	}
	if isPlainHTTP(first[:n]) {
		c.refusePlainHTTP()
		return c.handshakeErr
	}
	c.tlsConn.Unread(first[:n])
	c.setActive()
	version := c.listener.peers.Version()
	if err := c.tlsConn.Conn().Handshake(); err != nil {
		c.handshakeErr = err
		c.lingers.Store(!isDisconnect(err)) // so that the client gets the alert
		c.listener.logHandshakeError(c, err)
		return err
	}
	state := c.tlsConn.Conn().ConnectionState()
	if p := state.NegotiatedProtocol; p != "" && p != peertls.ALPN {
		c.handshakeErr = io.EOF // the handshake was the whole exchange, as in the challenge tls-alpn-01 (RFC 8737)
		return c.handshakeErr
	}
	c.established = true
	if c.listener.peers != nil {
		c.peer = newPeerCert(state.PeerCertificates, version)
	}
	c.restartIdle()
	return nil
}

// restartIdle makes the connection idle after its handshake. The first request is still on its way, so the silence begins later than
// now if the idle limit is shorter than a retransmission.
func (c *serverConn) restartIdle() {
	since := c.listener.nanosNow()
	if quiet := c.listener.idleLimit.Load(); quiet > 0 {
		since += max(0, int64(synRetransmit)-quiet)
	}
	c.idleSince.Store(since)
}

// isPlainHTTP distinguishes the method of an HTTP request from a TLS record.
func isPlainHTTP(first []byte) bool { return first[0] >= 'A' && first[0] <= 'Z' }

// refusePlainHTTP answers a request without TLS with a 400, which such a client can read.
func (c *serverConn) refusePlainHTTP() {
	body := openai.InvalidRequest("", "this port requires HTTPS: the URL must begin with https:// (wss:// for WebSocket)").AppendJSON(nil, "")
	_ = c.tcp.SetWriteDeadline(time.Now().Add(FinalWriteTimeout))
	_, _ = fmt.Fprintf(c.tcp, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	c.lingers.Store(true)
	c.handshakeErr = io.EOF // so that fasthttp does not respond, too
	c.listener.logHandshakeError(c, peertls.ErrPlainHTTP)
}

// isDisconnect reports whether a handshake failed because the client left or was silent, and not by what it sent.
func isDisconnect(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}

// logHandshakeError logs a failed handshake: a common event on a public listener, but a wrong configuration or an attack between
// nodes.
func (l *listener) logHandshakeError(c *serverConn, err error) {
	from := c.RemoteAddr().String()
	if l.peers == nil || isDisconnect(err) {
		l.logger.Debug("TLS handshake failed", "from", from, "error", err)
		return
	}
	l.peers.LogRefused(from, l.peers.ExplainClient(err))
}
