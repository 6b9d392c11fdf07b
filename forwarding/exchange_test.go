package forwarding

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"colonnade/internal/testkit"
	"colonnade/openai"
)

// patience bounds every wait of these tests; nothing is measured by it.
const patience = 30 * time.Second

// rawServer is a server that answers each connection by a function of its own.
func rawServer(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	return testkit.Serve(t, func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(patience))
		serve(c)
	})
}

// serving runs a server on loopback until somebody ends it; done tells how it ended.
func serving(t testing.TB, s *Server) (address string, done <-chan error) {
	t.Helper()
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	return ln.Addr().String(), ended
}

// readRequest reads one whole request.
func readRequest(br *bufio.Reader) (*http.Request, error) {
	r, err := http.ReadRequest(br)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, r.Body)
	return r, err
}

// answering serves connections that answer each request with the next of the given bytes, and then the last for ever.
func answering(answers ...string) func(net.Conn) {
	return func(c net.Conn) {
		br := bufio.NewReader(c)
		for i := 0; ; i++ {
			if _, err := readRequest(br); err != nil {
				return
			}
			if _, err := io.WriteString(c, answers[min(i, len(answers)-1)]); err != nil {
				return
			}
		}
	}
}

// runningTransport returns a transport that is run until the test's end.
func runningTransport(t testing.TB) *Transport {
	t.Helper()
	transport := NewTransport()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = transport.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return transport
}

func testRequest(address string) *Request {
	return &Request{
		Target: Target{Address: address, Host: address}, Method: "POST", Path: "/v1/chat/completions",
		Fields: []Field{{"Content-Type", "application/json"}}, Body: []byte(`{"model":"m"}`),
		Connect: patience, Idle: patience, End: time.Now().Add(patience),
	}
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

func delta(s string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", s)
}

var chatShape = Shape{API: openai.Chat}

// interim is an interim answer with a header line.
func interim(line string) string { return "HTTP/1.1 102 Processing\r\n" + line + "\r\n\r\n" }

func progressLine(value string) string { return interim(HeaderProgress + ": " + value) }

func next[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(patience):
		t.Fatalf("gave up waiting for %s", what)
		panic("unreachable")
	}
}

// told is a log, line by line.
type told chan string

func (lines told) Write(p []byte) (int, error) {
	lines <- string(p)
	return len(p), nil
}
