package netconn_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/internal/tlstest"
)

// tlsPair returns the two ends of a TLS connection, after the handshake.
func tlsPair(t *testing.T) (near, far *netconn.TLSConn, farTCP *net.TCPConn) {
	t.Helper()
	tcp, farTCP := pair(t)
	ca := tlstest.NewCA(t, "test")
	far = netconn.NewTLS(netconn.NewSocket(farTCP), func(raw net.Conn) *tls.Conn {
		return tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{ca.Pair("", nil)}, SessionTicketsDisabled: true}) //nolint:gosec // a test
	}, nil)
	near = netconn.NewTLS(netconn.NewSocket(tcp), func(raw net.Conn) *tls.Conn {
		return tls.Client(raw, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"}) //nolint:gosec // a test
	}, nil)
	done := make(chan error, 1)
	go func() { done <- far.Conn().Handshake() }()
	if err := errors.Join(near.Conn().Handshake(), <-done); err != nil {
		t.Fatal(err)
	}
	return near, far, farTCP
}

// Only an end after close_notify is io.EOF.
func TestTLSEnds(t *testing.T) {
	f := func(name string, end func(*netconn.TLSConn, *net.TCPConn), want error) {
		t.Helper()
		near, far, tcp := tlsPair(t)
		_, _ = io.WriteString(far, "hello")
		end(far, tcp)
		got := make([]byte, 5)
		if _, err := io.ReadFull(near, got); err != nil || string(got) != "hello" {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
		for range 2 {
			if _, err := near.Read(got); !errors.Is(err, want) {
				t.Errorf("%s: ended with %v, want %v", name, err, want)
			}
		}
	}
	f("close_notify", func(c *netconn.TLSConn, _ *net.TCPConn) { c.Close() }, io.EOF)
	f("FIN", func(_ *netconn.TLSConn, c *net.TCPConn) { c.Close() }, io.ErrUnexpectedEOF)
}

// Close sends close_notify, unless the connection was poisoned or a write has failed.
func TestTLSClose(t *testing.T) {
	f := func(name string, before func(*netconn.TLSConn), proper bool) {
		t.Helper()
		near, far, tcp := tlsPair(t)
		before(near)
		near.Close()
		_ = tcp.SetDeadline(time.Now().Add(patience))
		_, err := io.Copy(io.Discard, far)
		if (err == nil) != proper {
			t.Errorf("%s: the other side ended with %v", name, err)
		}
	}
	f("closed", func(*netconn.TLSConn) {}, true)
	f("half-closed before", func(c *netconn.TLSConn) { _ = c.CloseWrite() }, true)
	f("poisoned", func(c *netconn.TLSConn) { c.Poison() }, false)
	f("after a partial write", func(c *netconn.TLSConn) {
		_ = c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := c.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the write ended with %v", err)
		}
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("a further write succeeded")
		}
	}, false)
}

// Poll finds data and the end without blocking, and a later Read returns the data.
func TestTLSPoll(t *testing.T) {
	near, far, _ := tlsPair(t)
	if again, err := near.Poll(); !again || err != nil {
		t.Errorf("nothing has arrived: %v, %v", again, err)
	}
	_, _ = io.WriteString(far, "hello")
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if again, err := near.Poll(); err != nil {
			t.Fatal(err)
		} else if !again {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the data was not found")
		}
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(near, got); err != nil || string(got) != "hello" {
		t.Errorf("read %q, %v", got, err)
	}
	_ = far.Conn().CloseWrite() // close_notify, and no FIN
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if _, err := near.Poll(); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("close_notify was not found")
		}
	}
}

// A read deadline that has passed does no harm to TLS.
func TestTLSReadDeadline(t *testing.T) {
	near, far, _ := tlsPair(t)
	for range 2 {
		_ = near.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	}
	_ = near.SetReadDeadline(time.Time{})
	_, _ = io.WriteString(far, "x")
	if _, err := near.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
}
