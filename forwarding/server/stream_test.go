package server_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"
)

// writeOK streams the response "ok" in two chunks.
func writeOK(w io.Writer) error {
	_, err := io.WriteString(w, "o")
	if err == nil {
		_, err = io.WriteString(w, "k")
	}
	return err
}

// serveStreams answers with a stream at /stream, and otherwise with "ok".
func serveStreams(rc *fasthttp.RequestCtx) {
	if string(rc.Path()) == "/stream" {
		server.WriteStream(rc, writeOK)
		return
	}
	rc.SetBodyString("ok")
}

const streamRequest = "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"

// A connection serves further requests after a stream, also those that arrived before its end, and a drain closes it when it is idle.
func TestConnectionServesAfterStreams(t *testing.T) {
	t.Parallel()
	s := forwardtest.Serve(t, serveStreams)
	c := forwardtest.MustDial(t, s)
	_, _ = io.WriteString(c, streamRequest+"GET / HTTP/1.1\r\nHost: x\r\n\r\n"+streamRequest)
	for range 3 {
		if last, err := c.ReadOK(); last || err != nil {
			t.Fatalf("last %v, %v", last, err)
		}
	}
	for range 20 {
		_, _ = io.WriteString(c, streamRequest)
		if last, err := c.ReadOK(); last || err != nil {
			t.Fatalf("last %v, %v", last, err)
		}
	}
	if last, err := c.Ask(); last || err != nil {
		t.Fatalf("last %v, %v", last, err)
	}
	_, _ = io.WriteString(c, streamRequest)
	if last, err := c.ReadOK(); last || err != nil {
		t.Fatalf("last %v, %v", last, err)
	}
	s.StopAccepting(server.DrainTimings{})
	c.AssertEOF(t)
	s.Stop(server.DrainTimings{})
}

// After a stream, the next request may take as long as after any other response, and not only as long as the first one.
func TestConnectionStaysOpenAfterAStream(t *testing.T) {
	t.Parallel()
	const readTimeout = 50 * time.Millisecond
	s := forwardtest.ServeConfig(t, server.Config{Handle: serveStreams}, func(s *server.Server) { s.SetReadTimeout(readTimeout) })
	c := forwardtest.MustDial(t, s)
	_, _ = io.WriteString(c, streamRequest)
	if last, err := c.ReadOK(); last || err != nil {
		t.Fatalf("last %v, %v", last, err)
	}
	_ = c.SetReadDeadline(time.Now().Add(3 * readTimeout))
	if p, err := c.Br.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the idle connection ended with %q, %v", p, err)
	}
	_ = c.SetReadDeadline(time.Now().Add(forwardtest.Patience))
	if last, err := c.Ask(); last || err != nil {
		t.Errorf("last %v, %v", last, err)
	}
	s.Stop(server.DrainTimings{})
}

// A stream whose client asks for the end of the connection, or that begins while the server drains, is the last response.
func TestLastStreamOfAConnection(t *testing.T) {
	t.Parallel()
	s := forwardtest.Serve(t, serveStreams)
	c := forwardtest.MustDial(t, s)
	_, _ = io.WriteString(c, "GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if last, err := c.ReadOK(); !last || err != nil {
		t.Errorf("last %v, %v", last, err)
	}
	c.AssertEOF(t)
	other := forwardtest.MustDial(t, s)
	s.Drain()
	_, _ = io.WriteString(other, streamRequest)
	if last, err := other.ReadOK(); !last || err != nil {
		t.Errorf("last %v, %v", last, err)
	}
	other.AssertEOF(t)
	s.Stop(server.DrainTimings{})
}

// A stream that fails, or panics, is cut without the last chunk.
func TestFailedStreamIsCut(t *testing.T) {
	t.Parallel()
	f := func(name string, fail func() error) {
		s := forwardtest.Serve(t, func(rc *fasthttp.RequestCtx) {
			server.WriteStream(rc, func(w io.Writer) error {
				return errors.Join(writeOK(w), fail())
			})
		})
		c := forwardtest.MustDial(t, s)
		_, _ = io.WriteString(c, streamRequest)
		if _, err := c.ReadOK(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", name, err)
		}
		s.Stop(server.DrainTimings{})
	}
	f("error", func() error { return errors.New("failed") })
	f("panic", func() error { panic("a bug of ours") })
}

// A handler that panics after WriteStream is answered with 500, and the stream is ended once.
func TestPanicAfterWriteStream(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 2)
	s := forwardtest.Serve(t, func(rc *fasthttp.RequestCtx) {
		server.WriteStream(rc, func(w io.Writer) error {
			err := writeOK(w)
			ended <- err
			return err
		})
		panic("a bug of ours")
	})
	c := forwardtest.MustDial(t, s)
	_, _ = io.WriteString(c, streamRequest)
	r, err := http.ReadResponse(c.Br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Body.Close(); r.StatusCode != http.StatusInternalServerError {
		t.Errorf("status %d", r.StatusCode)
	}
	if err := forwardtest.Receive(t, "the end of the stream", ended); err == nil {
		t.Error("the stream was written")
	}
	s.Stop(server.DrainTimings{})
	if len(ended) > 0 {
		t.Error("the stream was ended twice")
	}
}
