package forwarding

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/valyala/fasthttp"
)

// tripwire is a connection that panics once it is read from so often: a bug of ours in whatever reads.
type tripwire struct {
	net.Conn
	reads atomic.Int64 // left
}

func (c *tripwire) Read(p []byte) (int, error) {
	if c.reads.Add(-1) < 0 {
		panic("a bug of ours")
	}
	return c.Conn.Read(p)
}

// trapped puts a connection to address into a transport that will panic over its next read but so many.
func trapped(t *testing.T, transport *Transport, address string, reads int64) {
	t.Helper()
	to := testRequest(address).Target
	c, err := dial(context.Background(), to, patience)
	if err != nil {
		t.Fatal(err)
	}
	wire := &tripwire{Conn: c.Conn.Conn}
	wire.reads.Store(reads)
	c.Conn.Conn = wire
	c.br = bufio.NewReader(nil)
	transport.put(to, c)
}

// A panic in an exchange closes its connection, so that the engine stops.
func TestPanicInAnExchange(t *testing.T) {
	closed := make(chan error, 1)
	address := rawServer(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		if _, err := readRequest(br); err == nil {
			_, _ = io.WriteString(c, streamHead)
			_, err := br.ReadByte()
			closed <- err
		}
	})
	transport := runningTransport(t)
	trapped(t, transport, address, 1)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it has not panicked")
			}
		}()
		_, _ = transport.Do(context.Background(), testRequest(address), chatShape)
	}()
	if err := next(t, "the engine to see the end", closed); err == nil || isNetTimeout(err) { // or a reset: it was not read to its end
		t.Errorf("the engine's connection ended with %v", err)
	}
	if n := transport.Idle(); n != 0 {
		t.Errorf("%d connections are kept", n)
	}
}

// A panic in mid-stream ends that stream, with the API's error event and without the last chunk, and the exchange behind
// it. Whoever has the request in hand hears of it as of any other end.
func TestPanicInARelay(t *testing.T) {
	closed := make(chan error, 1)
	goOn := make(chan struct{})
	address := rawServer(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		if _, err := readRequest(br); err == nil {
			_, _ = io.WriteString(c, streamHead+chunk(delta("a")))
			<-goOn
			_, _ = io.WriteString(c, chunk(delta("b")))
			_, err := br.ReadByte()
			closed <- err
		}
	})
	transport := runningTransport(t)
	trapped(t, transport, address, 1)
	said, known, ended := make(told, 10), make(chan End, 4), make(chan struct{}, 4)
	s := drainingBy(t, ServerConfig{
		Logger: slog.New(slog.NewTextHandler(said, nil)),
		Handle: func(rc *fasthttp.RequestCtx) {
			answer, err := transport.Do(context.Background(), testRequest(address), chatShape)
			if err != nil {
				t.Error(err)
				return
			}
			WriteAnswer(rc, answer, &Relay{
				Context: context.Background(), Answer: answer, Client: rc.Conn(), RequestID: "r",
				Known: func(e End) { known <- e }, Ended: func() { ended <- struct{}{} },
			})
		},
	})
	c := mustCall(t, s)
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\n\r\n")
	answer, err := http.ReadResponse(c.br, nil)
	if err != nil {
		t.Fatal(err)
	}
	close(goOn)
	body, err := io.ReadAll(answer.Body)
	if err == nil || !strings.HasPrefix(string(body), delta("a")) || !strings.Contains(string(body), `"number":50000`) {
		t.Errorf("the client got %q, %v", body, err)
	}
	if e := next(t, "how it has ended", known); e.Kind != EndCrashed || e.Err == nil {
		t.Errorf("it ended by %+v", e)
	}
	next(t, "the end", ended)
	if err := next(t, "the engine to see the end", closed); err == nil || isNetTimeout(err) { // or a reset: it was not read to its end
		t.Errorf("the engine's connection ended with %v", err)
	}
	if line := next(t, "the log", said); !strings.Contains(line, "level=ERROR") || !strings.Contains(line, "a string") || !strings.Contains(line, "tripwire") {
		t.Errorf("logged %q", line)
	}
	s.end(Pace{})
	if len(known)+len(ended) > 0 {
		t.Error("the end was told twice")
	}
}

// brokenContext panics when somebody waits for its end.
type brokenContext struct{ context.Context }

func (brokenContext) Done() <-chan struct{} { panic("a bug of ours") }

// A panic in a session closes both of its connections, and leaves nothing that runs.
func TestPanicInASession(t *testing.T) {
	engine, engineEnds := wsEngine(t, func(c *websocket.Conn) error { return listenOnly(c) })
	over := make(chan struct{}, 1)
	address, _ := wsServer(t, engine, func(c *Custody, rc *fasthttp.RequestCtx, h *Handshake, a *Answer) {
		session := &Session{Buffers: new(Buffers), Context: brokenContext{c.Context}, Answer: a, Handshake: h, Ended: func(SessionEnd) { t.Error("it has ended well") }}
		rc.HijackSetNoResponse(true)
		c.Hijack(rc, func(client *Conn) {
			defer func() {
				c.LetGo()
				over <- struct{}{}
			}()
			session.Run(client)
		})
	})
	client := dialWS(t, address)
	if err := listenOnly(client); err == nil {
		t.Error("the client's connection goes on")
	}
	next(t, "the engine to see the end", engineEnds)
	next(t, "the session's end", over)
}
