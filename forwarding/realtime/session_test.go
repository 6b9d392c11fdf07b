package realtime_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/realtime"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/reasons"
)

func TestSessionRelaysMessages(t *testing.T) {
	bothWays(t, func(t *testing.T, through func(string) string) {
		engine, _ := wsEngine(t, echo)
		address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{})
		c := dialWS(t, through(address), "realtime")
		if c.Subprotocol() != "realtime" {
			t.Errorf("subprotocol %q", c.Subprotocol())
		}
		big := strings.Repeat("0123456789abcdef", 3<<16) // 3 MiB
		messages := []string{"hello", "", "gr\u00fc\u00dfe", "\x00\xff binary", big, "again"}
		var bytes int64
		for i, want := range messages {
			kind := websocket.TextMessage + i%2
			bytes += int64(len(want))
			if err := c.WriteMessage(kind, []byte(want)); err != nil {
				t.Fatal(err)
			}
			got, message, err := c.ReadMessage()
			if err != nil || got != kind || string(message) != want {
				t.Fatalf("message %d: kind %d, %d bytes, %v; want kind %d, %d bytes", i, got, len(message), err, kind, len(want))
			}
		}
		_ = c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""))
		wantClose(t, c, 1000, "")
		want := realtime.SessionOutcome{Kind: relay.OutcomeCompleted, MessagesIn: 6, MessagesOut: 6, BytesIn: bytes, BytesOut: bytes}
		if got := forwardtest.Receive(t, "the end", ends); got != want {
			t.Errorf("ended with %+v, want %+v", got, want)
		}
	})
}

func TestCloseCodesPassBothWays(t *testing.T) {
	bothWays(t, func(t *testing.T, through func(string) string) {
		f := func(code int, text, reason string) {
			t.Helper()
			engine, seen := wsEngine(t, listenOnly)
			address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{})
			c := dialWS(t, through(address))
			_ = c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(code, text))
			wantClose(t, c, code, text)
			var frame *websocket.CloseError
			if err := forwardtest.Receive(t, "the engine's end", seen); !errors.As(err, &frame) || frame.Code != code || frame.Text != text {
				t.Errorf("the engine saw %v, want close code %d %q", err, code, text)
			}
			if got := forwardtest.Receive(t, "the end", ends); got.Kind != relay.OutcomeCompleted || got.Reason != reason {
				t.Errorf("a client's close %d ended with %+v", code, got)
			}
		}
		f(1000, "bye", "")
		f(4001, "enough", "close_4001")
		f(websocket.CloseNoStatusReceived, "", "")

		g := func(code int, text string, kind relay.OutcomeKind, fault bool) {
			t.Helper()
			engine, _ := wsEngine(t, func(c *websocket.Conn) error {
				_ = c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(code, text))
				return listenOnly(c)
			})
			address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{})
			c := dialWS(t, through(address))
			wantClose(t, c, code, text)
			if got := forwardtest.Receive(t, "the end", ends); got.Kind != kind || got.EngineFault != fault {
				t.Errorf("an engine's close %d ended with %+v", code, got)
			}
		}
		g(1000, "", relay.OutcomeCompleted, false)
		g(4002, "as told", relay.OutcomeCompleted, false)
		g(1008, "you know why", relay.OutcomeCompleted, false)
		g(1011, "broken", relay.OutcomeEngineError, true)
		g(1013, "no room", relay.OutcomeEngineError, false)
	})
}

// awaitReset waits until a connection that is not read was reset.
func awaitReset(raw syscall.RawConn) error {
	for deadline := time.Now().Add(forwardtest.Patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var pending int
		err := raw.Control(func(fd uintptr) {
			pending, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		})
		if err != nil || pending != 0 {
			return errors.Join(err, syscall.Errno(pending))
		}
	}
	return nil
}

func TestClientLost(t *testing.T) {
	flood := func(c *websocket.Conn) error {
		for {
			if err := c.WriteMessage(websocket.TextMessage, make([]byte, 4096)); err != nil {
				return err
			}
		}
	}
	blocked := func(c *websocket.Conn) error { // does not read, so that writes to it block
		raw, err := c.NetConn().(*net.TCPConn).SyscallConn()
		if err != nil {
			return err
		}
		return awaitReset(raw)
	}
	bothWays(t, func(t *testing.T, through func(string) string) {
		f := func(name string, serve func(*websocket.Conn) error, leave func(*websocket.Conn)) {
			t.Run(name, func(t *testing.T) {
				engine, seen := wsEngine(t, serve)
				address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{})
				c := dialWS(t, through(address))
				leave(c)
				left := time.Now()
				if got := forwardtest.Receive(t, "the end", ends); got.Kind != relay.OutcomeClientGone {
					t.Errorf("ended with %+v", got)
				}
				if took := time.Since(left); took > 5*time.Second { // 500 ms on an idle machine
					t.Errorf("noticed after %s", took)
				}
				if err := forwardtest.Receive(t, "the engine's end", seen); err == nil {
					t.Error("the engine saw no end")
				}
			})
		}
		reset := func(c *websocket.Conn) { _ = c.NetConn().(*net.TCPConn).SetLinger(0); c.Close() }
		f("closed", listenOnly, func(c *websocket.Conn) { c.Close() })
		f("reset", listenOnly, reset)
		f("half-closed", listenOnly, func(c *websocket.Conn) { _ = c.NetConn().(*net.TCPConn).CloseWrite() })
		f("in mid-message", listenOnly, func(c *websocket.Conn) {
			_, _ = c.NetConn().Write([]byte{0x81, 0xfe, 0x10, 0, 1, 2, 3, 4, 'x'})
			c.Close()
		})
		f("while it is written to", flood, func(c *websocket.Conn) { _, _, _ = c.ReadMessage(); reset(c) })
		f("while the engine takes nothing", blocked, func(c *websocket.Conn) {
			_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
			for c.WriteMessage(websocket.BinaryMessage, make([]byte, 1<<20)) == nil {
			}
			reset(c)
		})
	})
}

func TestEngineLost(t *testing.T) {
	bothWays(t, func(t *testing.T, through func(string) string) {
		f := func(name string, lose func(*websocket.Conn), reason string) {
			t.Run(name, func(t *testing.T) {
				engine, _ := wsEngine(t, func(c *websocket.Conn) error {
					lose(c)
					return nil
				})
				address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{MaxMessage: 1 << 16})
				c := dialWS(t, through(address))
				wantClose(t, c, 1011, "the inference engine failed")
				if got := forwardtest.Receive(t, "the end", ends); got.Kind != relay.OutcomeEngineError || !got.EngineFault || got.Reason != reason {
					t.Errorf("ended with %+v, want the reason %s", got, reason)
				}
			})
		}
		f("closed", func(c *websocket.Conn) { c.Close() }, "truncated")
		f("reset", func(c *websocket.Conn) { _ = c.NetConn().(*net.TCPConn).SetLinger(0); c.Close() }, "truncated")
		f("in mid-message", func(c *websocket.Conn) { _, _ = c.NetConn().Write([]byte{0x81, 100, '{'}) }, "truncated")
		f("too big", func(c *websocket.Conn) {
			_ = c.WriteMessage(websocket.TextMessage, make([]byte, 1<<16+1))
			_ = listenOnly(c)
		}, "message_too_big")
		f("no frames", func(c *websocket.Conn) {
			_, _ = io.WriteString(c.NetConn(), "HTTP/1.1 200 OK\r\n\r\n")
			_ = listenOnly(c)
		}, "protocol_error")
	})
}

func TestDrainAndMaxDuration(t *testing.T) {
	bothWays(t, func(t *testing.T, through func(string) string) {
		engine, seen := wsEngine(t, listenOnly)
		address, ends, end := sessionServer(t, engine, realtime.SessionLimits{})
		c := dialWS(t, through(address))
		end(errors.New("shutting down"))
		wantClose(t, c, 1001, "shutting down")
		if got := forwardtest.Receive(t, "the end", ends); got.Kind != relay.OutcomeDrained {
			t.Errorf("ended with %+v", got)
		}
		var frame *websocket.CloseError
		if err := forwardtest.Receive(t, "the engine's end", seen); !errors.As(err, &frame) || frame.Code != 1001 {
			t.Errorf("the engine saw %v", err)
		}

		address, ends, _ = sessionServer(t, engine, realtime.SessionLimits{MaxDuration: 50 * time.Millisecond})
		wantClose(t, dialWS(t, through(address)), 1001, "time is over")
		if got := forwardtest.Receive(t, "the end", ends); got.Kind != relay.OutcomeTimeout || got.Reason != reasons.SessionTimeout || got.EngineFault {
			t.Errorf("ended with %+v", got)
		}
	})
}

// An engine that does not answer a close frame keeps its slot for engineCloseTimeout only.
func TestEngineThatDoesNotClose(t *testing.T) {
	release := make(chan struct{})
	engine, _ := wsEngine(t, func(c *websocket.Conn) error {
		<-release
		return nil
	})
	defer close(release)
	address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{})
	c := dialWS(t, address)
	_ = c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""))
	wantClose(t, c, 1000, "")
	if got := forwardtest.Receive(t, "the end", ends); got.Kind != relay.OutcomeCompleted {
		t.Errorf("ended with %+v", got)
	}
}

func TestSessionCancelledBeforeItRuns(t *testing.T) {
	engine, seen := wsEngine(t, listenOnly)
	ends := make(chan realtime.SessionOutcome, 1)
	address, _ := wsServer(t, engine, func(c *server.Request, rc *fasthttp.RequestCtx, h *transport.Handshake, a *transport.Response) {
		s := &realtime.Session{Buffers: new(realtime.Buffers), Context: c.Context, Response: a, Handshake: h, OnClose: func(e realtime.SessionOutcome) { ends <- e }}
		rc.HijackSetNoResponse(true)
		c.Hijack(rc, func(client *netconn.Conn) {
			defer c.Close()
			s.Run(client)
		})
		c.Cancel(server.ErrClientGone)
	})
	if _, _, err := websocket.DefaultDialer.Dial("ws://"+address, nil); err == nil {
		t.Error("the handshake was answered")
	}
	if got := forwardtest.Receive(t, "the end", ends); got.Kind != relay.OutcomeClientGone {
		t.Errorf("ended with %+v", got)
	}
	if err := forwardtest.Receive(t, "the engine's end", seen); err == nil {
		t.Error("the engine saw no end")
	}
}
