package realtime_test

import (
	"context"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/valyala/fasthttp"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/realtime"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/reasons"
)

// brokenContext panics when its end is waited for.
type brokenContext struct{ context.Context }

func (brokenContext) Done() <-chan struct{} { panic("a bug of ours") }

// A panic in a session closes both of its connections, and leaves no goroutine.
func TestPanicInASession(t *testing.T) {
	engine, engineEnds := wsEngine(t, func(c *websocket.Conn) error { return listenOnly(c) })
	over := make(chan struct{}, 1)
	address, _ := wsServer(t, engine, func(c *server.Request, rc *fasthttp.RequestCtx, h *transport.Handshake, a *transport.Response) {
		session := &realtime.Session{Buffers: new(realtime.Buffers), Context: brokenContext{c.Context}, Response: a, Handshake: h, OnClose: func(realtime.SessionOutcome) { t.Error("it has ended well") }}
		rc.HijackSetNoResponse(true)
		c.Hijack(rc, func(client *netconn.Conn) {
			defer func() {
				c.Close()
				over <- struct{}{}
			}()
			session.Run(client)
		})
	})
	client := dialWS(t, address)
	if err := listenOnly(client); err == nil {
		t.Error("the client's connection goes on")
	}
	forwardtest.Receive(t, "the engine to see the end", engineEnds)
	forwardtest.Receive(t, "the session's end", over)
}

// A session whose client has gone before its handshake was accepted ends with that reason, and closes the engine's connection.
func TestClientGoneBeforeItsHandshake(t *testing.T) {
	engine, engineEnds := wsEngine(t, func(c *websocket.Conn) error { return listenOnly(c) })
	ends := make(chan realtime.SessionOutcome, 1)
	address, _ := wsServer(t, engine, func(c *server.Request, rc *fasthttp.RequestCtx, h *transport.Handshake, a *transport.Response) {
		session := &realtime.Session{Buffers: new(realtime.Buffers), Context: c.Context, Response: a, Handshake: h, OnClose: func(e realtime.SessionOutcome) { ends <- e }}
		rc.HijackSetNoResponse(true)
		c.Hijack(rc, func(client *netconn.Conn) {
			defer c.Close()
			client.Abort()
			_ = client.Conn.Close()
			session.Run(client)
		})
	})
	if _, _, err := websocket.DefaultDialer.Dial("ws://"+address+"/v1/realtime", nil); err == nil {
		t.Error("the handshake was answered")
	}
	if e := forwardtest.Receive(t, "the session's end", ends); e.Kind != relay.OutcomeClientGone || e.Reason != reasons.Handshake {
		t.Errorf("ended with %+v", e)
	}
	forwardtest.Receive(t, "the engine to see the end", engineEnds)
}
