package forwarding

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/valyala/fasthttp"

	"colonnade/openai"
)

// wsEngine is an engine that answers each handshake and then does as it is told. It returns its address, and the ends of
// its connections as it saw them.
func wsEngine(t testing.TB, serve func(*websocket.Conn) error) (string, <-chan error) {
	t.Helper()
	ends := make(chan error, 16)
	var running sync.WaitGroup
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }, Subprotocols: []string{"realtime"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Done()
		conn, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		ends <- serve(conn)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		running.Wait()
	})
	return strings.TrimPrefix(server.URL, "http://"), ends
}

// echo answers each message with itself, and returns why there are no more.
func echo(c *websocket.Conn) error {
	for {
		kind, message, err := c.ReadMessage()
		if err != nil {
			return err
		}
		if err := c.WriteMessage(kind, message); err != nil {
			return err
		}
	}
}

// listenOnly reads until there is nothing more.
func listenOnly(c *websocket.Conn) error {
	for {
		if _, _, err := c.ReadMessage(); err != nil {
			return err
		}
	}
}

// wsServer takes handshakes, makes one to the server behind, and gives the switched answer to join. end ends all that
// is in hand, for a cause.
func wsServer(t testing.TB, behind string, join func(*Custody, *fasthttp.RequestCtx, *Handshake, *Answer)) (address string, end func(error)) {
	t.Helper()
	inHand, err := NewInHand(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	transport := runningTransport(t)
	server := NewServer(ServerConfig{
		InHand: inHand, Logger: slog.New(slog.DiscardHandler),
		Refuse: func(rc *fasthttp.RequestCtx, e *openai.Error) { WriteError(rc, e, "") },
		Handle: func(rc *fasthttp.RequestCtx) {
			h, refused := ReadHandshake(rc)
			if refused != nil {
				WriteError(rc, refused, "")
				return
			}
			c := inHand.Take()
			if err := c.WatchClient(rc.Conn()); err != nil {
				t.Error(err)
			}
			r := testRequest(behind)
			r.Method, r.Path, r.Body, r.Handshake, r.Linger = "GET", "/v1/realtime", nil, NewHandshake(h.Protocols), 250*time.Millisecond
			answer, err := transport.Do(c.Context, r, Shape{})
			if err != nil {
				WriteError(rc, openai.EngineFailed("handshake"), "")
				c.LetGo()
				return
			}
			join(c, rc, h, answer)
		},
	})
	address, done := serving(t, server)
	t.Cleanup(func() {
		inHand.EndAll(errors.New("test is over"))
		if err := server.End(context.Background(), Pace{}, nil); err != nil {
			t.Error(err)
		}
		<-done
	})
	return address, inHand.EndAll
}

// sessionServer terminates WebSockets, and tells how they ended.
func sessionServer(t testing.TB, engine string, limits SessionLimits) (address string, ends <-chan SessionEnd, end func(error)) {
	t.Helper()
	told := make(chan SessionEnd, 16)
	address, end = wsServer(t, engine, func(c *Custody, rc *fasthttp.RequestCtx, h *Handshake, a *Answer) {
		s := &Session{
			Buffers: new(Buffers),
			Context: c.Context, Answer: a, Handshake: h, Protocol: a.Header("sec-websocket-protocol"), Limits: limits,
			Fields: []Field{{HeaderAttempts, "1"}}, Ended: func(e SessionEnd) { told <- e },
		}
		rc.HijackSetNoResponse(true)
		c.Hijack(rc, func(client *Conn) {
			defer c.LetGo()
			s.Run(client)
		})
	})
	return address, told, end
}

// tunnelServer carries bytes to a server that terminates.
func tunnelServer(t testing.TB, behind string) (address string, ends <-chan TunnelEnd, end func(error)) {
	t.Helper()
	told := make(chan TunnelEnd, 16)
	address, end = wsServer(t, behind, func(c *Custody, rc *fasthttp.RequestCtx, h *Handshake, a *Answer) {
		SwitchProtocols(rc, h, a)
		rc.Response.Header.Set(HeaderAttempts, a.Header(HeaderAttempts))
		tunnel := &Tunnel{Buffers: new(Buffers), Context: c.Context, Answer: a}
		c.Hijack(rc, func(client *Conn) {
			defer c.LetGo()
			told <- tunnel.Run(client)
		})
	})
	return address, told, end
}

// dialWS opens a WebSocket as a client does.
func dialWS(t testing.TB, address string, protocols ...string) *websocket.Conn {
	t.Helper()
	d := websocket.Dialer{HandshakeTimeout: patience, Subprotocols: protocols}
	c, _, err := d.Dial("ws://"+address+"/v1/realtime", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(patience))
	return c
}

// wantClose reads to the end of a session and expects a close frame.
func wantClose(t testing.TB, c *websocket.Conn, code int, text string) {
	t.Helper()
	err := listenOnly(c)
	var frame *websocket.CloseError
	if !errors.As(err, &frame) || frame.Code != code || !strings.Contains(frame.Text, text) {
		t.Errorf("the session ended with %v, want close code %d %q", err, code, text)
	}
}

// bothWays runs a test against a session server, and through a tunnel before it.
func bothWays(t *testing.T, test func(t *testing.T, through func(address string) string)) {
	t.Run("direct", func(t *testing.T) { test(t, func(address string) string { return address }) })
	t.Run("tunnel", func(t *testing.T) {
		test(t, func(address string) string {
			entry, _, _ := tunnelServer(t, address)
			return entry
		})
	})
}
