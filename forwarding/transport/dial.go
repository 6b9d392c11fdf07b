package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/peertls"
)

// readBuffer is the size limit of a response's head and of one read of its body, in bytes.
const readBuffer = 16 << 10

// conn is a connection to a server. It serves one exchange at a time.
type conn struct {
	*netconn.Conn
	br           *bufio.Reader
	head         []byte // memory for request heads
	idleSince    time.Time
	trustVersion uint64 // of the certificates at the handshake
}

// dial connects to a target within timeout, with HTTP/1.1 as the only application protocol over TLS.
func dial(ctx context.Context, to Target, timeout time.Duration) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", to.Address)
	if err != nil {
		return nil, err
	}
	tcp := nc.(*net.TCPConn)
	_ = tcp.SetReadBuffer(netconn.SocketBuffer)
	c := &conn{trustVersion: to.Peer.Version()} // before the handshake, so that a change during it counts as one after it
	var secure *netconn.TLSConn
	if config := to.clientTLS(); config != nil {
		secure = netconn.NewTLS(tcp, func(below net.Conn) *tls.Conn { return tls.Client(below, config) }, nil)
		if err := secure.Conn().HandshakeContext(ctx); err != nil {
			tcp.Close()
			return nil, to.Peer.Explain(err)
		}
	}
	if c.Conn, err = netconn.New(tcp, secure); err != nil {
		tcp.Close()
		return nil, err
	}
	return c, nil
}

// clientTLS returns the TLS configuration for the target, or nil without TLS.
func (t Target) clientTLS() *tls.Config {
	if config := t.Peer.ClientTLS(); config != nil {
		return config
	}
	if t.ServerName == "" {
		return nil
	}
	return &tls.Config{ServerName: t.ServerName, NextProtos: []string{peertls.ALPN}, MinVersion: tls.VersionTLS12}
}

// send writes the whole request. A head and a short body are one write.
func (c *conn) send(r *Request) error {
	head, err := r.appendHead(c.head[:0])
	if err != nil {
		return err
	}
	c.head = head
	deadline := time.Now().Add(r.ConnectTimeout + netconn.WriteStall)
	if !r.Deadline.IsZero() && r.Deadline.Before(deadline) {
		deadline = r.Deadline
	}
	if err := c.SetWriteDeadline(deadline); err != nil {
		return err
	}
	if c.Cancelled() {
		return netconn.ErrCancelled
	}
	bufs := net.Buffers{head, r.Body}
	if len(r.Body) < readBuffer {
		c.head = append(head, r.Body...)
		bufs = net.Buffers{c.head}
	}
	if r.Precondition != nil && !r.Precondition() {
		return ErrNotSent
	}
	_, err = bufs.WriteTo(c.Conn.Conn)
	if cap(c.head) > 4*readBuffer {
		c.head = nil
	}
	if err != nil {
		return fmt.Errorf("cannot send request: %w", err)
	}
	return nil
}
