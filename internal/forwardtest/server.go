package forwardtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/server"
	"colonnade/internal/testkit"
	"colonnade/openai"
)

// Drainable is a running server that answers "ok".
type Drainable struct {
	*server.Server
	Inflight *server.Inflight
	T        *testing.T
	Address  string
	Served   chan error
	clients  []*RawClient // closed by Stop
}

// Serve starts a server with a handler; nil = only "ok".
func Serve(t *testing.T, handle func(*fasthttp.RequestCtx)) *Drainable {
	t.Helper()
	return ServeConfig(t, server.Config{Handle: handle})
}

// ServeConfig starts a server with a configuration, whose missing fields get defaults. prepare is called before it serves.
func ServeConfig(t *testing.T, config server.Config, prepare ...func(*server.Server)) *Drainable {
	t.Helper()
	inflight, err := server.NewInflight(slog.New(slog.DiscardHandler), server.DefaultBodyMemory)
	if err != nil {
		t.Fatal(err)
	}
	s := &Drainable{Inflight: inflight, T: t, Served: make(chan error, 1)}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.HandleError == nil {
		config.HandleError = func(rc *fasthttp.RequestCtx, e *openai.Error) { server.WriteError(rc, e, "") }
	}
	handle := config.Handle
	config.Inflight, config.Handle = inflight, func(rc *fasthttp.RequestCtx) {
		c := inflight.Begin()
		defer c.Close()
		if handle != nil {
			handle(rc)
		}
		if !rc.Response.IsBodyStream() {
			rc.SetBodyString("ok")
		}
	}
	s.Server = server.New(config)
	for _, do := range prepare {
		do(s.Server)
	}
	ln, err := server.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Address = ln.Addr().String()
	go func() { s.Served <- s.Serve(ln) }()
	return s
}

// Stop shuts the server down, and expects that no connection is left.
func (s *Drainable) Stop(p server.DrainTimings) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for _, c := range s.clients {
		c.Close()
	}
	if err := errors.Join(s.Shutdown(ctx, p, nil), <-s.Served); err != nil {
		s.T.Error(err)
	}
	if n := s.ConnStats().Open; n != 0 {
		s.T.Errorf("%d connections are left", n)
	}
}

// RawClient is the TCP connection of a client.
type RawClient struct {
	*net.TCPConn
	Br *bufio.Reader
}

// Dial connects to a server.
func Dial(address string) (*RawClient, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(Patience))
	return &RawClient{TCPConn: c.(*net.TCPConn), Br: bufio.NewReader(c)}, nil
}

// MustDial connects to s until the end of the test.
func MustDial(t *testing.T, s *Drainable) *RawClient {
	t.Helper()
	c, err := Dial(s.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s.clients = append(s.clients, c)
	return c
}

// Ask sends a request, and reads the response. last is whether the response is the connection's last.
func (c *RawClient) Ask() (last bool, err error) {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return false, err
	}
	return c.ReadOK()
}

// ReadOK reads the response "ok".
func (c *RawClient) ReadOK() (last bool, err error) {
	r, err := http.ReadResponse(c.Br, nil)
	if err != nil {
		return false, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && string(body) != "ok" {
		err = fmt.Errorf("answer %d %q", r.StatusCode, body)
	}
	return r.Close, err
}

// AssertEOF expects the connection to end without further bytes and without a reset.
func (c *RawClient) AssertEOF(t *testing.T) {
	t.Helper()
	if rest, err := io.ReadAll(c.Br); err != nil || len(rest) > 0 {
		t.Errorf("the connection ended with %q, %v", rest, err)
	}
}

// WaitFor waits until what returns true.
func (s *Drainable) WaitFor(what func() bool) {
	s.T.Helper()
	testkit.WaitFor(s.T, "it to come", what)
}

// DialFrom connects from a loopback address. It skips the test if this machine does not have the address.
func (s *Drainable) DialFrom(address string) *RawClient {
	s.T.Helper()
	testkit.NeedsAddress(s.T, address)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: Patience}
	c, err := dialer.Dial("tcp", s.Address)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(Patience))
	in := &RawClient{TCPConn: c.(*net.TCPConn), Br: bufio.NewReader(c)}
	s.clients = append(s.clients, in)
	return in
}

// AssertServed expects a request on each connection to be served.
func (s *Drainable) AssertServed(clients ...*RawClient) {
	s.T.Helper()
	for _, c := range clients {
		if _, err := c.Ask(); err != nil {
			s.T.Errorf("a connection from %s is not served: %v", c.LocalAddr(), err)
		}
	}
}

// ReadRefusal sends a request on a connection beyond a limit, and returns the status and the error of the response. The connection
// must end without a reset.
func (c *RawClient) ReadRefusal(t *testing.T, request string) (status int, reason string, number int) {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Errorf("cannot send: %v", err)
	}
	r, err := http.ReadResponse(c.Br, nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer r.Body.Close()
	var body struct {
		Error struct {
			Number  int
			Reason  string
			Message string
		}
	}
	text, err := io.ReadAll(r.Body)
	if err = errors.Join(err, json.Unmarshal(text, &body)); err != nil {
		t.Errorf("answer %q: %v", text, err)
	}
	if !r.Close || r.Header.Get("Retry-After") == "" || r.Header.Get("Retry-After-Ms") == "" || r.Header.Get("Date") == "" {
		t.Errorf("headers %v, last: %v", r.Header, r.Close)
	}
	c.AssertEOF(t)
	return r.StatusCode, r.Header.Get(hop.HeaderReason), body.Error.Number
}

// AssertAnsweredEarly sends a request and another one behind it, and reads the responses. Only the last one has Connection: close: that
// of the second request if continues is set, otherwise that of the first.
func (s *Drainable) AssertAnsweredEarly(t *testing.T, text string, continues bool) {
	t.Helper()
	c := MustDial(t, s)
	defer c.Close()
	go func() {
		_, _ = io.WriteString(c, text+"GET /behind HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	}()
	for {
		answer, err := http.ReadResponse(c.Br, nil)
		if err != nil {
			t.Errorf("%.100q: %v", text, err)
			return
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		if answer.StatusCode == http.StatusContinue {
			continue
		}
		if answer.Close == continues {
			t.Errorf("%.100q: answered %d, and the last: %v", text, answer.StatusCode, answer.Close)
		}
		if answer.Close {
			break
		}
		continues = false
	}
	c.AssertEOF(t)
}
