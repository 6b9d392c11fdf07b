package forwarding

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

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
	if n := s.door.count(); n != 0 {
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

func TestDrainingAnswersAreTheLast(t *testing.T) {
	s := newDraining(t, nil)
	c := mustCall(t, s)
	if last, err := c.ask(); last || err != nil {
		t.Errorf("before: last %v, %v", last, err)
	}
	s.Drain()
	if last, err := c.ask(); !last || err != nil {
		t.Errorf("while draining: last %v, %v", last, err)
	}
	c.ends(t)
	if last, err := mustCall(t, s).ask(); !last || err != nil {
		t.Errorf("a new connection while draining: last %v, %v", last, err)
	}
	s.end(Pace{})
}

// A request behind the one that is the last gets no answer, and takes none away.
func TestPipelinedBehindTheLast(t *testing.T) {
	s := newDraining(t, nil)
	c := mustCall(t, s)
	s.Drain()
	fmt.Fprint(c, strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 5000))
	time.Sleep(20 * time.Millisecond)
	if last, err := c.hear(); !last || err != nil {
		t.Errorf("last %v, %v", last, err)
	}
	c.ends(t)
	s.end(Pace{})
}

// Connections that wait leave, without a reset; but those that a request may still come on are given time for it.
func TestIdleConnectionsLeave(t *testing.T) {
	s := newDraining(t, nil)
	p := Pace{Quiet: time.Second}
	used, unused := mustCall(t, s), mustCall(t, s)
	if _, err := used.ask(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(p.Quiet)
	asked := time.Now()
	fresh, recent := mustCall(t, s), mustCall(t, s)
	if _, err := recent.ask(); err != nil {
		t.Fatal(err)
	}
	go s.Shut(p)
	used.ends(t)
	unused.ends(t)
	if _, err := used.Write([]byte("GET / HTTP/1.1\r\n")); err != nil {
		t.Errorf("a request that crosses the end of its connection: %v", err)
	}
	for _, c := range []*caller{fresh, recent} {
		wantLast(t, c, asked.Add(p.Quiet))
	}
	s.end(p)
}

// asker is a connection over which a request may be sent.
type asker interface{ ask() (last bool, err error) }

// wantLast expects one more answer on a connection that is not silent for long until then. On a machine that is so slow that
// it was, nothing can be expected.
func wantLast(t *testing.T, c asker, then time.Time) {
	t.Helper()
	if last, err := c.ask(); (!last || err != nil) && time.Now().Before(then) {
		t.Errorf("on a connection that was not silent for long: last %v, %v", last, err)
	}
}

// A request of which half has come when its server ends is waited for.
func TestHalfARequest(t *testing.T) {
	s := newDraining(t, nil)
	c := mustCall(t, s)
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHo")
	time.Sleep(50 * time.Millisecond)
	s.Shut(Pace{})
	time.Sleep(50 * time.Millisecond)
	fmt.Fprint(c, "st: x\r\n\r\n")
	if last, err := c.hear(); !last || err != nil {
		t.Errorf("last %v, %v", last, err)
	}
	s.end(Pace{})
}

// Whoever connects until the very end is answered or refused, and never reset.
func TestShutResetsNobody(t *testing.T) {
	for range 3 {
		s := newDraining(t, nil)
		var crowd sync.WaitGroup
		var answered, reset atomic.Int64
		for range 16 {
			crowd.Go(func() {
				for {
					c, err := call(s.address)
					if errors.Is(err, syscall.ECONNREFUSED) {
						return
					}
					if err == nil {
						_, err = c.ask()
						c.Close()
					}
					switch {
					case err == nil:
						answered.Add(1)
					case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
						reset.Add(1)
					default:
						t.Error(err)
						return
					}
				}
			})
		}
		for answered.Load() < 200 {
			time.Sleep(time.Millisecond)
		}
		s.Shut(Pace{Quiet: time.Second}) // far longer than from a connect to its request
		crowd.Wait()
		if n := reset.Load(); n > 0 {
			t.Errorf("%d of %d were reset", n, answered.Load()+n)
		}
		s.end(Pace{})
	}
}

// A server that nobody asks is quiet at once; one that is asked all the time for as long as it may take to notice.
func TestAwaitQuiet(t *testing.T) {
	s := newDraining(t, nil)
	await := func(p Pace, expected func() bool) time.Duration {
		began := time.Now()
		s.AwaitQuiet(context.Background(), p, expected)
		return time.Since(began)
	}
	f := func(name string, took, least, most time.Duration) {
		t.Helper()
		if took < least || took > most {
			t.Errorf("%s: waited %v, want %v to %v", name, took, least, most)
		}
	}
	hour := Pace{Notice: time.Hour, Quiet: 300 * time.Millisecond}
	f("never asked", await(hour, nil), 0, patience)
	hour.Settle = 100 * time.Millisecond
	f("never asked, but told to wait", await(hour, nil), hour.Settle, patience)
	c := mustCall(t, s)
	asked := time.Now()
	if _, err := c.ask(); err != nil {
		t.Fatal(err)
	}
	await(hour, nil)
	f("just asked", time.Since(asked), hour.Quiet, patience)
	began := time.Now()
	due := began.Add(200 * time.Millisecond)
	await(hour, func() bool { return time.Now().Before(due) })
	f("somebody is expected", time.Since(began), 200*time.Millisecond, patience)
	f("somebody is always expected", await(Pace{Notice: 100 * time.Millisecond}, func() bool { return true }), 100*time.Millisecond, patience)
	stop, asking := make(chan struct{}), sync.WaitGroup{}
	asking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = c.ask()
			}
		}
	})
	f("asked all the time", await(Pace{Notice: time.Second, Quiet: 900 * time.Millisecond}, nil), time.Second, patience)
	close(stop)
	asking.Wait()
	c.Close()
	s.end(Pace{})
}

// The end waits for requests, and for connections that were taken over.
func TestEndWaits(t *testing.T) {
	handling, release := make(chan struct{}), make(chan struct{})
	s := newDraining(t, func(*fasthttp.RequestCtx) {
		close(handling)
		<-release
	})
	c, err := call(s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answer := make(chan error, 1)
	go func() {
		_, err := c.ask()
		answer <- err
	}()
	<-handling
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.end(Pace{})
	}()
	select {
	case <-over:
		t.Error("it has ended with a request in hand")
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	if err := <-answer; err != nil {
		t.Error(err)
	}
	<-over
}

// Who drips a request when time is over is cut.
func TestEndCuts(t *testing.T) {
	s := newDraining(t, nil)
	c := mustCall(t, s)
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHo")
	time.Sleep(20 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := errors.Join(s.End(ctx, Pace{}, errors.New("time is over")), <-s.served); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > cutAfter+patience/2 {
		t.Errorf("took %v", took)
	}
}
