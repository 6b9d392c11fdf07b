package transport_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/link"
	"colonnade/forwarding/peertls"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/internal/testkit"
	"colonnade/internal/tlstest"
)

// linkServer answers requests, over links and over connections of their own.
type linkServer struct {
	address  string
	target   transport.Target
	answer   atomic.Pointer[func(net.Conn)] // answers a request, and returns when the exchange has ended
	opened   atomic.Int32                   // links
	overLink atomic.Int32                   // requests
	alone    atomic.Int32                   // requests over connections of their own
	refuse   atomic.Bool                    // links
	binary   atomic.Bool                    // links take binary heads, and answer reads the requests over them
	links    chan *link.Link
}

func newLinkServer(t *testing.T, answer func(net.Conn)) *linkServer {
	s := &linkServer{links: make(chan *link.Link, 10)}
	s.answer.Store(&answer)
	s.address = forwardtest.ListenRaw(t, s.serve)
	s.target = forwardtest.NewRequest(s.address).Target
	return s
}

// serve serves a connection.
func (s *linkServer) serve(c net.Conn) {
	br := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case r.URL.Path != hop.PathLink:
			s.alone.Add(1)
			(*s.answer.Load())(c)
		case s.refuse.Load():
			_, _ = io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		default:
			s.serveLink(c)
			return
		}
	}
}

func (s *linkServer) serveLink(c net.Conn) {
	s.opened.Add(1)
	heads := ""
	if s.binary.Load() {
		heads = hop.HeaderHeads + ": " + hop.BinaryHeads + "\r\n"
	}
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+hop.UpgradeLink+"\r\n"+heads+"\r\n")
	l := link.New(link.Config{Conn: c, Accept: func(stream *link.Stream) {
		go func() {
			defer stream.Close()
			answer := *s.answer.Load()
			if !s.binary.Load() {
				r, err := http.ReadRequest(bufio.NewReader(stream))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				answer = *s.answer.Load()
			}
			s.overLink.Add(1)
			answer(stream)
		}()
	}})
	s.links <- l
	_ = l.Run()
}

func (s *linkServer) setAnswer(answer func(net.Conn)) { s.answer.Store(&answer) }

// request returns a request that may go over a link.
func (s *linkServer) request() *transport.Request {
	r := forwardtest.NewRequest(s.address)
	r.Target = s.target
	r.Link = func() *transport.Request {
		return &transport.Request{Target: r.Target, Method: "GET", Path: hop.PathLink}
	}
	return r
}

// awaitLink sends requests until one could go over a link.
func (s *linkServer) awaitLink(t *testing.T, tr *transport.Transport) *link.Link {
	t.Helper()
	s.ask(t, tr)
	testkit.WaitFor(t, "the link", func() bool { return tr.LinkStats().Links == 1 })
	return <-s.links
}

func (s *linkServer) ask(t *testing.T, tr *transport.Transport) {
	t.Helper()
	a, err := tr.Do(context.Background(), s.request(), forwardtest.ChatOptions)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if body, whole := a.Body(); !whole || string(body) != `{"id":"abcd"}` {
		t.Errorf("answer %q, whole %v", body, whole)
	}
}

func answerPlain(c net.Conn) { _, _ = io.WriteString(c, plainAnswer) }

func TestRequestsShareALink(t *testing.T) {
	s, tr := newLinkServer(t, answerPlain), forwardtest.NewTransport(t)
	served := s.awaitLink(t, tr)
	for range 10 {
		s.ask(t, tr)
	}
	if opened, over, alone := s.opened.Load(), s.overLink.Load(), s.alone.Load(); opened != 1 || over != 10 || alone != 1 {
		t.Errorf("%d links, %d requests over them, %d alone; want 1, 10 and the first alone", opened, over, alone)
	}
	testkit.WaitFor(t, "the end of all streams", func() bool { return served.Streams() == 0 })
}

func TestLongBodiesAndHandshakesHaveConnections(t *testing.T) {
	s, tr := newLinkServer(t, answerPlain), forwardtest.NewTransport(t)
	s.awaitLink(t, tr)
	for size, want := range map[int]int32{transport.MaxLinkBody: 1, transport.MaxLinkBody + 1: 2} {
		r := s.request()
		r.Body = []byte(strings.Repeat("x", size))
		before := s.alone.Load()
		a, err := tr.Do(context.Background(), r, forwardtest.ChatOptions)
		if err != nil {
			t.Fatal(err)
		}
		a.Close()
		if n := s.alone.Load() - before + 1; n != want {
			t.Errorf("a body of %d bytes: %d requests alone, want %d", size, n-1, want-1)
		}
	}
}

func TestServerWithoutLinks(t *testing.T) {
	s, tr := newLinkServer(t, answerPlain), forwardtest.NewTransport(t)
	s.refuse.Store(true)
	for range 5 {
		s.ask(t, tr)
	}
	if n := s.alone.Load(); n != 5 || tr.LinkStats().Links != 0 {
		t.Errorf("%d requests alone, %d links", n, tr.LinkStats().Links)
	}
}

// TestStreamOverALink follows an event stream, of which each event arrives by itself.
func TestStreamOverALink(t *testing.T) {
	next := make(chan string)
	s, tr := newLinkServer(t, func(c net.Conn) {
		_, _ = io.WriteString(c, forwardtest.StreamHead)
		for event := range next {
			_, _ = io.WriteString(c, forwardtest.Chunk(event))
		}
		_, _ = io.WriteString(c, "0\r\n\r\n")
	}), forwardtest.NewTransport(t)
	go func() {
		next <- "data: [DONE]\n\n"
		close(next)
	}()
	a, err := tr.Do(context.Background(), s.request(), forwardtest.ChatOptions)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = drain(a)
	a.Close()
	testkit.WaitFor(t, "the link", func() bool { return tr.LinkStats().Links == 1 })
	next = make(chan string)
	go func() {
		for _, word := range []string{"a", "b", "c", "d"} {
			next <- forwardtest.Delta(word)
		}
		next <- "data: [DONE]\n\n"
		close(next)
	}()
	if a, err = tr.Do(context.Background(), s.request(), forwardtest.ChatOptions); err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var got strings.Builder
	first, _ := a.Next()
	got.Write(first)
	a.FollowShared(1, func(p []byte) bool { got.Write(p); return true })
	rest, err := drain(a)
	got.WriteString(rest)
	if n := strings.Count(got.String(), "content"); n != 4 || !errors.Is(err, io.EOF) || s.overLink.Load() != 1 {
		t.Errorf("%d events, %v, %d requests over the link: %q", n, err, s.overLink.Load(), got.String())
	}
}

func TestBrokenLinkIsAFailedExchange(t *testing.T) {
	s := newLinkServer(t, answerPlain)
	for what, c := range map[string]struct {
		answer string
		phase  transport.Phase
	}{
		"before the answer": {"", transport.PhaseFirstByte},
		"in a body":         {"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"id\"", transport.PhaseStream},
	} {
		tr := forwardtest.NewTransport(t)
		s.setAnswer(answerPlain)
		served := s.awaitLink(t, tr)
		request := s.request()
		request.Received = new(atomic.Bool)
		s.setAnswer(func(stream net.Conn) {
			_, _ = io.WriteString(stream, c.answer)
			for c.answer != "" && !request.Received.Load() {
				time.Sleep(time.Millisecond)
			}
			_ = served.Close()
		})
		_, err := tr.Do(context.Background(), request, forwardtest.ChatOptions)
		var failed *transport.ExchangeError
		if !errors.As(err, &failed) || failed.Phase != c.phase || failed.Timeout || !errors.Is(err, link.ErrBroken) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// After a link has broken, requests have connections of their own for a while.
func TestBrokenLinkIsNotReplacedAtOnce(t *testing.T) {
	s, tr := newLinkServer(t, answerPlain), forwardtest.NewTransport(t)
	served := s.awaitLink(t, tr)
	alone, broken := s.alone.Load(), time.Now()
	s.setAnswer(func(net.Conn) { _ = served.Close() })
	if _, err := tr.Do(context.Background(), s.request(), forwardtest.ChatOptions); !errors.Is(err, link.ErrBroken) {
		t.Error(err)
	}
	testkit.WaitFor(t, "the end of the link", func() bool { return tr.LinkStats().Links == 0 })
	s.setAnswer(answerPlain)
	for range 3 {
		s.ask(t, tr)
	}
	if time.Since(broken) > 4*time.Second {
		t.Skip("three requests took about as long as links are avoided after a break, which is 5 s")
	}
	if n := s.alone.Load() - alone; n != 3 || s.opened.Load() != 1 {
		t.Errorf("%d requests alone, %d links", n, s.opened.Load())
	}
}

// TestWhatALinkHasNotSentIsSentElsewhere has the server refuse further streams when it gets one.
func TestWhatALinkHasNotSentIsSentElsewhere(t *testing.T) {
	s, tr := newLinkServer(t, answerPlain), forwardtest.NewTransport(t)
	served := s.awaitLink(t, tr)
	served.GoAway()
	for range 3 {
		s.ask(t, tr)
	}
	testkit.WaitFor(t, "another link", func() bool {
		s.ask(t, tr)
		return s.opened.Load() == 2
	})
}

func TestCancelledExchangeResetsItsStream(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	reset := make(chan error, 1)
	s, tr := newLinkServer(t, answerPlain), forwardtest.NewTransport(t)
	s.setAnswer(answerPlain)
	s.awaitLink(t, tr)
	s.setAnswer(func(c net.Conn) {
		c.(*link.Stream).OnReset(func(err error) { reset <- err })
		cancel()
		if err := <-reset; !errors.Is(err, link.ErrReset) {
			t.Errorf("the server got %v", err)
		}
		close(reset)
	})
	if _, err := tr.Do(ctx, s.request(), forwardtest.ChatOptions); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-reset
	s.setAnswer(answerPlain)
	s.ask(t, tr)
	if n := s.opened.Load(); n != 1 {
		t.Errorf("%d links after a cancellation, want the same one", n)
	}
}

// hold sends a request over a link, which is answered once release is called.
func (s *linkServer) hold(t *testing.T, tr *transport.Transport) (release func()) {
	t.Helper()
	before, held, answered := s.overLink.Load(), make(chan struct{}), make(chan error, 1)
	s.setAnswer(func(c net.Conn) {
		<-held
		answerPlain(c)
	})
	go func() {
		a, err := tr.Do(context.Background(), s.request(), forwardtest.ChatOptions)
		if err == nil {
			a.Close()
		}
		answered <- err
	}()
	testkit.WaitFor(t, "the request", func() bool { return s.overLink.Load() > before })
	s.setAnswer(answerPlain)
	return func() {
		close(held)
		if err := forwardtest.Receive(t, "the answer", answered); err != nil {
			t.Errorf("a request on a link that ends: %v", err)
		}
	}
}

// A link that is old ends with its last stream, and further requests get another one.
func TestOldLinkIsReplaced(t *testing.T) {
	s, tr := newLinkServer(t, answerPlain), forwardtest.NewTransport(t)
	served := s.awaitLink(t, tr)
	release := s.hold(t, tr) // so the link is not idle
	tr.ExpireLinks(time.Now().Add(59 * time.Minute))
	if s.ask(t, tr); s.overLink.Load() != 2 {
		t.Error("a link that is not an hour old takes no further requests")
	}
	tr.ExpireLinks(time.Now().Add(61 * time.Minute))
	testkit.WaitFor(t, "another link", func() bool {
		s.ask(t, tr)
		return tr.LinkStats().Links == 2
	})
	over := s.overLink.Load()
	if s.ask(t, tr); s.overLink.Load() != over+1 || served.Streams() != 1 {
		t.Errorf("%d requests over links, %d on the old one; want %d and 1", s.overLink.Load(), served.Streams(), over+1)
	}
	release()
	forwardtest.Receive(t, "the end of the old link", served.Done())
	testkit.WaitFor(t, "the end of the old link", func() bool { return tr.LinkStats().Links == 1 })
}

// A link ends when a certificate of either side expires.
func TestLinkEndsWithACertificate(t *testing.T) {
	soon := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(10 * time.Minute) }
	f := func(own, server func(*x509.Certificate)) {
		t.Helper()
		ca := tlstest.NewCA(t, "fleet")
		s := &linkServer{links: make(chan *link.Link, 10)}
		answer := answerPlain
		s.answer.Store(&answer)
		config := &tls.Config{Certificates: []tls.Certificate{ca.Pair(forwardtest.Colo().String(), server)}} //nolint:gosec // a test
		s.address = forwardtest.ListenRaw(t, func(c net.Conn) { s.serve(tls.Server(c, config)) })
		files := forwardtest.NewFiles(t, ca, forwardtest.Entry(), own)
		trusted, err := peertls.LoadTrustStore(peertls.Files(files), forwardtest.Entry(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		s.target = transport.PeerTarget(trusted, s.address, forwardtest.Colo())
		tr := forwardtest.NewTransport(t)
		served := s.awaitLink(t, tr)
		release := s.hold(t, tr) // so the link is not idle
		tr.ExpireLinks(time.Now().Add(9 * time.Minute))
		if s.ask(t, tr); s.overLink.Load() != 2 {
			t.Error("a link whose certificates are valid takes no further requests")
		}
		tr.ExpireLinks(time.Now().Add(11 * time.Minute))
		release()
		forwardtest.Receive(t, "the end of the link", served.Done())
	}
	f(soon, nil)
	f(nil, soon)
}
