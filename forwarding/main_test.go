package forwarding

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp's own, which end some seconds after their server, or never.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
	)
}

// patience bounds every wait of these tests; nothing is measured by it.
const patience = 10 * time.Second

// rawServer is a server that answers each connection by a function of its own.
func rawServer(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(patience))
				serve(c)
			}()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return ln.Addr().String()
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
