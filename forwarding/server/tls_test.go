package server_test

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
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/peertls"
	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"
	"colonnade/internal/tlstest"
)

// withTLS is a server with TLS, and the authority of its certificate.
type withTLS struct {
	*forwardtest.Drainable
	ca    *tlstest.CA
	files tlstest.Files
}

func newWithTLS(t *testing.T, config server.Config, prepare ...func(*server.Server)) *withTLS {
	t.Helper()
	ca, files := tlstest.NewCA(t, "public"), tlstest.NewFiles(t)
	files.Put(ca, "", nil)
	config.TLS = mustLoad(t, files, slog.New(slog.DiscardHandler))
	return &withTLS{Drainable: forwardtest.ServeConfig(t, config, prepare...), ca: ca, files: files}
}

func mustLoad(t *testing.T, f tlstest.Files, logger *slog.Logger) *tls.Config {
	t.Helper()
	c, err := peertls.LoadCertificate("the certificate", peertls.CertificateFiles{Cert: f.Cert, Key: f.Key}, logger)
	if err != nil {
		t.Fatal(err)
	}
	return c.ServerTLS()
}

// call opens a connection with TLS, whose end without close_notify is an error: see [netconn.TLSConn].
func (s *withTLS) call(change func(*tls.Config)) *tlsCaller {
	s.T.Helper()
	c := s.reach()
	config := &tls.Config{RootCAs: s.ca.Pool(), ServerName: "localhost"}
	if change != nil {
		change(config)
	}
	over := netconn.NewTLS(netconn.NewSocket(c.TCPConn), func(below net.Conn) *tls.Conn { return tls.Client(below, config) }, nil)
	return &tlsCaller{caller: c, TLSConn: over, br: bufio.NewReader(over)}
}

// reach opens a TCP connection without a TLS handshake.
func (s *withTLS) reach() *forwardtest.RawClient {
	s.T.Helper()
	return forwardtest.MustDial(s.T, s.Drainable)
}

type tlsCaller struct {
	caller *forwardtest.RawClient
	*netconn.TLSConn
	br *bufio.Reader
}

const aRequest = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

func (c *tlsCaller) ask() (last bool, err error) {
	if _, err := io.WriteString(c.TLSConn, aRequest); err != nil {
		return false, err
	}
	return c.hear()
}

func (c *tlsCaller) hear() (last bool, err error) {
	return (&forwardtest.RawClient{TCPConn: c.caller.TCPConn, Br: c.br}).ReadOK()
}

// ends expects close_notify and nothing before it.
func (c *tlsCaller) ends(t *testing.T) {
	t.Helper()
	if rest, err := io.ReadAll(c.br); err != nil || len(rest) > 0 {
		t.Errorf("the connection ended with %q, %v", rest, err)
	}
}

func TestTLSServes(t *testing.T) {
	t.Parallel()
	s := newWithTLS(t, server.Config{})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := s.call(func(config *tls.Config) { config.MinVersion, config.MaxVersion = version, version })
		for range 3 {
			if last, err := c.ask(); last || err != nil {
				t.Errorf("version %x: last %v, %v", version, last, err)
			}
		}
		fmt.Fprint(c.TLSConn, strings.Repeat(aRequest, 50)) // in one record
		for n := range 50 {
			if last, err := c.hear(); last || err != nil {
				t.Fatalf("version %x, request %d of many at once: last %v, %v", version, n, last, err)
			}
		}
		if p := c.Conn().ConnectionState().NegotiatedProtocol; p != "" {
			t.Errorf("version %x: speaks %q", version, p)
		}
	}
	s.Stop(server.DrainTimings{})
}

// A client that cannot do the handshake soon gets an alert, or an HTTP response without TLS.
func TestTLSRefusesHandshakes(t *testing.T) {
	t.Parallel()
	s := newWithTLS(t, server.Config{})
	f := func(name string, change func(*tls.Config), want string) {
		t.Helper()
		began := time.Now()
		_, err := s.call(change).ask()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if took := time.Since(began); took > server.LingerTime {
			t.Errorf("%s: took %v", name, took)
		}
	}
	f("HTTP/2 only", func(c *tls.Config) { c.NextProtos = []string{"h2"} }, "no application protocol")
	f("HTTP/2 or 1.1", func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} }, "")
	f("TLS 1.1", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, "protocol version")

	c := s.reach()
	fmt.Fprint(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 50000))
	answer, err := http.ReadResponse(c.Br, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != 400 || !strings.Contains(string(body), `"code":"invalid_request"`) || !strings.Contains(string(body), "https://") || err != nil {
		t.Errorf("plain HTTP: %d %s, %v", answer.StatusCode, body, err)
	}
	c.AssertEOF(t)

	c = s.reach()
	fmt.Fprint(c, "\x16\x03\x01\x00\x05hello")
	if b, err := io.ReadAll(c.Br); len(b) != 7 || b[0] != 0x15 || err != nil { // an alert
		t.Errorf("no handshake: %q, %v", b, err)
	}
	s.Stop(server.DrainTimings{})
}

// A connection whose handshake does not finish ends without a response when the time for a head is over.
func TestTLSHandshakeTimeout(t *testing.T) {
	t.Parallel()
	s := newWithTLS(t, server.Config{}, func(s *server.Server) { s.SetReadTimeout(300 * time.Millisecond) })
	hello := clientHello(t)
	for name, sent := range map[string]string{"no ClientHello": "", "part of it": hello[:40], "all of it": hello} {
		began := time.Now()
		c := s.reach()
		fmt.Fprint(c, sent)
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took < 100*time.Millisecond || took > forwardtest.Patience/2 {
			t.Errorf("%s: ended after %v", name, took)
		}
	}
	s.Stop(server.DrainTimings{})
}

// clientHello returns the first record of a client.
func clientHello(t *testing.T) string {
	t.Helper()
	var sent bytes.Buffer
	err := tls.Client(recorder{to: &sent}, &tls.Config{ServerName: "localhost"}).Handshake() //nolint:gosec // it must not succeed
	if err == nil || sent.Len() < 100 {
		t.Fatalf("sent %q, %v", sent.String(), err)
	}
	return sent.String()
}

type recorder struct {
	net.Conn
	to io.Writer
}

func (r recorder) Write(p []byte) (int, error)      { return r.to.Write(p) }
func (r recorder) Read([]byte) (int, error)         { return 0, io.EOF }
func (r recorder) SetWriteDeadline(time.Time) error { return nil }

// The watcher finds a client with TLS leave in each way, and is not misled by one that sends more.
func TestTLSWatcher(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	begun := make(chan struct{}, 1)
	var s *withTLS
	ready := make(chan struct{})
	s = newWithTLS(t, server.Config{Handle: func(rc *fasthttp.RequestCtx) {
		<-ready
		c := s.Inflight.Begin()
		defer c.Close()
		if string(rc.Path()) != "/watched" {
			return
		}
		if err := c.WatchClient(rc.Conn()); err != nil {
			t.Error(err)
		}
		begun <- struct{}{}
		select {
		case <-c.Context.Done():
			ended <- server.ErrClientGone
		case <-time.After(time.Second):
			ended <- nil
		}
	}})
	close(ready)
	f := func(name string, leave func(*tlsCaller), want error) {
		t.Helper()
		c := s.call(nil)
		if _, err := c.ask(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c.TLSConn, "GET /watched HTTP/1.1\r\nHost: x\r\n\r\n")
		forwardtest.Receive(t, "the request", begun)
		leave(c)
		if err := forwardtest.Receive(t, "its end", ended); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		c.Close()
	}
	f("closed", func(c *tlsCaller) { c.Close() }, server.ErrClientGone)
	f("closed without close_notify", func(c *tlsCaller) { c.caller.TCPConn.Close() }, server.ErrClientGone)
	f("reset", func(c *tlsCaller) { _ = c.caller.TCPConn.SetLinger(0); c.caller.TCPConn.Close() }, server.ErrClientGone)
	f("half-closed", func(c *tlsCaller) { _ = c.CloseWrite() }, server.ErrClientGone)
	f("close_notify only", func(c *tlsCaller) { _ = c.Conn().CloseWrite() }, server.ErrClientGone)
	f("closed behind another request", func(c *tlsCaller) { fmt.Fprint(c.TLSConn, aRequest); c.Close() }, server.ErrClientGone)
	f("closed behind more than the socket takes", func(c *tlsCaller) {
		_ = c.caller.TCPConn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		_, _ = c.TLSConn.Write(make([]byte, 32<<20))
		c.caller.TCPConn.Close()
	}, server.ErrClientGone)
	f("stays", func(*tlsCaller) {}, nil)
	f("sends more", func(c *tlsCaller) {
		fmt.Fprint(c.TLSConn, aRequest)
		time.Sleep(20 * time.Millisecond)
		fmt.Fprint(c.TLSConn, aRequest)
	}, nil)
	c := s.call(nil)
	fmt.Fprint(c.TLSConn, "GET /watched HTTP/1.1\r\nHost: x\r\n\r\n")
	forwardtest.Receive(t, "the request", begun)
	for range 3 {
		fmt.Fprint(c.TLSConn, aRequest)
	}
	if err := forwardtest.Receive(t, "its end", ended); err != nil {
		t.Error(err)
	}
	for n := range 4 { // the input that the watcher has polled is not lost
		if last, err := c.hear(); last || err != nil {
			t.Errorf("answer %d: last %v, %v", n, last, err)
		}
	}
	s.Stop(server.DrainTimings{})
}

// Idle connections close with close_notify, before or after their handshake. A handshake that has begun continues.
func TestTLSDrain(t *testing.T) {
	t.Parallel()
	s := newWithTLS(t, server.Config{})
	p := server.DrainTimings{Quiet: time.Second}
	used, unused, silent, slowly := s.call(nil), s.call(nil), s.reach(), s.reach()
	if _, err := used.ask(); err != nil {
		t.Fatal(err)
	}
	if err := unused.Conn().Handshake(); err != nil {
		t.Fatal(err)
	}
	slow := &dripping{Conn: slowly.TCPConn, pause: 3 * p.Quiet, pieces: 2}
	slow.drips.Store(true)
	late := tls.Client(slow, &tls.Config{RootCAs: s.ca.Pool(), ServerName: "localhost"})
	answered := make(chan error, 1)
	go func() {
		_, err := io.WriteString(late, aRequest)
		if err == nil {
			_, err = (&forwardtest.RawClient{Br: bufio.NewReader(late)}).ReadOK()
		}
		answered <- err
	}()
	for !slow.begun.Load() {
		time.Sleep(time.Millisecond)
	}
	slow.drips.Store(false) // except for the ClientHello
	time.Sleep(p.Quiet)
	asked := time.Now()
	recent := s.call(nil)
	if _, err := recent.ask(); err != nil {
		t.Fatal(err)
	}
	go s.StopAccepting(p)
	used.ends(t)
	unused.ends(t)
	silent.AssertEOF(t)
	wantLast(t, recent.ask, asked.Add(p.Quiet))
	recent.ends(t)
	if err := forwardtest.Receive(t, "the client in the middle of its handshake", answered); err != nil {
		t.Errorf("in the middle of a handshake: %v", err)
	}
	s.Stop(p)
}

// A client whose record arrives in pieces is not silent.
func TestTLSDrainWaitsForRecords(t *testing.T) {
	t.Parallel()
	s := newWithTLS(t, server.Config{})
	p := server.DrainTimings{Quiet: time.Second}
	slow := &dripping{Conn: s.reach().TCPConn, pause: p.Quiet / 4, pieces: 6} // longer than the idle limit in all
	over := tls.Client(slow, &tls.Config{RootCAs: s.ca.Pool(), ServerName: "localhost"})
	c := &forwardtest.RawClient{Br: bufio.NewReader(over)}
	if err := over.Handshake(); err != nil {
		t.Fatal(err)
	}
	slow.drips.Store(true)
	go s.StopAccepting(p)
	fmt.Fprint(over, aRequest)
	if last, err := c.ReadOK(); !last || err != nil {
		t.Errorf("last %v, %v", last, err)
	}
	c.AssertEOF(t)
	s.Stop(p)
}

// dripping is a connection that writes in pieces.
type dripping struct {
	net.Conn
	pause  time.Duration
	pieces int
	drips  atomic.Bool
	begun  atomic.Bool // a piece was written
}

func (d *dripping) Write(p []byte) (n int, err error) {
	if !d.drips.Load() {
		return d.Conn.Write(p)
	}
	for piece := range slices.Chunk(p, len(p)/d.pieces+1) {
		if _, err := d.Conn.Write(piece); err != nil {
			return n, err
		}
		n += len(piece)
		d.begun.Store(true)
		if n < len(p) {
			time.Sleep(d.pause)
		}
	}
	return n, nil
}

// A connection whose handshake agrees on another protocol, as an authority's does for a challenge, ends with the handshake. Another connection
// that offers both speaks HTTP.
func TestTLSHandshakeForAnotherProtocol(t *testing.T) {
	t.Parallel()
	ca := tlstest.NewCA(t, "public")
	pair := ca.Pair("", nil)
	config := server.Config{TLS: &tls.Config{NextProtos: []string{peertls.ALPN, "acme-tls/1"}, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
	s := &withTLS{ca: ca, Drainable: forwardtest.ServeConfig(t, config)}
	c := s.call(func(config *tls.Config) { config.NextProtos = []string{"acme-tls/1"} })
	if err := c.Conn().Handshake(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c.TLSConn, aRequest)
	began := time.Now()
	c.ends(t)
	if took := time.Since(began); took > server.LingerTime {
		t.Errorf("the end took %v", took)
	}
	c = s.call(func(config *tls.Config) { config.NextProtos = []string{"acme-tls/1", "http/1.1"} })
	if last, err := c.ask(); last || err != nil {
		t.Errorf("HTTP: last %v, %v", last, err)
	}
	s.Stop(server.DrainTimings{})
}
