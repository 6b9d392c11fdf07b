package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/link"
	"colonnade/forwarding/netconn"
	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"
	"colonnade/internal/testkit"
	"colonnade/openai"
)

// linked is a server with a link to it.
type linked struct {
	*forwardtest.Drainable
	link *link.Link
}

// serveLinked starts a server that accepts links, and opens one.
func serveLinked(t *testing.T, handle func(*fasthttp.RequestCtx, *linked)) *linked {
	t.Helper()
	l := acceptLinks(t, handle)
	l.link = forwardtest.OpenLink(t, forwardtest.MustDial(t, l.Drainable).TCPConn, "")
	return l
}

func acceptLinks(t *testing.T, handle func(*fasthttp.RequestCtx, *linked)) *linked {
	t.Helper()
	return acceptLinksWith(t, server.Config{}, handle)
}

func acceptLinksWith(t *testing.T, config server.Config, handle func(*fasthttp.RequestCtx, *linked)) *linked {
	t.Helper()
	l, ready := &linked{}, make(chan struct{})
	config.Handle = func(rc *fasthttp.RequestCtx) {
		<-ready
		if string(rc.Path()) != hop.PathLink {
			handle(rc, l)
			return
		}
		if !l.AcceptLink(rc) {
			rc.SetStatusCode(http.StatusBadRequest)
		}
	}
	l.Drainable = forwardtest.ServeConfig(t, config)
	close(ready)
	return l
}

func (l *linked) open(request string) *link.Stream {
	l.T.Helper()
	return forwardtest.OpenStream(l.T, l.link, request+"\r\nHost: x\r\n\r\n")
}

// stop ends the server, which ends the link.
func (l *linked) stop() {
	l.T.Helper()
	l.Stop(server.DrainTimings{})
	forwardtest.Receive(l.T, "the end of the link", l.link.Done())
	if stats := l.LinkStats(); stats != (server.LinkStats{}) {
		l.T.Errorf("%+v are left", stats)
	}
}

// The streams of a link carry requests as connections do, each one.
func TestStreamsCarryRequests(t *testing.T) {
	t.Parallel()
	l := serveLinked(t, func(rc *fasthttp.RequestCtx, l *linked) {
		in := l.Inflight.Begin()
		defer in.Close()
		body, e := in.ReadBody(rc, 1<<20, "")
		if e != nil {
			server.WriteError(rc, e, "")
			return
		}
		rc.Response.Header.Set("X-Path", string(rc.Path()))
		rc.SetBodyStream(bytes.NewReader(bytes.Clone(body)), len(body))
	})
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			body := strings.Repeat("x", 1+i*700) // above what arrives before the handler is called
			s := forwardtest.OpenStream(t, l.link, fmt.Sprintf("POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", i, len(body), body))
			answer, got, err := forwardtest.ReadStream(s)
			if err != nil || answer.StatusCode != 200 || answer.Header.Get("X-Path") != fmt.Sprint("/", i) || string(got) != body {
				t.Errorf("request %d: %v, %v, %d bytes", i, answer, err, len(got))
			}
		})
	}
	all.Wait()
	// A second request on a stream is not served.
	s := l.open("GET /one HTTP/1.1\r\nHost: x\r\n\r\nGET /two HTTP/1.1")
	if answer, _, err := forwardtest.ReadStream(s); err != nil || answer.Header.Get("X-Path") != "/one" || !answer.Close {
		t.Errorf("a stream with two requests: %v, %v", answer, err)
	}
	l.stop()
}

// A response that is not complete ends with an error, after all that was written of it.
func TestTruncatedStreamsAreReset(t *testing.T) {
	t.Parallel()
	l := serveLinked(t, func(rc *fasthttp.RequestCtx, _ *linked) {
		var end error
		if string(rc.Path()) == "/part" {
			end = errors.New("truncated")
		}
		server.WriteStream(rc, func(w io.Writer) error {
			_, _ = io.WriteString(w, "some")
			return end
		})
	})
	f := func(path string, want error) {
		t.Helper()
		if answer, body, err := forwardtest.ReadStream(l.open("GET " + path + " HTTP/1.1")); answer == nil || string(body) != "some" || !errors.Is(err, want) {
			t.Errorf("%s: %v %q, %v", path, answer, body, err)
		}
	}
	f("/all", nil)
	f("/part", link.ErrReset)
	l.stop()
}

// The request of a client that resets its stream, or whose link breaks, ends at once.
func TestClientsLeaveTheirStreams(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*linked, *link.Stream){
		"reset":         func(_ *linked, s *link.Stream) { s.Abort(); s.Close() },
		"broken link":   func(l *linked, _ *link.Stream) { l.link.Close() },
		"reset earlier": func(_ *linked, s *link.Stream) { s.Abort(); s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun, left, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			l := serveLinked(t, func(rc *fasthttp.RequestCtx, l *linked) {
				in := l.Inflight.Begin()
				defer in.Close()
				if name == "reset earlier" {
					close(begun)
					<-left
				}
				if err := in.WatchClient(rc.Conn()); err != nil {
					t.Error(err)
				}
				if name != "reset earlier" {
					close(begun)
				}
				<-in.Context.Done()
				ended <- context.Cause(in.Context)
			})
			s := l.open("GET / HTTP/1.1")
			forwardtest.Receive(t, "the request", begun)
			leave(l, s)
			close(left)
			if err := forwardtest.Receive(t, "the end of the request", ended); !errors.Is(err, server.ErrClientGone) {
				t.Errorf("ended with %v", err)
			}
			l.stop()
		})
	}
}

// A hijacked stream is read and written as a hijacked connection.
func TestHijackAStream(t *testing.T) {
	t.Parallel()
	l := serveLinked(t, func(rc *fasthttp.RequestCtx, l *linked) {
		in := l.Inflight.Begin()
		aborts := string(rc.Path()) == "/abort"
		rc.HijackSetNoResponse(true)
		in.Hijack(rc, func(c *netconn.Conn) {
			defer in.Close()
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
			_, _ = io.Copy(c, io.LimitReader(c, 5))
			if aborts {
				c.Abort()
			}
		})
	})
	f := func(path string, want error) {
		t.Helper()
		if _, body, err := forwardtest.ReadStream(l.open("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\nhello")); string(body) != "hello" || !errors.Is(err, want) {
			t.Errorf("%s: %q, %v", path, body, err)
		}
	}
	f("/", nil)
	f("/abort", link.ErrReset)
	l.stop()
}

// A drain ends a link after its last stream, and its client may open no further one.
func TestDrainOfALink(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	l := serveLinked(t, func(*fasthttp.RequestCtx, *linked) { <-release })
	s := l.open("GET / HTTP/1.1")
	idle := forwardtest.OpenLink(t, forwardtest.MustDial(t, l.Drainable).TCPConn, "")
	l.WaitFor(func() bool { return l.LinkStats() == server.LinkStats{Links: 2, Streams: 1} })
	l.StopAccepting(server.DrainTimings{})
	forwardtest.Receive(t, "the end of the idle link", idle.Done())
	l.WaitFor(func() bool { return !l.link.Usable() })
	if _, err := l.link.Open([]byte("x"), true); !errors.Is(err, link.ErrNotSent) {
		t.Errorf("opening a stream: %v", err)
	}
	close(release)
	if _, body, err := forwardtest.ReadStream(s); string(body) != "ok" || err != nil {
		t.Errorf("the request in flight: %q, %v", body, err)
	}
	l.stop()
}

// The end of a drain ends links whose requests do not.
func TestDrainBreaksLinks(t *testing.T) {
	t.Parallel()
	l := serveLinked(t, func(rc *fasthttp.RequestCtx, l *linked) {
		in := l.Inflight.Begin()
		defer in.Close()
		<-in.Context.Done()
		server.WriteError(rc, openai.Internal(), "")
	})
	s := l.open("GET / HTTP/1.1")
	l.WaitFor(func() bool { return l.Inflight.Count() > 0 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := errors.Join(l.Shutdown(ctx, server.DrainTimings{}, errors.New("drained")), <-l.Served); err != nil {
		t.Error(err)
	}
	forwardtest.Receive(t, "the end of the link", l.link.Done())
	if answer, _, err := forwardtest.ReadStream(s); err != nil || answer.StatusCode != http.StatusInternalServerError {
		t.Errorf("%v, %v", answer, err)
	}
}

// A server ends after its links, which might still accept streams.
func TestShutdownWaitsForLinks(t *testing.T) {
	t.Parallel()
	broken, release := make(chan struct{}), make(chan struct{})
	l := serveLinked(t, func(rc *fasthttp.RequestCtx, l *linked) {
		in := l.Inflight.Begin()
		rc.HijackSetNoResponse(true)
		in.Hijack(rc, func(c *netconn.Conn) {
			defer in.Close()
			ready := make(chan struct{})
			go c.Stream().OnReset(func(error) {
				close(ready)
				close(broken)
				<-release
			})
			<-ready
		})
	})
	s := l.open("GET / HTTP/1.1")
	defer s.Close()
	l.WaitFor(func() bool { return l.LinkStats() == server.LinkStats{Links: 1, Streams: 1} })
	l.link.Close()
	forwardtest.Receive(t, "the end of the stream", broken)
	ended := make(chan error, 1)
	go func() { ended <- l.Shutdown(context.Background(), server.DrainTimings{}, errors.New("drained")) }()
	select {
	case <-ended:
		t.Error("the server has ended before its link")
	case <-time.After(200 * time.Millisecond):
	}
	close(release)
	if err := errors.Join(forwardtest.Receive(t, "the end of the server", ended), <-l.Served); err != nil {
		t.Error(err)
	}
}

// Only a request for a link, on a connection of its own, makes one.
func TestNoLink(t *testing.T) {
	t.Parallel()
	l := acceptLinks(t, nil)
	f := func(name, request string) {
		t.Helper()
		c := forwardtest.MustDial(t, l.Drainable)
		_, _ = io.WriteString(c, request)
		answer, err := http.ReadResponse(c.Br, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d", name, answer.StatusCode)
		}
	}
	f("no upgrade", "GET "+hop.PathLink+" HTTP/1.1\r\nHost: x\r\n\r\n")
	f("another protocol", "GET "+hop.PathLink+" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	c := forwardtest.MustDial(t, l.Drainable)
	_, _ = io.WriteString(c, forwardtest.LinkRequest("")+"early")
	if answer, err := http.ReadResponse(c.Br, nil); err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("bytes before the response: %v", err)
	}
	testkit.WaitFor(t, "the connection to end", func() bool { return l.ConnStats().Open < 3 })
	l.link = forwardtest.OpenLink(t, forwardtest.MustDial(t, l.Drainable).TCPConn, "")
	s := forwardtest.OpenStream(t, l.link, forwardtest.LinkRequest(""))
	if answer, _, err := forwardtest.ReadStream(s); err != nil || answer.StatusCode != http.StatusBadRequest {
		t.Errorf("a link over a link: %v", err)
	}
	l.stop()
}

// A node that opens many streams gets as many as connections, over all of its links, and nothing is done for further ones.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 4
	release := make(chan struct{})
	l := acceptLinksWith(t, server.Config{MaxConns: most}, func(*fasthttp.RequestCtx, *linked) { <-release })
	l.link = forwardtest.OpenLink(t, forwardtest.MustDial(t, l.Drainable).TCPConn, "")
	second := forwardtest.OpenLink(t, forwardtest.MustDial(t, l.Drainable).TCPConn, "")
	const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	var served []*link.Stream
	for range most {
		served = append(served, forwardtest.OpenStream(t, second, request))
	}
	l.WaitFor(func() bool { return l.LinkStats() == server.LinkStats{Links: 2, Streams: most} })
	for range 1000 {
		s := forwardtest.OpenStream(t, l.link, request)
		if _, _, err := forwardtest.ReadStream(s); !errors.Is(err, link.ErrNotSent) {
			t.Fatalf("a stream too many: %v", err)
		}
		_ = s.Close()
	}
	close(release)
	for _, s := range served {
		if answer, _, err := forwardtest.ReadStream(s); err != nil || answer.StatusCode != 200 {
			t.Errorf("a stream within the limit: %v, %v", answer, err)
		}
		_ = s.Close()
	}
	second.GoAway()
	l.stop()
}
