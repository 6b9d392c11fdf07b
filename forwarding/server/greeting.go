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

// greeting is how a client's connection begins that is to speak TLS. Its fields are for who reads.
type greeting struct {
	greeted bool                // hands were shaken
	unfit   error               // or could not be
	chain   []*x509.Certificate // the client's, if it had to show one
	edition uint64              // of what it was last held against
}

// greetingSize is what is read of a client's first words before TLS is given them.
const greetingSize = 512

// shakeHands begins TLS. Until the first byte has come, the connection waits as for a request, and may leave; from
// there on nobody wakes it but the server's own deadline: half of a handshake cannot be taken up again.
func (c *clientConn) shakeHands() error {
	if c.unfit != nil {
		return c.unfit
	}
	first := make([]byte, greetingSize)
	n, err := c.readOrLeave(first)
	if err != nil {
		return err
	}
	if isPlainHTTP(first[:n]) {
		c.refusePlainHTTP()
		return c.unfit
	}
	c.secure.Unread(first[:n])
	c.stopWaiting()
	edition := c.door.peers.Edition()
	if err := c.secure.Conn().Handshake(); err != nil {
		c.unfit = err
		c.lingers.Store(!isDeparture(err)) // so that it hears why
		c.door.refusedHands(c, err)
		return err
	}
	c.greeted, c.edition = true, edition
	c.chain = c.secure.Conn().ConnectionState().PeerCertificates
	c.waitAfresh()
	return nil
}

// waitAfresh makes the connection one that waits for a request. That is still on its way, so it has time for it,
// however short the silence is after which others leave.
func (c *clientConn) waitAfresh() {
	since := c.door.now()
	if quiet := c.door.leave.Load(); quiet > 0 {
		since += max(0, int64(secondTry)-quiet)
	}
	c.waits.Store(since)
}

// isPlainHTTP tells a method from what TLS begins with.
func isPlainHTTP(first []byte) bool { return first[0] >= 'A' && first[0] <= 'Z' }

// refusePlainHTTP says what is wrong, in the only way that such a client understands.
func (c *clientConn) refusePlainHTTP() {
	body := openai.InvalidRequest("", "this port speaks HTTPS: the URL must begin with https:// (wss:// for WebSocket)").AppendJSON(nil, "")
	_ = c.tcp.SetWriteDeadline(time.Now().Add(LastWrite))
	_, _ = fmt.Fprintf(c.tcp, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	c.lingers.Store(true)
	c.unfit = io.EOF // no other answer
	c.door.refusedHands(c, peertls.ErrPlainHTTP)
}

// isDeparture tells a client that has left, or says nothing, from one that has said something wrong.
func isDeparture(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}

// refusedHands tells of a connection that is not let in. At the public listener that is everyday; between nodes it is a
// mistake in somebody's settings, or somebody who should not be there.
func (d *door) refusedHands(c *clientConn, err error) {
	from := c.RemoteAddr().String()
	if d.peers == nil || isDeparture(err) {
		d.logger.Debug("no TLS with a client", "from", from, "reason", err)
		return
	}
	d.peers.LogRefused("a connection was refused on the peer listener", from, d.peers.ExplainClient(err))
}

// newClient makes a client's connection of what was accepted.
func (d *door) newClient(tcp *net.TCPConn) *clientConn {
	c := &clientConn{tcp: tcp, stay: stay{door: d}}
	if d.tls != nil {
		c.secure = netconn.NewTLS(tcp, func(below net.Conn) *tls.Conn { return tls.Server(below, d.tls) }, c.came)
	}
	return c
}
