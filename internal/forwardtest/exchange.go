// Package forwardtest provides servers, clients and exchanges for the tests of the packages below forwarding.
package forwardtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
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

// Patience bounds each wait of a test. No assertion depends on it.
const Patience = 30 * time.Second

// ListenRaw starts a server that calls serve with each connection, and returns its address.
func ListenRaw(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	return testkit.Serve(t, func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(Patience))
		serve(c)
	})
}

// Start serves s on loopback until it is shut down. done then receives the error of Serve.
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

// ReadRequest reads a request with its body.
func ReadRequest(br *bufio.Reader) (*http.Request, error) {
	r, err := http.ReadRequest(br)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, r.Body)
	return r, err
}

// AnswerWith returns a function for ListenRaw that answers each request with the next answer, and further ones with the last.
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

// NewTransport returns a transport that runs until the end of the test.
func NewTransport(t testing.TB) *transport.Transport {
	t.Helper()
	tr := transport.New(slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tr.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return tr
}

// NewRequest returns a chat request to address.
func NewRequest(address string) *transport.Request {
	return &transport.Request{
		Target: transport.Target{Address: address, Host: address}, Method: "POST", Path: "/v1/chat/completions",
		Fields: []transport.Field{{Name: "Content-Type", Value: "application/json"}}, Body: []byte(`{"model":"m"}`),
		ConnectTimeout: Patience, IdleTimeout: Patience, Deadline: time.Now().Add(Patience),
	}
}

// StreamHead is the head of an event stream.
const StreamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// Chunk returns s as a chunk of a body.
func Chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// Delta returns a chat event with s as content.
func Delta(s string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", s)
}

// ChatOptions are the options of a chat response.
var ChatOptions = transport.ReadOptions{API: openai.Chat}

// Interim returns an interim response with a header line.
func Interim(line string) string { return "HTTP/1.1 102 Processing\r\n" + line + "\r\n\r\n" }

// ProgressLine returns an interim response with a progress.
func ProgressLine(value string) string { return Interim(hop.HeaderProgress + ": " + value) }

// Receive returns the next value of a channel, and fails the test if none arrives.
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

// LogLines is the output of a log, a line at a time.
type LogLines chan string

func (lines LogLines) Write(p []byte) (int, error) {
	lines <- string(p)
	return len(p), nil
}
