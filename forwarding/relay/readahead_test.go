package relay_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/internal/tlstest"
	"colonnade/openai"
)

// Ways of a client to the relay.
const (
	overTCP   = "TCP"
	overTLS   = "TLS"
	overLink  = "a link"
	oldClient = "TCP, by HTTP/1.0"
)

var clientWays = []string{overTCP, overTLS, overLink, oldClient}

// aheadRun is a relay between an engine and a client that takes little unless it reads.
type aheadRun struct {
	t      *testing.T
	client net.Conn
	steps  chan string // exchange, the kind of the outcome, close
	exits  *transport.Transport
	left   chan struct{} // closed when the engine's connection has ended
	drain  *forwardtest.Drainable
}

const (
	exchangeEnded = "the exchange has ended"
	relayClosed   = "closed"
)

// runAhead relays what an engine writes with send. The client sends its request, and has read nothing.
func runAhead(t *testing.T, way string, stall time.Duration, send func(engine io.Writer)) *aheadRun {
	t.Helper()
	a := &aheadRun{t: t, steps: make(chan string, 8), left: make(chan struct{}), exits: forwardtest.NewTransport(t)}
	engine := forwardtest.ListenRaw(t, func(c net.Conn) {
		defer close(a.left)
		_ = c.(*net.TCPConn).SetWriteBuffer(64 << 10)
		br := bufio.NewReader(c)
		if _, err := forwardtest.ReadRequest(br); err == nil {
			send(c)
			_, _ = io.Copy(io.Discard, br)
		}
	})
	config, backlogs := server.Config{Flusher: a.exits.Flusher()}, new(relay.Backlogs)
	ca := tlstest.NewCA(t, "ca")
	if way == overTLS {
		config.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Pair("", nil)}, MinVersion: tls.VersionTLS12}
	}
	config.Handle = func(rc *fasthttp.RequestCtx) {
		if way == overLink && a.drain.AcceptLink(rc) {
			return
		}
		in := a.drain.Inflight.Begin()
		_ = in.WatchClient(rc.Conn())
		r := forwardtest.NewRequest(engine)
		r.IdleTimeout = forwardtest.Patience
		answer, err := a.exits.Do(in.Context, r, transport.ReadOptions{API: openai.Chat, TrackUsage: true})
		if err != nil {
			in.Close()
			t.Error(err)
			return
		}
		by := &relay.Relay{
			Context: in.Context, Response: answer, Client: rc.Conn(), Stall: stall, Backlogs: backlogs, RequestID: "r",
			OnExchangeEnd: func() { a.steps <- exchangeEnded },
			OnOutcome:     func(end relay.Outcome) { a.steps <- string(end.Kind) },
			OnClose:       func() { a.steps <- relayClosed; in.Close() },
		}
		if way == oldClient {
			relay.WriteUntilClose(rc, in, by)
			return
		}
		relay.WriteRest(rc, by)
	}
	a.drain = forwardtest.ServeConfig(t, config)
	a.dial(way)
	t.Cleanup(func() {
		_ = a.client.Close()
		a.drain.Stop(server.DrainTimings{})
	})
	return a
}

// dial sends the request on a connection with a small receive buffer.
func (a *aheadRun) dial(way string) {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	c, err := d.Dial("tcp", a.drain.Address)
	if err != nil {
		a.t.Fatal(err)
	}
	request := "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	switch way {
	case overTLS:
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	case overLink:
		a.client = forwardtest.OpenStream(a.t, forwardtest.OpenLink(a.t, c, ""), request)
		return
	case oldClient:
		request = "GET / HTTP/1.0\r\n\r\n"
	}
	a.client = c
	if _, err := io.WriteString(c, request); err != nil {
		a.t.Fatal(err)
	}
}

// expect expects the next steps.
func (a *aheadRun) expect(steps ...string) {
	a.t.Helper()
	for _, want := range steps {
		if got := forwardtest.Receive(a.t, want, a.steps); got != want {
			a.t.Fatalf("%q, want %q", got, want)
		}
	}
}

// read reads the response, and returns its body with the error behind it.
func (a *aheadRun) read() (string, error) {
	a.t.Helper()
	_ = a.client.SetReadDeadline(time.Now().Add(forwardtest.Patience))
	response, err := http.ReadResponse(bufio.NewReader(a.client), nil)
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// events returns a stream of about so many KiB, without its end.
func events(kib int) string {
	var s strings.Builder
	for i := 0; s.Len() < kib<<10; i++ {
		s.WriteString(forwardtest.Delta(fmt.Sprint("word ", i, strings.Repeat(" and more", i%300))))
	}
	return s.String()
}

// sendChunks writes a text in chunks.
func sendChunks(w io.Writer, text string) {
	for len(text) > 0 {
		n := min(3000, len(text))
		if _, err := io.WriteString(w, forwardtest.Chunk(text[:n])); err != nil {
			return
		}
		text = text[n:]
	}
}

const (
	// fitting is how many KiB a client takes a part of, without reading, and a backlog the rest.
	fitting = 288
	// tooLong is how many KiB neither sockets nor a backlog hold.
	tooLong = 4 << 10
)

// The exchange with an engine that has said everything ends while its client has yet to read, and its connection can be used again.
// The client gets every byte, and the outcome is known only when it does.
func TestExchangeEndsBeforeSlowClient(t *testing.T) {
	t.Parallel()
	for _, way := range clientWays {
		for _, json := range []bool{false, true} {
			if json && way == oldClient {
				continue // JSON for clients of HTTP/1.0 is held until its end, so nothing is read ahead
			}
			t.Run(fmt.Sprintf("over %s, JSON %v", way, json), func(t *testing.T) {
				t.Parallel()
				want := events(fitting) + streamEnd
				if json {
					want = `{"choices":[],"x":"` + strings.Repeat("0123456789", fitting<<10/10) + `"}`
				}
				a := runAhead(t, way, 0, func(engine io.Writer) {
					if json {
						_, _ = fmt.Fprintf(engine, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(want), want)
						return
					}
					_, _ = io.WriteString(engine, streamHead)
					sendChunks(engine, want)
					_, _ = io.WriteString(engine, "0\r\n\r\n")
				})
				a.expect(exchangeEnded)
				if a.exits.Idle() != 1 {
					t.Error("the engine's connection is not kept")
				}
				select {
				case step := <-a.steps:
					t.Fatalf("%q before the client has read anything", step)
				case <-time.After(50 * time.Millisecond):
				}
				if n := a.drain.Inflight.Count(); n == 0 {
					t.Error("a drain would not wait for the client")
				}
				if got, err := a.read(); got != want || err != nil {
					t.Errorf("got %d bytes, want %d: %v", len(got), len(want), err)
				}
				a.expect(string(relay.OutcomeCompleted), relayClosed)
			})
		}
	}
}

// An engine that does not end its framing is not kept waiting for, nor is its connection used again.
func TestExchangeEndsWithoutFraming(t *testing.T) {
	t.Parallel()
	want := events(fitting) + streamEnd
	a := runAhead(t, overTCP, 0, func(engine io.Writer) {
		_, _ = io.WriteString(engine, streamHead)
		sendChunks(engine, want)
	})
	a.expect(exchangeEnded)
	forwardtest.Receive(t, "the end of the engine's connection", a.left)
	if got, err := a.read(); got != want || err != nil {
		t.Errorf("got %d bytes, want %d: %v", len(got), len(want), err)
	}
	a.expect(string(relay.OutcomeCompleted), relayClosed)
}

// A rest that does not fit keeps the engine waiting until the client has read enough.
func TestLongRestKeepsEngineWaiting(t *testing.T) {
	t.Parallel()
	for _, way := range clientWays {
		t.Run("over "+way, func(t *testing.T) {
			t.Parallel()
			want := events(tooLong) + streamEnd
			var sent atomic.Int64
			a := runAhead(t, way, 0, func(engine io.Writer) {
				_, _ = io.WriteString(engine, streamHead)
				for rest := want; len(rest) > 0; {
					n := min(16<<10, len(rest))
					sendChunks(engine, rest[:n])
					sent.Add(int64(n))
					rest = rest[n:]
				}
				_, _ = io.WriteString(engine, "0\r\n\r\n")
			})
			for last, since := int64(-1), time.Now(); time.Since(since) < 200*time.Millisecond; time.Sleep(5 * time.Millisecond) {
				if n := sent.Load(); n != last {
					last, since = n, time.Now()
				}
			}
			if n := sent.Load(); n == 0 || n == int64(len(want)) || len(a.steps) > 0 {
				t.Errorf("a client that reads nothing takes %d of %d bytes from the engine, and %d steps follow", n, len(want), len(a.steps))
			}
			if got, err := a.read(); got != want || err != nil {
				t.Errorf("got %d bytes, want %d: %v", len(got), len(want), err)
			}
			first := forwardtest.Receive(t, "the first step", a.steps)
			if first == exchangeEnded {
				first = forwardtest.Receive(t, "the outcome", a.steps)
			}
			if first != string(relay.OutcomeCompleted) {
				t.Errorf("outcome %q", first)
			}
			a.expect(relayClosed)
		})
	}
}

// A client that leaves before it has read the rest is gone, though its engine has said everything.
func TestClientLeavesWithTheRest(t *testing.T) {
	t.Parallel()
	for _, way := range clientWays {
		t.Run("over "+way, func(t *testing.T) {
			t.Parallel()
			a := runAhead(t, way, 0, func(engine io.Writer) {
				_, _ = io.WriteString(engine, streamHead)
				sendChunks(engine, events(fitting)+streamEnd)
				_, _ = io.WriteString(engine, "0\r\n\r\n")
			})
			a.expect(exchangeEnded)
			_ = a.client.Close()
			a.expect(string(relay.OutcomeClientGone), relayClosed)
			if len(a.steps) > 0 {
				t.Errorf("then %q", <-a.steps)
			}
		})
	}
}

// A client that reads nothing for the longest stall is gone, also while its engine is silent: the exchange ends then.
func TestStallEndsReadAhead(t *testing.T) {
	t.Parallel()
	for _, way := range clientWays {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("over %s, whole %v", way, whole), func(t *testing.T) {
				t.Parallel()
				a := runAhead(t, way, 300*time.Millisecond, func(engine io.Writer) {
					_, _ = io.WriteString(engine, streamHead)
					sendChunks(engine, events(fitting))
					if whole {
						sendChunks(engine, streamEnd)
						_, _ = io.WriteString(engine, "0\r\n\r\n")
					}
				})
				if whole {
					a.expect(exchangeEnded)
				}
				a.expect(string(relay.OutcomeClientGone), relayClosed)
				if !whole {
					forwardtest.Receive(t, "the end of the engine's connection", a.left)
				}
			})
		}
	}
}

// The outcome of a stream that its engine has cut is known at once. The client gets what came before, and then the error event.
func TestEngineCutsWhileClientIsSlow(t *testing.T) {
	t.Parallel()
	for _, way := range clientWays {
		t.Run("over "+way, func(t *testing.T) {
			t.Parallel()
			want := events(fitting)
			a := runAhead(t, way, 0, func(engine io.Writer) {
				_, _ = io.WriteString(engine, streamHead)
				sendChunks(engine, want)
				_, _ = io.WriteString(engine, "0\r\n\r\n")
			})
			a.expect(string(relay.OutcomeEngineError))
			got, err := a.read()
			rest, whole := strings.CutPrefix(got, want)
			if !whole || !strings.Contains(rest, `data: {"error":`) || strings.Count(got, `"error"`) != 1 {
				t.Errorf("got %d bytes, want %d and an error event: %q", len(got), len(want), rest)
			}
			if way != oldClient && err == nil {
				t.Error("the response looks complete")
			}
			a.expect(relayClosed)
		})
	}
}

// A response that this node cancels ends with the error event behind what was read, if its client reads.
func TestCancelledWhileClientIsSlow(t *testing.T) {
	t.Parallel()
	want := events(fitting)
	sent := make(chan struct{})
	a := runAhead(t, overTCP, 0, func(engine io.Writer) {
		_, _ = io.WriteString(engine, streamHead)
		sendChunks(engine, want)
		close(sent)
	})
	forwardtest.Receive(t, "the engine to send", sent)
	go func() {
		time.Sleep(50 * time.Millisecond)
		a.drain.Inflight.CancelAll(io.ErrUnexpectedEOF)
	}()
	a.expect(string(relay.OutcomeDrained))
	got, err := a.read()
	if !strings.Contains(got[len(got)-400:], `data: {"error":`) || err == nil {
		t.Errorf("got %d bytes of %d: %v, %q", len(got), len(want), err, got[len(got)-400:])
	}
	a.expect(relayClosed)
}

// Whatever sizes an engine's chunks have and however fast its client reads, the client gets the bytes that were sent.
func TestReadAheadKeepsBytes(t *testing.T) {
	t.Parallel()
	for _, way := range clientWays {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("over %s, %d", way, seed), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(seed, 1))
				want := events(200+r.IntN(1200)) + streamEnd
				sends, reads := rand.New(rand.NewPCG(seed, 2)), rand.New(rand.NewPCG(seed, 3))
				a := runAhead(t, way, 0, func(engine io.Writer) {
					_, _ = io.WriteString(engine, streamHead)
					for rest := want; len(rest) > 0; {
						n := min(1+sends.IntN(1<<sends.IntN(17)), len(rest))
						_, _ = io.WriteString(engine, forwardtest.Chunk(rest[:n]))
						rest = rest[n:]
						if sends.IntN(50) == 0 {
							time.Sleep(time.Duration(sends.IntN(4)) * time.Millisecond)
						}
					}
					_, _ = io.WriteString(engine, "0\r\n\r\n")
				})
				_ = a.client.SetReadDeadline(time.Now().Add(forwardtest.Patience))
				slow := readerFunc(func(p []byte) (int, error) {
					if reads.IntN(8) == 0 {
						time.Sleep(time.Duration(reads.IntN(30)) * time.Millisecond)
					}
					return a.client.Read(p[:min(len(p), 1+reads.IntN(64<<10))])
				})
				response, err := http.ReadResponse(bufio.NewReaderSize(slow, 64<<10), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				got, err := io.ReadAll(response.Body)
				if string(got) != want || err != nil {
					t.Errorf("got %d bytes, want %d: %v", len(got), len(want), err)
				}
			})
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
