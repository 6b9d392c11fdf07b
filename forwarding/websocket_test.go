package forwarding

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"

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
	inHand, err := NewInHand()
	if err != nil {
		t.Fatal(err)
	}
	transport := runningTransport(t)
	server := NewServer(ServerConfig{
		InHand: inHand, Logger: slog.New(slog.DiscardHandler), MaxBody: func() int { return 1 << 20 },
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
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	t.Cleanup(func() {
		inHand.EndAll(errors.New("test is over"))
		_ = server.Shutdown()
		<-done
		if err := inHand.Close(); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String(), inHand.EndAll
}

// sessionServer terminates WebSockets, and tells how they ended.
func sessionServer(t testing.TB, engine string, limits SessionLimits) (address string, ends <-chan SessionEnd, end func(error)) {
	t.Helper()
	told := make(chan SessionEnd, 16)
	address, end = wsServer(t, engine, func(c *Custody, rc *fasthttp.RequestCtx, h *Handshake, a *Answer) {
		s := &Session{
			Context: c.Context, Answer: a, Handshake: h, Protocol: a.Header("sec-websocket-protocol"), Limits: limits,
			Fields: []Field{{HeaderAttempts, "1"}}, Ended: func(e SessionEnd) { told <- e },
		}
		rc.HijackSetNoResponse(true)
		c.Hijack(rc, func(client *ClientConn) {
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
		tunnel := &Tunnel{Context: c.Context, Answer: a}
		c.Hijack(rc, func(client *ClientConn) {
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

func next[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(patience):
		t.Fatalf("gave up waiting for %s", what)
		panic("unreachable")
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

func TestSessionRelaysMessages(t *testing.T) {
	bothWays(t, func(t *testing.T, through func(string) string) {
		engine, _ := wsEngine(t, echo)
		address, ends, _ := sessionServer(t, engine, SessionLimits{})
		c := dialWS(t, through(address), "realtime")
		if c.Subprotocol() != "realtime" {
			t.Errorf("subprotocol %q", c.Subprotocol())
		}
		big := strings.Repeat("0123456789abcdef", 3<<16) // 3 MiB
		messages := []string{"hello", "", "\x00\xff binary", big, "again"}
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
		want := SessionEnd{Kind: EndComplete, MessagesIn: 5, MessagesOut: 5, BytesIn: bytes, BytesOut: bytes}
		if got := next(t, "the end", ends); got != want {
			t.Errorf("ended with %+v, want %+v", got, want)
		}
	})
}

func TestCloseCodesPassBothWays(t *testing.T) {
	bothWays(t, func(t *testing.T, through func(string) string) {
		f := func(code int, text, reason string) {
			t.Helper()
			engine, seen := wsEngine(t, listenOnly)
			address, ends, _ := sessionServer(t, engine, SessionLimits{})
			c := dialWS(t, through(address))
			_ = c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(code, text))
			wantClose(t, c, code, text)
			var frame *websocket.CloseError
			if err := next(t, "the engine's end", seen); !errors.As(err, &frame) || frame.Code != code || frame.Text != text {
				t.Errorf("the engine saw %v, want close code %d %q", err, code, text)
			}
			if got := next(t, "the end", ends); got.Kind != EndComplete || got.Reason != reason {
				t.Errorf("a client's close %d ended with %+v", code, got)
			}
		}
		f(1000, "bye", "")
		f(4001, "enough", "close_4001")
		f(websocket.CloseNoStatusReceived, "", "")

		g := func(code int, text string, kind EndKind, fault bool) {
			t.Helper()
			engine, _ := wsEngine(t, func(c *websocket.Conn) error {
				_ = c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(code, text))
				return listenOnly(c)
			})
			address, ends, _ := sessionServer(t, engine, SessionLimits{})
			c := dialWS(t, through(address))
			wantClose(t, c, code, text)
			if got := next(t, "the end", ends); got.Kind != kind || got.Engine != fault {
				t.Errorf("an engine's close %d ended with %+v", code, got)
			}
		}
		g(1000, "", EndComplete, false)
		g(4002, "as told", EndComplete, false)
		g(1008, "you know why", EndComplete, false)
		g(1011, "broken", EndFailed, true)
		g(1013, "no room", EndFailed, false)
	})
}

// awaitReset waits until a connection that nobody reads was reset.
func awaitReset(raw syscall.RawConn) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
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
	deaf := func(c *websocket.Conn) error { // takes nothing: whoever writes to it is stuck
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
				address, ends, _ := sessionServer(t, engine, SessionLimits{})
				c := dialWS(t, through(address))
				leave(c)
				left := time.Now()
				if got := next(t, "the end", ends); got.Kind != EndClientGone {
					t.Errorf("ended with %+v", got)
				}
				if took := time.Since(left); took > 5*time.Second { // 500 ms on an idle machine
					t.Errorf("noticed after %s", took)
				}
				if err := next(t, "the engine's end", seen); err == nil {
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
		f("while the engine takes nothing", deaf, func(c *websocket.Conn) {
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
				address, ends, _ := sessionServer(t, engine, SessionLimits{Message: 1 << 16})
				c := dialWS(t, through(address))
				wantClose(t, c, 1011, "the inference engine failed")
				if got := next(t, "the end", ends); got.Kind != EndFailed || !got.Engine || got.Reason != reason {
					t.Errorf("ended with %+v, want the reason %s", got, reason)
				}
			})
		}
		f("closed", func(c *websocket.Conn) { c.Close() }, "cut_short")
		f("reset", func(c *websocket.Conn) { _ = c.NetConn().(*net.TCPConn).SetLinger(0); c.Close() }, "cut_short")
		f("in mid-message", func(c *websocket.Conn) { _, _ = c.NetConn().Write([]byte{0x81, 100, '{'}) }, "cut_short")
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

func TestSessionLimits(t *testing.T) {
	bothWays(t, func(t *testing.T, through func(string) string) {
		f := func(name string, misbehave func(*websocket.Conn), code int, reason string) {
			t.Run(name, func(t *testing.T) {
				engine, seen := wsEngine(t, listenOnly)
				address, ends, _ := sessionServer(t, engine, SessionLimits{Message: 1 << 20})
				c := dialWS(t, through(address))
				go misbehave(c)
				wantClose(t, c, code, "")
				if got := next(t, "the end", ends); got.Kind != EndRefused || got.Reason != reason {
					t.Errorf("ended with %+v, want the reason %s", got, reason)
				}
				var frame *websocket.CloseError
				if err := next(t, "the engine's end", seen); !errors.As(err, &frame) || frame.Code != 1001 {
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
		f("reserved bits", raw("\xc1\x81\x00\x00\x00\x00x"), 1002, "protocol_error") // compression was not agreed on
		f("a long ping", raw("\x89\xfe\x00\x7e\x00\x00\x00\x00"), 1002, "protocol_error")
	})
}

// flood writes first, and then more a million times, or until nobody takes it.
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

// A message of many fragments that are no smaller than those of usual libraries is fine.
func TestFragmentsOfUsualSize(t *testing.T) {
	engine, _ := wsEngine(t, echo)
	address, _, _ := sessionServer(t, engine, SessionLimits{})
	d := websocket.Dialer{WriteBufferSize: 125}
	c, _, err := d.Dial("ws://"+address+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(patience))
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

func TestMutePeers(t *testing.T) {
	const ping = 100 * time.Millisecond
	t.Run("client", func(t *testing.T) {
		engine, _ := wsEngine(t, listenOnly)
		address, ends, _ := sessionServer(t, engine, SessionLimits{Ping: ping})
		c := dialWS(t, address)
		c.SetPingHandler(func(string) error { return nil })
		wantClose(t, c, 1008, "silent")
		if got := next(t, "the end", ends); got.Kind != EndClientGone || got.Reason != "silent" {
			t.Errorf("ended with %+v", got)
		}
	})
	t.Run("engine", func(t *testing.T) {
		engine, _ := wsEngine(t, func(c *websocket.Conn) error {
			c.SetPingHandler(func(string) error { return nil })
			return listenOnly(c)
		})
		address, ends, _ := sessionServer(t, engine, SessionLimits{Ping: ping})
		wantClose(t, dialWS(t, address), 1011, "")
		if got := next(t, "the end", ends); got.Kind != EndTimeout || got.Reason != "silent" || !got.Engine {
			t.Errorf("ended with %+v", got)
		}
	})
	t.Run("neither", func(t *testing.T) {
		engine, _ := wsEngine(t, echo)
		address, ends, _ := sessionServer(t, engine, SessionLimits{Ping: ping})
		c := dialWS(t, address)
		go func() {
			time.Sleep(6 * ping)
			_ = c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""))
		}()
		wantClose(t, c, 1000, "")
		if got := next(t, "the end", ends); got.Kind != EndComplete {
			t.Errorf("a session in which nothing is said ended with %+v", got)
		}
	})
}

// A client that reads nothing holds up its engine, and then loses it.
func TestReaderThatStalls(t *testing.T) {
	engine, seen := wsEngine(t, func(c *websocket.Conn) error {
		for {
			if err := c.WriteMessage(websocket.BinaryMessage, make([]byte, 1<<16)); err != nil {
				return err
			}
		}
	})
	address, ends, _ := sessionServer(t, engine, SessionLimits{Stall: 300 * time.Millisecond})
	dialWS(t, address)
	got := next(t, "the end", ends)
	if got.Kind != EndClientGone || got.Reason != "stalled" {
		t.Errorf("ended with %+v", got)
	}
	if got.BytesOut > 16<<20 {
		t.Errorf("%d bytes were taken from the engine for a client that reads nothing", got.BytesOut)
	}
	if err := next(t, "the engine's end", seen); err == nil {
		t.Error("the engine saw no end")
	}
}

func TestDrainAndLife(t *testing.T) {
	bothWays(t, func(t *testing.T, through func(string) string) {
		engine, seen := wsEngine(t, listenOnly)
		address, ends, end := sessionServer(t, engine, SessionLimits{})
		c := dialWS(t, through(address))
		end(errors.New("shutting down"))
		wantClose(t, c, 1001, "shutting down")
		if got := next(t, "the end", ends); got.Kind != EndDrained {
			t.Errorf("ended with %+v", got)
		}
		var frame *websocket.CloseError
		if err := next(t, "the engine's end", seen); !errors.As(err, &frame) || frame.Code != 1001 {
			t.Errorf("the engine saw %v", err)
		}

		address, ends, _ = sessionServer(t, engine, SessionLimits{Life: 50 * time.Millisecond})
		wantClose(t, dialWS(t, through(address)), 1001, "time is over")
		if got := next(t, "the end", ends); got.Kind != EndTimeout || got.Engine {
			t.Errorf("ended with %+v", got)
		}
	})
}

// An engine that does not answer a close frame keeps its slot no longer than the moment that it is given.
func TestEngineThatDoesNotClose(t *testing.T) {
	release := make(chan struct{})
	engine, _ := wsEngine(t, func(c *websocket.Conn) error {
		<-release
		return nil
	})
	defer close(release)
	address, ends, _ := sessionServer(t, engine, SessionLimits{})
	c := dialWS(t, address)
	_ = c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""))
	wantClose(t, c, 1000, "")
	if got := next(t, "the end", ends); got.Kind != EndComplete {
		t.Errorf("ended with %+v", got)
	}
}

func TestSessionCancelledBeforeItRuns(t *testing.T) {
	engine, seen := wsEngine(t, listenOnly)
	ends := make(chan SessionEnd, 1)
	address, _ := wsServer(t, engine, func(c *Custody, rc *fasthttp.RequestCtx, h *Handshake, a *Answer) {
		s := &Session{Context: c.Context, Answer: a, Handshake: h, Ended: func(e SessionEnd) { ends <- e }}
		rc.HijackSetNoResponse(true)
		c.Hijack(rc, func(client *ClientConn) {
			defer c.LetGo()
			s.Run(client)
		})
		c.Cancel(ErrClientGone)
	})
	if _, _, err := websocket.DefaultDialer.Dial("ws://"+address, nil); err == nil {
		t.Error("the handshake was answered")
	}
	if got := next(t, "the end", ends); got.Kind != EndClientGone {
		t.Errorf("ended with %+v", got)
	}
	if err := next(t, "the engine's end", seen); err == nil {
		t.Error("the engine saw no end")
	}
}
