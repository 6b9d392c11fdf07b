package realtime_test

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

	"colonnade/forwarding/hop"
	"colonnade/forwarding/netconn"
	"colonnade/forwarding/realtime"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/openai"
)

// wsEngine starts an engine that accepts each handshake and then calls serve. It returns the engine's address, and the errors that serve
// returns.
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
		_ = conn.SetReadDeadline(time.Now().Add(forwardtest.Patience))
		ends <- serve(conn)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		running.Wait()
	})
	return strings.TrimPrefix(server.URL, "http://"), ends
}

// echo sends each message back, and returns the error that ends the connection.
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

// listenOnly reads until an error, and returns it.
func listenOnly(c *websocket.Conn) error {
	for {
		if _, _, err := c.ReadMessage(); err != nil {
			return err
		}
	}
}

// wsServer starts a server that makes a handshake with the server behind for each of its own, and calls join with the upgraded response.
// end cancels all requests in flight with a cause.
func wsServer(t testing.TB, behind string, join func(*server.Request, *fasthttp.RequestCtx, *transport.Handshake, *transport.Response)) (address string, end func(error)) {
	t.Helper()
	inflight, err := server.NewInflight(slog.New(slog.DiscardHandler), server.DefaultBodyMemory)
	if err != nil {
		t.Fatal(err)
	}
	tr := forwardtest.NewTransport(t)
	srv := server.New(server.Config{
		Inflight: inflight, Logger: slog.New(slog.DiscardHandler),
		HandleError: func(rc *fasthttp.RequestCtx, e *openai.Error) { server.WriteError(rc, e, "") },
		Handle: func(rc *fasthttp.RequestCtx) {
			h, refused := relay.ReadHandshake(rc)
			if refused != nil {
				server.WriteError(rc, refused, "")
				return
			}
			c := inflight.Begin()
			if err := c.WatchClient(rc.Conn()); err != nil {
				t.Error(err)
			}
			r := forwardtest.NewRequest(behind)
			r.Method, r.Path, r.Body, r.Handshake, r.Linger = "GET", "/v1/realtime", nil, transport.NewHandshake(h.Protocols), 250*time.Millisecond
			answer, err := tr.Do(c.Context, r, transport.ReadOptions{})
			if err != nil {
				server.WriteError(rc, openai.EngineFailed("handshake"), "")
				c.Close()
				return
			}
			join(c, rc, h, answer)
		},
	})
	address, done := forwardtest.Start(t, srv)
	t.Cleanup(func() {
		inflight.CancelAll(errors.New("test is over"))
		if err := srv.Shutdown(context.Background(), server.DrainTimings{}, nil); err != nil {
			t.Error(err)
		}
		<-done
	})
	return address, inflight.CancelAll
}

// sessionServer starts a server with a session for each WebSocket. It returns their outcomes.
func sessionServer(t testing.TB, engine string, limits realtime.SessionLimits) (address string, ends <-chan realtime.SessionOutcome, end func(error)) {
	t.Helper()
	outcomes := make(chan realtime.SessionOutcome, 16)
	address, end = wsServer(t, engine, func(c *server.Request, rc *fasthttp.RequestCtx, h *transport.Handshake, a *transport.Response) {
		s := &realtime.Session{
			Buffers: new(realtime.Buffers),
			Context: c.Context, Response: a, Handshake: h, Protocol: a.Header("sec-websocket-protocol"), Limits: limits,
			Fields: []transport.Field{{Name: hop.HeaderAttempts, Value: "1"}}, OnClose: func(e realtime.SessionOutcome) { outcomes <- e },
		}
		rc.HijackSetNoResponse(true)
		c.Hijack(rc, func(client *netconn.Conn) {
			defer c.Close()
			s.Run(client)
		})
	})
	return address, outcomes, end
}

// tunnelServer starts a server with a tunnel to the server behind for each WebSocket. It returns their outcomes.
func tunnelServer(t testing.TB, behind string) (address string, ends <-chan realtime.TunnelOutcome, end func(error)) {
	t.Helper()
	outcomes := make(chan realtime.TunnelOutcome, 16)
	address, end = wsServer(t, behind, func(c *server.Request, rc *fasthttp.RequestCtx, h *transport.Handshake, a *transport.Response) {
		relay.SwitchProtocols(rc, h, a)
		rc.Response.Header.Set(hop.HeaderAttempts, a.Header(hop.HeaderAttempts))
		tunnel := &realtime.Tunnel{Buffers: new(realtime.Buffers), Context: c.Context, Response: a}
		c.Hijack(rc, func(client *netconn.Conn) {
			defer c.Close()
			outcomes <- tunnel.Run(client)
		})
	})
	return address, outcomes, end
}

// dialWS opens a WebSocket as a client.
func dialWS(t testing.TB, address string, protocols ...string) *websocket.Conn {
	t.Helper()
	d := websocket.Dialer{HandshakeTimeout: forwardtest.Patience, Subprotocols: protocols}
	c, _, err := d.Dial("ws://"+address+"/v1/realtime", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(forwardtest.Patience))
	return c
}

// wantClose reads until the end of a session, and expects a close frame.
func wantClose(t testing.TB, c *websocket.Conn, code int, text string) {
	t.Helper()
	err := listenOnly(c)
	var frame *websocket.CloseError
	if !errors.As(err, &frame) || frame.Code != code || !strings.Contains(frame.Text, text) {
		t.Errorf("the session ended with %v, want close code %d %q", err, code, text)
	}
}

// bothWays runs a test at a session server, directly and through a tunnel.
func bothWays(t *testing.T, test func(t *testing.T, through func(address string) string)) {
	t.Run("direct", func(t *testing.T) { test(t, func(address string) string { return address }) })
	t.Run("tunnel", func(t *testing.T) {
		test(t, func(address string) string {
			entry, _, _ := tunnelServer(t, address)
			return entry
		})
	})
}
