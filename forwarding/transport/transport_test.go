package transport_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/internal/testkit"
	"colonnade/openai"
)

const (
	plainAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"id\":\"abcd\"}"
)

// drain reads a response to its end.
func drain(a *transport.Response) (string, error) {
	var all bytes.Buffer
	for {
		piece, err := a.Next()
		all.Write(piece)
		if err != nil {
			return all.String(), err
		}
	}
}

func TestPlainAnswersShareAConnection(t *testing.T) {
	var conns atomic.Int32
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		conns.Add(1)
		forwardtest.AnswerWith(plainAnswer)(c)
	})
	transport := forwardtest.NewTransport(t)
	for range 5 {
		a, err := transport.Do(context.Background(), forwardtest.NewRequest(address), forwardtest.ChatOptions)
		if err != nil {
			t.Fatal(err)
		}
		if body, whole := a.Body(); !whole || string(body) != `{"id":"abcd"}` || a.Status() != 200 || a.Header("content-type") != "application/json" {
			t.Errorf("answer %d %q, whole %v", a.Status(), body, whole)
		}
		a.Close()
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections for 5 requests in a row, want 1", n)
	}
}

// An engine that closes an idle connection fails no request.
func TestConnectionClosedWhileIdle(t *testing.T) {
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		if _, err := forwardtest.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, plainAnswer)
		}
	})
	tr := forwardtest.NewTransport(t)
	for i := range 20 {
		a, err := tr.Do(context.Background(), forwardtest.NewRequest(address), forwardtest.ChatOptions)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		a.Close()
		testkit.WaitFor(t, "the close of the idle connection to arrive", func() bool {
			return !tr.HasUsable(transport.Target{Address: address, Host: address})
		})
	}
}

func TestConnectionIsNotReusedAfter(t *testing.T) {
	for name, answer := range map[string]string{
		"connection: close":  "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.0":           "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"bytes after answer": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
		"malformed":          "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok",
	} {
		address := forwardtest.ListenRaw(t, forwardtest.AnswerWith(answer))
		transport := forwardtest.NewTransport(t)
		if a, err := transport.Do(context.Background(), forwardtest.NewRequest(address), forwardtest.ChatOptions); err == nil {
			a.Close()
		}
		if n := transport.Idle(); n != 0 {
			t.Errorf("after %s: %d connections are kept", name, n)
		}
	}
}

// A cancelled exchange ends with the cause, and not before the engine has closed the connection.
func TestCancelWaitsForTheEngine(t *testing.T) {
	for name, before := range map[string]string{"no answer yet": "", "in mid-stream": forwardtest.StreamHead + forwardtest.Chunk(forwardtest.Delta("a"))} {
		t.Run(name, func(t *testing.T) {
			got, closed := make(chan struct{}), atomic.Bool{}
			address := forwardtest.ListenRaw(t, func(c net.Conn) {
				br := bufio.NewReader(c)
				_, _ = forwardtest.ReadRequest(br)
				_, _ = io.WriteString(c, before)
				close(got)
				_, _ = br.ReadByte() // until the other side has closed
				time.Sleep(50 * time.Millisecond)
				closed.Store(true)
			})
			ctx, cancel := context.WithCancelCause(context.Background())
			begun := make(chan struct{}) // closed once Do has returned, if it does before the cancellation
			if before == "" {
				close(begun)
			}
			go func() {
				<-got
				<-begun
				cancel(server.ErrClientGone)
			}()
			r := forwardtest.NewRequest(address)
			r.Linger = forwardtest.Patience
			a, err := forwardtest.NewTransport(t).Do(ctx, r, forwardtest.ChatOptions)
			if before != "" {
				if err != nil {
					t.Fatal(err)
				}
				close(begun)
				_, err = drain(a)
				a.Close()
			}
			if !errors.Is(err, server.ErrClientGone) {
				t.Errorf("error %v, want ErrClientGone", err)
			}
			if !closed.Load() {
				t.Error("the exchange was over before the engine had closed: its slot would be used twice")
			}
		})
	}
}

// The wait for an engine that does not close the connection is bounded by Linger.
func TestLingerIsBounded(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		_, _ = forwardtest.ReadRequest(bufio.NewReader(c))
		<-release
	})
	ctx, cancel := context.WithTimeoutCause(context.Background(), 20*time.Millisecond, server.ErrClientGone)
	defer cancel()
	r := forwardtest.NewRequest(address)
	r.Linger = 100 * time.Millisecond
	began := time.Now()
	if _, err := forwardtest.NewTransport(t).Do(ctx, r, forwardtest.ChatOptions); !errors.Is(err, server.ErrClientGone) {
		t.Errorf("error %v, want ErrClientGone", err)
	}
	if took := time.Since(began); took < 100*time.Millisecond || took > forwardtest.Patience/2 {
		t.Errorf("took %v, want a little over 120ms", took)
	}
}

func TestFailures(t *testing.T) {
	f := func(name, answer string, wantPhase transport.Phase, wantDelivered string) {
		t.Helper()
		address := forwardtest.ListenRaw(t, func(c net.Conn) {
			_, _ = forwardtest.ReadRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, answer)
		})
		tr := forwardtest.NewTransport(t)
		delivered := ""
		a, err := tr.Do(context.Background(), forwardtest.NewRequest(address), forwardtest.ChatOptions)
		if err == nil {
			delivered, err = drain(a)
			a.Close()
		}
		var failed *transport.ExchangeError
		if !errors.As(err, &failed) || failed.Phase != wantPhase || failed.Timeout || delivered != wantDelivered {
			t.Errorf("%s: delivered %q, then %v; want %q, then a failure in phase %d", name, delivered, err, wantDelivered, wantPhase)
		}
		if tr.Idle() != 0 {
			t.Errorf("%s: the connection is kept", name)
		}
	}
	f("closed without a byte", "", transport.PhaseFirstByte, "")
	f("cut in the head", "HTTP/1.1 200 OK\r\nContent-", transport.PhaseFirstByte, "")
	f("cut before the body", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n", transport.PhaseFirstByte, "")
	f("short body", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"id\"", transport.PhaseStream, "")
	f("short body of an error", "HTTP/1.1 500 Oh\r\nContent-Length: 20\r\n\r\n{\"id\"", transport.PhaseFirstByte, "")
	f("stream without an event", forwardtest.StreamHead+forwardtest.Chunk(": ping\n\n")+"0\r\n\r\n", transport.PhaseFirstByte, "")
	f("cut before the first event", forwardtest.StreamHead+forwardtest.Chunk(": ping\n\n"), transport.PhaseFirstByte, "")
	f("cut at a chunk's boundary", forwardtest.StreamHead+forwardtest.Chunk(forwardtest.Delta("a"))+forwardtest.Chunk(forwardtest.Delta("b")), transport.PhaseStream, forwardtest.Delta("a")+forwardtest.Delta("b"))
	f("cut inside a chunk", forwardtest.StreamHead+forwardtest.Chunk(forwardtest.Delta("a"))+"40\r\ndata: {", transport.PhaseStream, forwardtest.Delta("a"))
}

func TestConnectFails(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	_, err = forwardtest.NewTransport(t).Do(context.Background(), forwardtest.NewRequest(address), forwardtest.ChatOptions)
	var failed *transport.ExchangeError
	if !errors.As(err, &failed) || failed.Phase != transport.PhaseConnect {
		t.Errorf("error %v, want a failure to connect", err)
	}
}

func TestTimeouts(t *testing.T) {
	silent := func(before string) string {
		return forwardtest.ListenRaw(t, func(c net.Conn) {
			br := bufio.NewReader(c)
			_, _ = forwardtest.ReadRequest(br)
			_, _ = io.WriteString(c, before)
			_, _ = br.ReadByte()
		})
	}
	f := func(name, before string, change func(*transport.Request), wantPhase transport.Phase) {
		t.Helper()
		r := forwardtest.NewRequest(silent(before))
		change(r)
		a, err := forwardtest.NewTransport(t).Do(context.Background(), r, forwardtest.ChatOptions)
		if err == nil {
			_, err = drain(a)
			a.Close()
		}
		var failed *transport.ExchangeError
		if !errors.As(err, &failed) || failed.Phase != wantPhase || !failed.Timeout {
			t.Errorf("%s: %v, want a timeout in phase %d", name, err, wantPhase)
		}
	}
	short := 50 * time.Millisecond
	f("first byte", "", func(r *transport.Request) { r.FirstByteTimeout = short }, transport.PhaseFirstByte)
	f("first byte, after comments", forwardtest.StreamHead+forwardtest.Chunk(": ping\n\n"), func(r *transport.Request) { r.FirstByteTimeout = short }, transport.PhaseFirstByte)
	f("idle", forwardtest.StreamHead+forwardtest.Chunk(forwardtest.Delta("a")), func(r *transport.Request) { r.IdleTimeout = short }, transport.PhaseStream)
	f("total", forwardtest.StreamHead+forwardtest.Chunk(forwardtest.Delta("a")), func(r *transport.Request) { r.Deadline = time.Now().Add(short) }, transport.PhaseStream)
}

// The first-byte timeout does not hold after the first byte.
func TestFirstByteTimeoutDoesNotCutAStream(t *testing.T) {
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		_, _ = forwardtest.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, forwardtest.StreamHead+forwardtest.Chunk(forwardtest.Delta("a")))
		time.Sleep(200 * time.Millisecond)
		_, _ = io.WriteString(c, forwardtest.Chunk(forwardtest.Delta("b"))+forwardtest.Chunk("data: [DONE]\n\n")+"0\r\n\r\n")
	})
	r := forwardtest.NewRequest(address)
	r.FirstByteTimeout = 100 * time.Millisecond
	a, err := forwardtest.NewTransport(t).Do(context.Background(), r, forwardtest.ChatOptions)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if all, err := drain(a); !errors.Is(err, io.EOF) || all != forwardtest.Delta("a")+forwardtest.Delta("b")+"data: [DONE]\n\n" {
		t.Errorf("stream %q, %v", all, err)
	}
}

// A stream whose first event is an error has the status in that event.
func TestErrorAsFirstEvent(t *testing.T) {
	event := "data: {\"error\":{\"message\":\"busy\",\"code\":503}}\n\n"
	address := forwardtest.ListenRaw(t, forwardtest.AnswerWith(forwardtest.StreamHead+forwardtest.Chunk(event)+forwardtest.Chunk("data: [DONE]\n\n")+"0\r\n\r\n"))
	a, err := forwardtest.NewTransport(t).Do(context.Background(), forwardtest.NewRequest(address), forwardtest.ChatOptions)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.Status() != 503 {
		t.Errorf("status %d, want 503", a.Status())
	}
}

func TestLargeBodiesBothWays(t *testing.T) {
	large := strings.Repeat("x", 5<<20)
	received := make(chan int, 1)
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		r, err := forwardtest.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		received <- int(r.ContentLength)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: audio/wav\r\nContent-Length: %d\r\n\r\n%s", len(large), large)
	})
	r := forwardtest.NewRequest(address)
	r.Body = []byte(large)
	a, err := forwardtest.NewTransport(t).Do(context.Background(), r, transport.ReadOptions{API: openai.Speech})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, whole := a.Body(); whole || a.Length() != int64(len(large)) {
		t.Errorf("whole %v, length %d", whole, a.Length())
	}
	if got, err := drain(a); got != large || !errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if n := <-received; n != len(large) {
		t.Errorf("the server received %d bytes", n)
	}
}

// A value that could add another header line or another request is not sent.
func TestHeadersThatAreNotSent(t *testing.T) {
	f := func(change func(*transport.Request)) {
		t.Helper()
		r := forwardtest.NewRequest("127.0.0.1:1")
		change(r)
		if b, err := r.AppendHead(nil); err == nil {
			t.Errorf("would send %q", b)
		}
	}
	for _, evil := range []string{"a\r\nX-Evil: 1", "a\nb", "a\x00b", "a\rb", "a\x7fb"} {
		f(func(r *transport.Request) { r.Fields = []transport.Field{{Name: "Accept", Value: evil}} })
		f(func(r *transport.Request) { r.Fields = []transport.Field{{Name: evil, Value: "x"}} })
		f(func(r *transport.Request) { r.Path = "/v1/" + evil })
		f(func(r *transport.Request) { r.Method = evil })
		f(func(r *transport.Request) { r.Target.Host = evil })
		f(func(r *transport.Request) { r.Target.Prefix = "/" + evil })
	}
	f(func(r *transport.Request) { r.Path = "/v1/chat HTTP/1.1" })
}
