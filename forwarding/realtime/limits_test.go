package realtime_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"colonnade/forwarding/realtime"
	"colonnade/forwarding/relay"
	"colonnade/internal/forwardtest"
)

func TestSessionLimits(t *testing.T) {
	bothWays(t, func(t *testing.T, through func(string) string) {
		f := func(name string, misbehave func(*websocket.Conn), code int, reason string) {
			t.Run(name, func(t *testing.T) {
				engine, seen := wsEngine(t, listenOnly)
				address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{MaxMessage: 1 << 20})
				c := dialWS(t, through(address))
				go misbehave(c)
				wantClose(t, c, code, "")
				if got := forwardtest.Receive(t, "the end", ends); got.Kind != realtime.OutcomeRefused || got.Reason != reason {
					t.Errorf("ended with %+v, want the reason %s", got, reason)
				}
				var frame *websocket.CloseError
				if err := forwardtest.Receive(t, "the engine's end", seen); !errors.As(err, &frame) || frame.Code != 1001 {
					t.Errorf("the engine saw %v, want that the client goes", err)
				}
			})
		}
		raw := func(frames ...string) func(*websocket.Conn) {
			return func(c *websocket.Conn) { _, _ = io.WriteString(c.NetConn(), strings.Join(frames, "")) }
		}
		f("too big", func(c *websocket.Conn) { _ = c.WriteMessage(websocket.BinaryMessage, make([]byte, 1<<20+1)) }, 1009, "message_too_big")
		f("announced too big", raw("\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00"), 1009, "message_too_big")
		f("a million fragments", func(c *websocket.Conn) {
			flood(c.NetConn(), "\x01\x81\x00\x00\x00\x00x", "\x00\x81\x00\x00\x00\x00x")
		}, 1008, "too_many_fragments")
		f("a million empty fragments", func(c *websocket.Conn) {
			flood(c.NetConn(), "\x01\x80\x00\x00\x00\x00", "\x00\x80\x00\x00\x00\x00")
		}, 1008, "too_many_fragments")
		f("a million pongs", func(c *websocket.Conn) {
			flood(c.NetConn(), "", "\x8a\x80\x00\x00\x00\x00")
		}, 1008, "too_many_fragments")
		f("not masked", raw("\x81\x01x"), 1002, "protocol_error")
		f("reserved bits", raw("\xc1\x81\x00\x00\x00\x00x"), 1002, "protocol_error") // compression was not negotiated
		f("a long ping", raw("\x89\xfe\x00\x7e\x00\x00\x00\x00"), 1002, "protocol_error")
	})
}

// flood writes first, and then more a million times, or until the connection ends.
func flood(c net.Conn, first, more string) {
	if _, err := io.WriteString(c, first); err != nil {
		return
	}
	many := strings.Repeat(more, 1000)
	for range 1000 {
		if _, err := io.WriteString(c, many); err != nil {
			return
		}
	}
}

// A message may have many fragments of the size that common libraries use.
func TestFragmentsOfUsualSize(t *testing.T) {
	engine, _ := wsEngine(t, echo)
	address, _, _ := sessionServer(t, engine, realtime.SessionLimits{})
	d := websocket.Dialer{WriteBufferSize: 125}
	c, _, err := d.Dial("ws://"+address+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(forwardtest.Patience))
	w, err := c.NextWriter(websocket.BinaryMessage)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 4<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, message, err := c.ReadMessage(); err != nil || len(message) != 4<<20 {
		t.Errorf("%d bytes came back, %v", len(message), err)
	}
}

func TestSilentEnds(t *testing.T) {
	const ping = 300 * time.Millisecond // in which a busy machine answers, too
	t.Run("client", func(t *testing.T) {
		t.Parallel()
		engine, _ := wsEngine(t, listenOnly)
		address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{PingInterval: ping})
		c := dialWS(t, address)
		c.SetPingHandler(func(string) error { return nil })
		wantClose(t, c, 1008, "silent")
		if got := forwardtest.Receive(t, "the end", ends); got.Kind != relay.OutcomeClientGone || got.Reason != "silent" {
			t.Errorf("ended with %+v", got)
		}
	})
	t.Run("engine", func(t *testing.T) {
		t.Parallel()
		engine, _ := wsEngine(t, func(c *websocket.Conn) error {
			c.SetPingHandler(func(string) error { return nil })
			return listenOnly(c)
		})
		address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{PingInterval: ping})
		wantClose(t, dialWS(t, address), 1011, "")
		if got := forwardtest.Receive(t, "the end", ends); got.Kind != relay.OutcomeTimeout || got.Reason != "silent" || !got.EngineFault {
			t.Errorf("ended with %+v", got)
		}
	})
	t.Run("neither", func(t *testing.T) {
		t.Parallel()
		engine, _ := wsEngine(t, echo)
		address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{PingInterval: ping})
		c := dialWS(t, address)
		go func() {
			time.Sleep(3 * ping)
			_ = c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""))
		}()
		wantClose(t, c, 1000, "")
		if got := forwardtest.Receive(t, "the end", ends); got.Kind != relay.OutcomeCompleted {
			t.Errorf("a session without messages ended with %+v", got)
		}
	})
}

// A client that does not read blocks its engine, and then loses it.
func TestClientThatStalls(t *testing.T) {
	engine, seen := wsEngine(t, func(c *websocket.Conn) error {
		for {
			if err := c.WriteMessage(websocket.BinaryMessage, make([]byte, 1<<16)); err != nil {
				return err
			}
		}
	})
	address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{WriteStall: 300 * time.Millisecond})
	dialWS(t, address)
	got := forwardtest.Receive(t, "the end", ends)
	if got.Kind != relay.OutcomeClientGone || got.Reason != "stalled" {
		t.Errorf("ended with %+v", got)
	}
	if got.BytesOut > 16<<20 {
		t.Errorf("%d bytes were taken from the engine for a client that reads nothing", got.BytesOut)
	}
	if err := forwardtest.Receive(t, "the engine's end", seen); err == nil {
		t.Error("the engine saw no end")
	}
}
