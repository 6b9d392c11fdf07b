package transport_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/forwarding/peertls"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/internal/tlstest"
)

// tlsTarget returns the target for a server that calls serve with each connection and the server's side of TLS.
func tlsTarget(t *testing.T, serve func(net.Conn, *tls.Config)) transport.Target {
	t.Helper()
	ca := tlstest.NewCA(t, "fleet")
	config := &tls.Config{Certificates: []tls.Certificate{ca.Pair(forwardtest.Colo().String(), nil)}, SessionTicketsDisabled: true} //nolint:gosec // a test
	address := forwardtest.ListenRaw(t, func(c net.Conn) { serve(c, config) })
	files := forwardtest.NewFiles(t, ca, forwardtest.Entry(), nil)
	trusted, err := peertls.LoadTrustStore(peertls.Files(files), forwardtest.Entry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return transport.PeerTarget(trusted, address, forwardtest.Colo())
}

// tlsServer is tlsTarget for a server that needs only the connection with TLS.
func tlsServer(t *testing.T, serve func(*tls.Conn)) transport.Target {
	t.Helper()
	return tlsTarget(t, func(c net.Conn, config *tls.Config) { serve(tls.Server(c, config)) })
}

// A body that ends with its connection is complete only after close_notify.
func TestTLSAnswerUntilTheEnd(t *testing.T) {
	t.Parallel()
	f := func(name string, end func(*tls.Conn), want error) {
		t.Helper()
		target := tlsServer(t, func(c *tls.Conn) {
			if _, err := forwardtest.ReadRequest(bufio.NewReader(c)); err == nil {
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"+strings.Repeat("x", 128<<10))
				end(c)
			}
		})
		r := forwardtest.NewRequest("")
		r.Target = target
		answer, err := forwardtest.NewTransport(t).Do(t.Context(), r, transport.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Close()
		for err == nil {
			_, err = answer.Next()
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: ended with %v, want %v", name, err, want)
		}
	}
	f("meant", func(c *tls.Conn) { _ = c.Close() }, io.EOF)
	f("cut", func(c *tls.Conn) { _ = c.NetConn().Close() }, io.ErrUnexpectedEOF)
}

// Bytes behind a response are not taken for the next response, even if TLS has read them already.
func TestTLSLeftovers(t *testing.T) {
	t.Parallel()
	const whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	f := func(name, answer string, reused bool) {
		t.Helper()
		var connections atomic.Int64
		target := tlsServer(t, func(c *tls.Conn) {
			connections.Add(1)
			for br := bufio.NewReader(c); ; {
				if _, err := forwardtest.ReadRequest(br); err != nil {
					return
				}
				for part := range strings.SplitSeq(answer, "|") { // in a record of its own
					fmt.Fprint(c, part)
				}
			}
		})
		tr := forwardtest.NewTransport(t)
		for range 2 {
			r := forwardtest.NewRequest("")
			r.Target = target
			answer, err := tr.Do(t.Context(), r, transport.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			body, _ := answer.Body()
			if answer.Status() != http.StatusOK || string(body) != "ok" {
				t.Errorf("%s: %d %q", name, answer.Status(), body)
			}
			answer.Close()
			time.Sleep(50 * time.Millisecond)
		}
		if same := connections.Load() == 1; same != reused {
			t.Errorf("%s: used again: %v, want %v", name, same, reused)
		}
	}
	f("nothing more", whole, true)
	f("another answer in the same record", whole+"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", false)
	f("another answer in the next record", whole+"|HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", false)
	f("half of a record's worth", whole+"|x", false)
}

// corked is a connection that holds back what is written.
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

// Bytes behind a response, in a TLS record of their own that arrived with it, are not taken for the next response: the socket does not
// show them any more.
func TestTLSLeftoversInOnePacket(t *testing.T) {
	var conns atomic.Int32
	target := tlsTarget(t, func(c net.Conn, config *tls.Config) {
		conns.Add(1)
		cork := &corked{Conn: c}
		secure := tls.Server(cork, config)
		if _, err := forwardtest.ReadRequest(bufio.NewReader(secure)); err != nil {
			return
		}
		cork.held = true
		_, _ = io.WriteString(secure, plainAnswer)
		_, _ = io.WriteString(secure, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
		_, _ = c.Write(cork.kept.Bytes())
		_, _ = io.Copy(io.Discard, c)
	})
	tr := forwardtest.NewTransport(t)
	for n := range 3 {
		r := forwardtest.NewRequest("")
		r.Target = target
		a, err := tr.Do(t.Context(), r, forwardtest.ChatOptions)
		if err != nil {
			t.Fatal(err)
		}
		if body, _ := a.Body(); string(body) != `{"id":"abcd"}` {
			t.Errorf("answer %q", body)
		}
		a.Close()
		if got := conns.Load(); got != int32(n+1) {
			t.Errorf("request %d came on connection %d: one is used again", n+1, got)
		}
	}
}
