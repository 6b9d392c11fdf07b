package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/peertls"
	"colonnade/openai"
)

// tlsState is how a client's connection begins that is to speak TLS. Its fields are for who reads.
type tlsState struct {
	established     bool                // hands were shaken
	handshakeErr    error               // or could not be
	chain           []*x509.Certificate // the client's, if it had to show one
	verifiedVersion uint64              // of what it was last held against
}

// helloBuffer is what is read of a client's first words before TLS is given them.
const helloBuffer = 512

// handshake begins TLS. Until the first byte has come, the connection waits as for a request, and may leave; from
// there on nobody wakes it but the server's own deadline: half of a handshake cannot be taken up again.
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
	c.secure.Unread(first[:n])
	c.setActive()
	edition := c.listener.peers.Version()
	if err := c.secure.Conn().Handshake(); err != nil {
		c.handshakeErr = err
		c.lingers.Store(!isDisconnect(err)) // so that it hears why
		c.listener.logHandshakeError(c, err)
		return err
	}
	c.established, c.verifiedVersion = true, edition
	c.chain = c.secure.Conn().ConnectionState().PeerCertificates
	c.restartIdle()
	return nil
}

// restartIdle makes the connection one that waits for a request. That is still on its way, so it has time for it,
// however short the silence is after which others leave.
func (c *serverConn) restartIdle() {
	since := c.listener.nanosNow()
	if quiet := c.listener.idleLimit.Load(); quiet > 0 {
		since += max(0, int64(synRetransmit)-quiet)
	}
	c.idleSince.Store(since)
}

// isPlainHTTP tells a method from what TLS begins with.
func isPlainHTTP(first []byte) bool { return first[0] >= 'A' && first[0] <= 'Z' }

// refusePlainHTTP says what is wrong, in the only way that such a client understands.
func (c *serverConn) refusePlainHTTP() {
	body := openai.InvalidRequest("", "this port speaks HTTPS: the URL must begin with https:// (wss:// for WebSocket)").AppendJSON(nil, "")
	_ = c.tcp.SetWriteDeadline(time.Now().Add(FinalWriteTimeout))
	_, _ = fmt.Fprintf(c.tcp, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	c.lingers.Store(true)
	c.handshakeErr = io.EOF // no other answer
	c.listener.logHandshakeError(c, peertls.ErrPlainHTTP)
}

// isDisconnect tells a client that has left, or says nothing, from one that has said something wrong.
func isDisconnect(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}

// logHandshakeError tells of a connection that is not let in. At the public listener that is everyday; between nodes it is a
// mistake in somebody's settings, or somebody who should not be there.
func (d *listener) logHandshakeError(c *serverConn, err error) {
	from := c.RemoteAddr().String()
	if d.peers == nil || isDisconnect(err) {
		d.logger.Debug("no TLS with a client", "from", from, "error", err)
		return
	}
	d.peers.LogRefused(from, d.peers.ExplainClient(err))
}

// newConn makes a client's connection of what was accepted.
func (d *listener) newConn(tcp *net.TCPConn) *serverConn {
	c := &serverConn{tcp: tcp, keepAlive: keepAlive{listener: d}}
	if d.tls != nil {
		c.secure = netconn.NewTLS(tcp, func(below net.Conn) *tls.Conn { return tls.Server(below, d.tls) }, c.noteBytes)
	}
	return c
}
