package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"
	"colonnade/internal/testkit"
	"colonnade/internal/tlstest"
)

// A client with TLS that is still sending gets the refusal.
func TestTLSLingers(t *testing.T) {
	t.Parallel()
	s := newWithTLS(t, server.Config{RejectEarly: func(*fasthttp.RequestHeader) bool { return true }})
	for _, size := range []int{20_000, 4 << 20} {
		c := s.call(nil)
		fmt.Fprintf(c.TLSConn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size)
		sent := make(chan error, 1)
		go func() {
			_, err := c.Write(make([]byte, size-10))
			sent <- err
		}()
		if last, err := c.hear(); !last || err != nil {
			t.Errorf("%d bytes: last %v, %v", size, last, err)
		}
		c.ends(t)
		if err := forwardtest.Receive(t, "the body to be sent", sent); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	s.Stop(server.DrainTimings{})
}

// A connection ends with close_notify after a complete response, and without it after a truncated one.
func TestTLSTruncatedResponse(t *testing.T) {
	t.Parallel()
	s := newWithTLS(t, server.Config{Handle: func(rc *fasthttp.RequestCtx) {
		rc.SetConnectionClose()
		if string(rc.Path()) == "/cut" {
			rc.Response.SetBodyStream(truncatedBody{conn: rc.Conn()}, -1)
		}
	}})
	f := func(path string, want error) {
		t.Helper()
		c := s.call(nil)
		fmt.Fprintf(c.TLSConn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		if _, err := io.Copy(io.Discard, c.TLSConn); !errors.Is(err, want) {
			t.Errorf("%s: ended with %v, want %v", path, err, want)
		}
	}
	f("/", nil)
	f("/cut", io.ErrUnexpectedEOF)
	s.Stop(server.DrainTimings{})
}

// truncatedBody ends as a relay ends a response that must not look complete.
type truncatedBody struct{ conn net.Conn }

func (b truncatedBody) Read([]byte) (int, error) {
	server.TruncateOnClose(b.conn)
	return 0, errors.New("answer was cut short")
}

// halfCloser is a connection as a handler gets it.
type halfCloser interface {
	CloseWrite() error
	Close() error
}

// The close of a connection does not wait for a client that does not read, neither for the response nor for close_notify.
func TestTLSCloseDoesNotBlock(t *testing.T) {
	t.Parallel()
	took := make(chan time.Duration, 1)
	s := newWithTLS(t, server.Config{Handle: func(rc *fasthttp.RequestCtx) {
		c := rc.Conn()
		_ = c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		piece := make([]byte, 64<<10)
		var err error
		for err == nil {
			_, err = c.Write(piece)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		began := time.Now()
		_ = c.Close()
		took <- time.Since(began)
	}})
	c := s.call(nil)
	fmt.Fprint(c.TLSConn, aRequest)
	if d := forwardtest.Receive(t, "the end", took); d >= server.LingerTime {
		t.Errorf("took %v", d)
	}
	s.Stop(server.DrainTimings{})

	// Nor does it wait for a write that is stuck, as when the other side of a tunnel has ended.
	ready := make(chan halfCloser, 1)
	s = newWithTLS(t, server.Config{Handle: func(rc *fasthttp.RequestCtx) {
		ready <- rc.Conn().(halfCloser)
		_, _ = rc.Conn().Write(make([]byte, 64<<20))
	}})
	c = s.call(nil)
	fmt.Fprint(c.TLSConn, aRequest)
	stuck := forwardtest.Receive(t, "the request", ready)
	time.Sleep(200 * time.Millisecond) // until the buffers are full
	began := time.Now()
	_ = stuck.CloseWrite()
	_ = stuck.Close()
	if d := time.Since(began); d >= server.LingerTime {
		t.Errorf("took %v", d)
	}
	s.Stop(server.DrainTimings{})
}

// Changed files are in force within a second. Bad ones change nothing, and are logged once.
func TestCertificateReload(t *testing.T) {
	t.Parallel()
	ca, files, lines := tlstest.NewCA(t, "public"), tlstest.NewFiles(t), make(forwardtest.LogLines, 100)
	name := func(name string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.Subject.CommonName = name }
	}
	files.Put(ca, "", name("first"))
	s := &withTLS{ca: ca, Drainable: forwardtest.ServeConfig(t, server.Config{TLS: mustLoad(t, files, slog.New(slog.NewTextHandler(lines, nil)))})}
	shown := func() string {
		t.Helper()
		c := s.call(nil)
		defer c.Close()
		if last, err := c.ask(); last || err != nil {
			t.Errorf("last %v, %v", last, err)
		}
		return c.Conn().ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	settle := func(want string) {
		t.Helper()
		testkit.WaitFor(t, want+" to be in force", func() bool { return shown() == want })
	}
	settle("first")
	old := s.call(nil)
	if _, err := old.ask(); err != nil {
		t.Fatal(err)
	}
	_, otherKey := ca.Issue("", nil)
	tlstest.Write(t, files.Key, otherKey)
	for len(lines) == 0 { // files are read again only when they are used
		settle("first")
		time.Sleep(20 * time.Millisecond)
	}
	if line := <-lines; !strings.Contains(line, "stays in force") || !strings.Contains(line, "private key does not match") || !strings.Contains(line, files.Key) {
		t.Errorf("logged %q", line)
	}
	files.Put(ca, "", name("second"))
	settle("second")
	if line := forwardtest.Receive(t, "the log", lines); !strings.Contains(line, "files reloaded") {
		t.Errorf("logged %q", line)
	}
	if last, err := old.ask(); last || err != nil {
		t.Errorf("on a connection from before: last %v, %v", last, err)
	}
	if len(lines) > 0 {
		t.Errorf("and logged %q", <-lines)
	}
	s.Stop(server.DrainTimings{})
}

// A chunked body that ends between two chunks is truncated, with or without close_notify.
func TestTLSTruncatedBodies(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	var s *withTLS
	s = newWithTLS(t, server.Config{Handle: func(rc *fasthttp.RequestCtx) {
		c := s.Inflight.Begin()
		defer c.Close()
		body, err := c.ReadBody(rc, 1<<20, "")
		if err != nil {
			got <- err.Code
			return
		}
		got <- string(body)
	}})
	defer s.Stop(server.DrainTimings{})
	f := func(sent, want string) {
		t.Helper()
		for _, meant := range []bool{false, true} {
			c := s.call(nil)
			fmt.Fprint(c.TLSConn, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+sent)
			if meant {
				_ = c.CloseWrite()
			} else {
				_ = c.caller.TCPConn.CloseWrite()
			}
			select {
			case g := <-got:
				if g != want {
					t.Errorf("%q, end meant: %v: got %q, want %q", sent, meant, g, want)
				}
			case <-time.After(10 * time.Second):
				t.Errorf("%q, end meant: %v: nothing was handled", sent, meant)
			}
			c.caller.TCPConn.Close()
		}
	}
	f("5\r\nhello\r\n0\r\n\r\n", "hello")
	for _, cut := range []string{"5\r\nhello\r\n", "5\r\nhello", "5\r\nhel", "5\r\n", "5", ""} {
		f(cut, "invalid_request")
	}
}

// A client that sends its request and close_notify at once has gone, although TLS has read both.
func TestTLSRequestWithCloseNotify(t *testing.T) {
	t.Parallel()
	gone := make(chan error, 1)
	var s *withTLS
	s = newWithTLS(t, server.Config{Handle: func(rc *fasthttp.RequestCtx) {
		c := s.Inflight.Begin()
		defer c.Close()
		if err := c.WatchClient(rc.Conn()); err != nil {
			t.Error(err)
		}
		select {
		case <-c.Context.Done():
			gone <- context.Cause(c.Context)
		case <-time.After(10 * time.Second):
			gone <- errors.New("not noticed")
		}
	}})
	defer s.Stop(server.DrainTimings{})
	raw := s.reach()
	defer raw.Close()
	breath := &held{Conn: raw.TCPConn}
	c := tls.Client(breath, &tls.Config{RootCAs: s.ca.Pool(), ServerName: "localhost"})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	breath.holds = true
	fmt.Fprint(c, aRequest)
	_ = c.CloseWrite()
	_ = raw.SetWriteDeadline(time.Time{})
	if _, err := raw.Write(breath.kept); err != nil {
		t.Fatal(err)
	}
	if err := <-gone; !errors.Is(err, server.ErrClientGone) {
		t.Errorf("the request ended with %v", err)
	}
}

// held holds back what is written.
type held struct {
	net.Conn
	holds bool
	kept  []byte
}

func (h *held) Write(p []byte) (int, error) {
	if !h.holds {
		return h.Conn.Write(p)
	}
	h.kept = append(h.kept, p...)
	return len(p), nil
}
