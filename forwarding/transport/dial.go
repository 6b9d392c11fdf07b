package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/netconn"
	"colonnade/forwarding/peertls"
)

// readBuffer is the size limit of a response's head and of one read of its body, in bytes.
const readBuffer = 16 << 10

// conn is a connection to a server, which serves one exchange at a time, or a stream of a link, which serves one.
type conn struct {
	*netconn.Conn
	br           *bufio.Reader
	transport    *Transport
	cancel       func()    // method value of Cancel
	sent         func()    // method value of releaseHead
	head         *[]byte   // memory for the request that is being sent; nil = none
	unanswered   error     // why no byte came after the request, for readHead
	target       *Target   // nil over a link
	list         *idleList // where it was idle last; may be nil
	account      string    // that the last request was for
	binaryHead   bool      // before send: the server reads binary heads; after it: the request has one, and so has its answer
	kept         bool      // it has served a request before
	sentAt       time.Time // when the first byte of the last request was sent
	idleSince    time.Time
	trustVersion uint64 // of the certificates at the handshake
}

// dial connects to the target of a request that was dispatched when it began, with HTTP/1.1 as the only application protocol over
// TLS. The limits of the request bound it, too.
func (t *Transport) dial(ctx context.Context, r *Request, began time.Time) (*conn, error) {
	to := r.Target
	ctx, cancel := context.WithDeadline(ctx, r.within(time.Now(), r.ConnectTimeout, began))
	defer cancel()
	r.Abort.attach(cancel)
	defer r.Abort.detach()
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", to.Address)
	if err != nil {
		return nil, err
	}
	tcp := nc.(*net.TCPConn)
	if !r.OpensLink { // a link carries many responses, and bounds what each may have unread
		_ = tcp.SetReadBuffer(netconn.SocketBuffer)
	}
	socket := netconn.NewSocket(tcp)
	c := &conn{transport: t, target: &to, trustVersion: to.Peer.Version()} // before the handshake, so that a change during it counts as one after it
	var secure *netconn.TLSConn
	if config := to.clientTLS(); config != nil {
		secure = netconn.NewTLS(socket, func(below net.Conn) *tls.Conn { return tls.Client(below, config) }, nil)
		if err := secure.Conn().HandshakeContext(ctx); err != nil {
			tcp.Close()
			return nil, to.Peer.Explain(err)
		}
	}
	c.Conn = netconn.New(socket, secure)
	c.Pump, c.Flusher, c.cancel, c.sent = t.pump, &t.links.flusher, c.Cancel, c.releaseHead
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

// send writes the whole request, which was dispatched when it began, and returns how many bytes of it were sent. A head and a short body
// are one write.
func (c *conn) send(r *Request, began time.Time) (int64, error) {
	c.head = c.transport.heads.Get().(*[]byte)
	defer c.releaseHead()
	head, err := c.appendHead(r, (*c.head)[:0])
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNotValid, err)
	}
	inFirst := min(len(r.Body), readBuffer)
	if c.Stream() != nil {
		inFirst = len(r.Body)
	}
	first, rest := append(head, r.Body[:inFirst]...), r.Body[inFirst:]
	*c.head = first
	if r.Precondition != nil && !r.Precondition() {
		return 0, ErrNotSent
	}
	c.sentAt = time.Now() // after Sign, which reads the whole body
	if err := c.SetWriteDeadline(r.within(c.sentAt, r.ConnectTimeout+netconn.WriteStall, began)); err != nil {
		return 0, err
	}
	if c.Cancelled() {
		return 0, netconn.ErrCancelled
	}
	n, err := c.write(first, rest)
	if err != nil {
		return n, fmt.Errorf("cannot send request: %w", err)
	}
	return n, nil
}

// appendHead appends the head of a request. One that is too large for a binary head is sent as text, which the server refuses with a reason.
func (c *conn) appendHead(r *Request, b []byte) ([]byte, error) {
	if c.binaryHead = c.binaryHead && !r.TextHead; c.binaryHead {
		head, err := r.appendBinaryHead(b)
		if !errors.Is(err, hop.ErrBinaryHeadSize) {
			return head, err
		}
		c.binaryHead = false
	}
	return r.appendHead(b)
}

// releaseHead returns the memory for a request, unless that was done before.
func (c *conn) releaseHead() {
	if c.head != nil && cap(*c.head) <= 4*readBuffer {
		c.transport.heads.Put(c.head)
	}
	c.head = nil
}

// write writes the two parts of a request, of which the second may be empty. On a kept connection it looks right before for something out
// of turn. If there is a second part, which may take long, it holds back the last byte and looks again: until then, the server does not
// have the request.
func (c *conn) write(first, rest []byte) (int64, error) {
	if s := c.Stream(); s != nil && !c.CanAsk() {
		if err := s.Open(first, true); err != nil {
			return 0, err
		}
		return int64(len(first)), nil
	}
	if len(rest) == 0 && c.CanAsk() {
		return c.ask(first)
	}
	if c.kept {
		if err := c.checkTurn(0); err != nil {
			return 0, err
		}
	}
	if len(rest) == 0 {
		n, err := c.Conn.Conn.Write(first)
		return int64(n), err
	}
	last := len(rest)
	if c.kept {
		last--
	}
	sent := int64(0)
	for _, part := range [...][]byte{first, rest[:last]} {
		n, err := c.Conn.Conn.Write(part)
		if sent += int64(n); err != nil {
			return sent, err
		}
	}
	if !c.kept {
		return sent, nil
	}
	if err := c.checkTurn(sent); err != nil {
		return sent, err
	}
	n, err := c.Conn.Conn.Write(rest[last:])
	return sent + int64(n), err
}

// ask is write for a short request, and waits until the response begins. The error of that wait is left for readHead.
func (c *conn) ask(request []byte) (int64, error) {
	for range 2 { // behind empty lines, more may have arrived
		sent, err := c.Ask(request, c.kept, c.sent)
		switch {
		case errors.Is(err, netconn.ErrUnread):
			if err := c.checkTurn(0); err != nil {
				return 0, err
			}
		case sent < len(request):
			return int64(sent), err
		default:
			c.unanswered = err
			return int64(sent), nil
		}
	}
	return 0, errStale
}
