//go:build pending

package transport

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"

	"colonnade/forwarding/netconn"
	"colonnade/internal/forwardtest"
	"colonnade/internal/tlstest"
)

// corked is a connection that keeps what is written until it is flushed.
type corked struct {
	net.Conn
	kept bytes.Buffer
	held bool
}

func (c *corked) Write(p []byte) (int, error) {
	if c.held {
		return c.kept.Write(p)
	}
	return c.Conn.Write(p)
}

// What an engine says behind an answer, in a record of TLS of its own that came with it, is nobody's answer: at the socket
// there is nothing left to be seen of it.
func TestSecretAnswerThatNobodyAskedFor(t *testing.T) {
	pair := tlstest.NewCA(t, "engines").Pair("colonnade:engine/x", nil)
	address := forwardtest.RawServer(t, func(c net.Conn) {
		cork := &corked{Conn: c}
		secure := tls.Server(cork, &tls.Config{Certificates: []tls.Certificate{pair}, SessionTicketsDisabled: true})
		if _, err := forwardtest.ReadRequest(bufio.NewReader(secure)); err != nil {
			return
		}
		cork.held = true
		_, _ = io.WriteString(secure, plainAnswer)
		_, _ = io.WriteString(secure, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
		_, _ = c.Write(cork.kept.Bytes())
		_, _ = io.Copy(io.Discard, c)
	})
	transport := forwardtest.RunningTransport(t)
	to := forwardtest.TestRequest(address).Target
	tcp, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	secure := netconn.NewTLS(tcp.(*net.TCPConn), func(below net.Conn) *tls.Conn { return tls.Client(below, &tls.Config{InsecureSkipVerify: true}) }, nil)
	if err := secure.Conn().Handshake(); err != nil {
		t.Fatal(err)
	}
	over, err := netconn.New(tcp.(*net.TCPConn), secure)
	if err != nil {
		t.Fatal(err)
	}
	transport.put(to, &conn{Conn: over, br: bufio.NewReaderSize(nil, readBuffer)})
	a, err := transport.Do(context.Background(), forwardtest.TestRequest(address), forwardtest.ChatShape)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := a.Body(); string(body) != `{"id":"abcd"}` {
		t.Errorf("answer %q", body)
	}
	a.Close()
	if c := transport.take(to); c != nil {
		t.Error("the connection is used again")
	}
}
