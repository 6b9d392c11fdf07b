package forwarding

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

	"colonnade/internal/testkit"
	"colonnade/openai"
)

// draining is a server whose end is tested. It answers with "ok".
type draining struct {
	*Server
	t       *testing.T
	address string
	served  chan error
	callers []*caller // closed before the end is waited for
}

func newDraining(t *testing.T, handle func(*fasthttp.RequestCtx)) *draining {
	t.Helper()
	return drainingBy(t, ServerConfig{Handle: handle})
}

// drainingBy is newDraining with more of a config, of which what is not there is filled in.
func drainingBy(t *testing.T, config ServerConfig, prepare ...func(*Server)) *draining {
	t.Helper()
	inHand, err := NewInHand(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := &draining{t: t, served: make(chan error, 1)}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Refuse == nil {
		config.Refuse = func(rc *fasthttp.RequestCtx, e *openai.Error) { WriteError(rc, e, "") }
	}
	handle := config.Handle
	config.InHand, config.Handle = inHand, func(rc *fasthttp.RequestCtx) {
		c := inHand.Take()
		defer c.LetGo()
		if handle != nil {
			handle(rc)
		}
		if !rc.Response.IsBodyStream() {
			rc.SetBodyString("ok")
		}
	}
	s.Server = NewServer(config)
	for _, do := range prepare {
		do(s.Server)
	}
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = ln.Addr().String()
	go func() { s.served <- s.Serve(ln) }()
	return s
}

// end ends the server, and expects that nothing is left of it.
func (s *draining) end(p Pace) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, c := range s.callers {
		c.Close()
	}
	if err := errors.Join(s.End(ctx, p, nil), <-s.served); err != nil {
		s.t.Error(err)
	}
	if n := s.Connections().Open; n != 0 {
		s.t.Errorf("%d connections are left", n)
	}
}

// caller is a client's bare connection.
type caller struct {
	*net.TCPConn
	br *bufio.Reader
}

func call(address string) (*caller, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	return &caller{TCPConn: c.(*net.TCPConn), br: bufio.NewReader(c)}, nil
}

func mustCall(t *testing.T, s *draining) *caller {
	t.Helper()
	c, err := call(s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s.callers = append(s.callers, c)
	return c
}

// ask sends a request and reads the answer. last is whether it says that it is the connection's last.
func (c *caller) ask() (last bool, err error) {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return false, err
	}
	return c.hear()
}

func (c *caller) hear() (last bool, err error) {
	r, err := http.ReadResponse(c.br, nil)
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

// ends reads until the connection ends, and expects that nothing more comes, and no reset.
func (c *caller) ends(t *testing.T) {
	t.Helper()
	if rest, err := io.ReadAll(c.br); err != nil || len(rest) > 0 {
		t.Errorf("the connection ended with %q, %v", rest, err)
	}
}

// comes waits for what must come.
func (s *draining) comes(what func() bool) {
	s.t.Helper()
	testkit.WaitFor(s.t, "it to come", what)
}

// from connects from an address of loopback.
func (s *draining) from(address string) *caller {
	s.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: patience}
	c, err := dialer.Dial("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	in := &caller{TCPConn: c.(*net.TCPConn), br: bufio.NewReader(c)}
	s.callers = append(s.callers, in)
	return in
}

func (s *draining) mustServe(callers ...*caller) {
	s.t.Helper()
	for _, c := range callers {
		if _, err := c.ask(); err != nil {
			s.t.Errorf("a connection from %s is not served: %v", c.LocalAddr(), err)
		}
	}
}

// refusal asks over a connection that is one too many, and returns the whole answer's head and its error. The connection
// must end without a reset.
func (c *caller) refusal(t *testing.T, request string) (status int, reason string, number int) {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Errorf("cannot send: %v", err)
	}
	r, err := http.ReadResponse(c.br, nil)
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
	c.ends(t)
	return r.StatusCode, r.Header.Get(HeaderReason), body.Error.Number
}

// sayEarly sends a request and one behind it, and reads what is answered: only the last answer says that it is.
func (s *draining) sayEarly(t *testing.T, text string, goesOn bool) {
	t.Helper()
	c := mustCall(t, s)
	defer c.Close()
	go func() {
		_, _ = io.WriteString(c, text+"GET /behind HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	}()
	for {
		answer, err := http.ReadResponse(c.br, nil)
		if err != nil {
			t.Errorf("%.100q: %v", text, err)
			return
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		if answer.StatusCode == http.StatusContinue {
			continue
		}
		if answer.Close == goesOn {
			t.Errorf("%.100q: answered %d, and the last: %v", text, answer.StatusCode, answer.Close)
		}
		if answer.Close {
			break
		}
		goesOn = false
	}
	c.ends(t)
}
