// Package forwardtest has the servers, clients and exchanges that the tests of the packages below forwarding share.
package forwardtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/testkit"
	"colonnade/openai"
)

// Patience bounds every wait of these tests; nothing is measured by it.
const Patience = 30 * time.Second

// ListenRaw is a server that answers each connection by a function of its own.
func ListenRaw(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	return testkit.Serve(t, func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(Patience))
		serve(c)
	})
}

// Start runs a server on loopback until it is stopped; done then has its error.
func Start(t testing.TB, s *server.Server) (address string, done <-chan error) {
	t.Helper()
	ln, err := server.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	return ln.Addr().String(), ended
}

// ReadRequest reads one whole request.
func ReadRequest(br *bufio.Reader) (*http.Request, error) {
	r, err := http.ReadRequest(br)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, r.Body)
	return r, err
}

// AnswerWith serves connections that answer each request with the next of the given bytes, and then the last for ever.
func AnswerWith(answers ...string) func(net.Conn) {
	return func(c net.Conn) {
		br := bufio.NewReader(c)
		for i := 0; ; i++ {
			if _, err := ReadRequest(br); err != nil {
				return
			}
			if _, err := io.WriteString(c, answers[min(i, len(answers)-1)]); err != nil {
				return
			}
		}
	}
}

// NewTransport returns a transport that is run until the test's end.
func NewTransport(t testing.TB) *transport.Transport {
	t.Helper()
	transport := transport.New()
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

func NewRequest(address string) *transport.Request {
	return &transport.Request{
		Target: transport.Target{Address: address, Host: address}, Method: "POST", Path: "/v1/chat/completions",
		Fields: []transport.Field{{Name: "Content-Type", Value: "application/json"}}, Body: []byte(`{"model":"m"}`),
		ConnectTimeout: Patience, IdleTimeout: Patience, Deadline: time.Now().Add(Patience),
	}
}

const StreamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func Chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

func Delta(s string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", s)
}

var ChatOptions = transport.ReadOptions{API: openai.Chat}

// Interim is an interim answer with a header line.
func Interim(line string) string { return "HTTP/1.1 102 Processing\r\n" + line + "\r\n\r\n" }

func ProgressLine(value string) string { return Interim(hop.HeaderProgress + ": " + value) }

func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(Patience):
		t.Fatalf("gave up waiting for %s", what)
		panic("unreachable")
	}
}

// LogLines is a log, line by line.
type LogLines chan string

func (lines LogLines) Write(p []byte) (int, error) {
	lines <- string(p)
	return len(p), nil
}
