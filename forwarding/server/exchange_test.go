package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/link"
	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"
	"colonnade/internal/testkit"
	"colonnade/openai"
)

// serveExchanges starts a server of requests with binary heads, and opens a link to it.
func serveExchanges(t *testing.T, handle func(*server.Exchange, *linked)) *linked {
	t.Helper()
	var l *linked
	ready := make(chan struct{})
	l = acceptLinksWith(t, server.Config{HandleExchange: func(x *server.Exchange) {
		<-ready
		handle(x, l)
	}}, func(*fasthttp.RequestCtx, *linked) {})
	close(ready)
	l.link = forwardtest.OpenLink(t, forwardtest.MustDial(t, l.Drainable).TCPConn, "")
	return l
}

// send opens a stream with a request.
func (l *linked) send(target, body string) *link.Stream {
	l.T.Helper()
	b := hop.BeginRequestHead(nil, "POST", target, len(body))
	b = hop.AppendHeadField(b, "x-name", "value of "+target)
	if err := hop.EndRequestHead(b); err != nil {
		l.T.Fatal(err)
	}
	return forwardtest.OpenStream(l.T, l.link, string(b)+body)
}

// Requests with binary heads and requests in text share a link, whatever the sizes of their bodies.
func TestExchanges(t *testing.T) {
	t.Parallel()
	l := serveExchanges(t, func(x *server.Exchange, l *linked) {
		in := l.Inflight.Begin()
		defer in.Close()
		if string(x.Method()) != "POST" || string(x.Field("X-Name")) != "value of "+string(x.Target()) || time.Since(x.Arrived) > forwardtest.Patience {
			t.Errorf("%s %s at %s", x.Method(), x.Target(), x.Arrived)
		}
		body, e := x.ReadBody(in, 45<<10, "")
		if e != nil {
			x.WriteError(e, "id-1")
			return
		}
		x.SetField("x-target", string(x.Target()))
		x.SetField("x-empty", "")
		x.WriteWhole(201, "text/plain", bytes.Clone(body)) // whose memory is used again after Close
	})
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			body := strings.Repeat("x", i*500) // up to and above what may arrive with a head, and what the handler allows
			target := fmt.Sprint("/", i)
			h, got, err := forwardtest.ReadBinaryAnswer(l.send(target, body))
			switch {
			case len(body) > 45<<10:
				if err != nil || h.Status != 413 || h.Fields.Get(hop.HeaderRequestID) != "id-1" || !strings.Contains(string(got), "46080") {
					t.Errorf("a body of %d bytes: %d %v %s", len(body), h.Status, err, got)
				}
			case err != nil || h.Status != 201 || string(got) != body || h.Fields.Get("x-target") != target || h.Fields.Get("content-type") != "text/plain":
				t.Errorf("a body of %d bytes: %d, %v, %d bytes", len(body), h.Status, err, len(got))
			}
		})
	}
	all.Wait()
	if answer, body, err := forwardtest.ReadStream(l.open("GET / HTTP/1.1")); err != nil || answer.StatusCode != 200 || string(body) != "ok" {
		t.Errorf("in text: %v, %v", answer, err)
	}
	l.stop()
}

// A body that is written as it comes has a length or chunks. One that fails ends with an error behind what was written,
// a malformed head is answered with 400, and a part of one with a reset.
func TestExchangesWithBodies(t *testing.T) {
	t.Parallel()
	l := serveExchanges(t, func(x *server.Exchange, l *linked) {
		in := l.Inflight.Begin()
		length := int64(len("some more"))
		if strings.HasPrefix(string(x.Target()), "/chunks") {
			length = -1
		}
		failing := strings.HasSuffix(string(x.Target()), "/part")
		x.WriteBody(200, "text/plain", length, func(w io.Writer) error {
			defer in.Close()
			if _, err := io.WriteString(w, "some"); err != nil || failing {
				return errors.Join(err, errors.New("truncated"))
			}
			_, err := io.WriteString(w, " more")
			return err
		})
	})
	f := func(target, want string, wantErr error) {
		t.Helper()
		if h, body, err := forwardtest.ReadBinaryAnswer(l.send(target, "")); h.Status != 200 || string(body) != want || !errors.Is(err, wantErr) {
			t.Errorf("%s: %d %q, %v", target, h.Status, body, err)
		}
	}
	f("/length", "some more", nil)
	f("/chunks", "some more", nil)
	f("/length/part", "some", link.ErrReset)
	f("/chunks/part", "some", link.ErrReset)
	for _, head := range []string{"\x00\x05\x00\x00xxxxx", "\x00\x00\x00\x40"} {
		h, body, err := forwardtest.ReadBinaryAnswer(forwardtest.OpenStream(t, l.link, head))
		if err != nil || h.Status != 400 || !bytes.Contains(body, []byte("binary head")) && !bytes.Contains(body, []byte("too short")) {
			t.Errorf("the malformed head %q: %d %s, %v", head, h.Status, body, err)
		}
	}
	short := forwardtest.OpenStream(t, l.link, "\x00\x05\x00\x00x")
	if _, err := short.Read(make([]byte, 1)); !errors.Is(err, link.ErrReset) {
		t.Errorf("a part of a head: %v", err)
	}
	l.stop()
}

// A suspended exchange goes on when its wait is over, which may be before the handler's goroutine is done with it. It may be suspended again, and a panic is
// answered as one of the handler. Meanwhile, it has no goroutine.
func TestSuspendedExchanges(t *testing.T) { // not parallel: it counts goroutines
	waiting := make(chan func(), 100)
	l := serveExchanges(t, func(x *server.Exchange, l *linked) {
		in := l.Inflight.Begin()
		if err := in.WatchClient(x.Conn()); err != nil {
			t.Error(err)
		}
		waits := func(wake func()) { waiting <- wake }
		finish := func() {
			defer in.Close()
			if in.Context.Err() != nil {
				x.WriteError(openai.Unavailable("client_gone", 0), "")
				return
			}
			x.WriteWhole(200, "text/plain", bytes.Clone(x.Target()))
		}
		switch string(x.Target()) {
		case "/at-once":
			x.Suspend(func(wake func()) { wake() }, finish)
		case "/twice":
			x.Suspend(waits, func() { x.Suspend(waits, finish) })
		case "/panic":
			x.Suspend(waits, func() {
				defer in.Close()
				panic("oops")
			})
		default:
			x.Suspend(waits, finish)
		}
	})
	f := func(target string, waits, status int) {
		t.Helper()
		s := l.send(target, "")
		for range waits {
			forwardtest.Receive(t, "the wait", waiting)()
		}
		h, body, err := forwardtest.ReadBinaryAnswer(s)
		if err != nil || h.Status != status || status == 200 && string(body) != target {
			t.Errorf("%s: %d %s, %v", target, h.Status, body, err)
		}
	}
	for range 100 {
		f("/at-once", 0, 200)
		f("/once", 1, 200)
		f("/twice", 2, 200)
	}
	f("/panic", 1, 500)
	before := runtime.NumGoroutine()
	streams, wakes := make([]*link.Stream, 100), make([]func(), 100)
	for i := range streams {
		streams[i] = l.send("/gone", "")
		wakes[i] = forwardtest.Receive(t, "the wait", waiting)
	}
	testkit.WaitFor(t, "the waiting exchanges to have no goroutine", func() bool { return runtime.NumGoroutine() < before+len(streams)/2 })
	for i, s := range streams {
		_ = s.Close()
		wakes[i]()
	}
	testkit.WaitFor(t, "the exchanges whose client has left to end", func() bool { return l.Inflight.Count() == 0 })
	l.stop()
}

// A panic of the handler is answered, and what was registered for its body is released.
func TestPanicInAnExchange(t *testing.T) {
	t.Parallel()
	released := make(chan error, 1)
	l := serveExchanges(t, func(x *server.Exchange, _ *linked) {
		x.WriteBody(200, "text/plain", -1, func(w io.Writer) error {
			_, err := io.WriteString(w, "x")
			released <- err
			return err
		})
		panic("oops")
	})
	if h, body, err := forwardtest.ReadBinaryAnswer(l.send("/v1/chat/completions", "")); err != nil || h.Status != 500 || !bytes.Contains(body, []byte(`"error"`)) {
		t.Errorf("%d %s, %v", h.Status, body, err)
	}
	if err := forwardtest.Receive(t, "the release", released); err == nil {
		t.Error("the body was written")
	}
	l.stop()
}

// The exchange of a client that resets its stream ends at once.
func TestClientsLeaveTheirExchanges(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan error, 1)
	l := serveExchanges(t, func(x *server.Exchange, l *linked) {
		in := l.Inflight.Begin()
		defer in.Close()
		if err := in.WatchClient(x.Conn()); err != nil {
			t.Error(err)
		}
		close(begun)
		<-in.Context.Done()
		ended <- context.Cause(in.Context)
		x.WriteError(openai.Internal(), "")
	})
	s := l.send("/", "")
	forwardtest.Receive(t, "the request", begun)
	s.Abort()
	s.Close()
	if err := forwardtest.Receive(t, "the end of the request", ended); !errors.Is(err, server.ErrClientGone) {
		t.Errorf("ended with %v", err)
	}
	l.stop()
}
