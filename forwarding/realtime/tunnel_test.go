package realtime_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/valyala/fasthttp"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/realtime"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/openai"
)

// closeLast closes a connection after the server has, as RFC 6455 recommends: a client that closes first may count as lost.
func closeLast(c *websocket.Conn) {
	_, _ = c.UnderlyingConn().Read(make([]byte, 1))
	c.Close()
}

func TestTunnelEnds(t *testing.T) {
	engine, _ := wsEngine(t, echo)
	f := func(name string, want relay.OutcomeKind, act func(c *websocket.Conn, endServer, endTunnel func(error))) {
		t.Run(name, func(t *testing.T) {
			address, _, endServer := sessionServer(t, engine, realtime.SessionLimits{})
			entry, ends, endTunnel := tunnelServer(t, address)
			c := dialWS(t, entry)
			if err := c.WriteMessage(websocket.TextMessage, []byte("it runs")); err != nil {
				t.Fatal(err)
			}
			if _, _, err := c.ReadMessage(); err != nil {
				t.Fatal(err)
			}
			act(c, endServer, endTunnel)
			got := forwardtest.Receive(t, "the end", ends)
			if got.Kind != want || got.BytesIn == 0 || got.BytesOut == 0 {
				t.Errorf("ended with %+v, want %s", got, want)
			}
		})
	}
	f("client closes", relay.OutcomeCompleted, func(c *websocket.Conn, _, _ func(error)) {
		_ = c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""))
		wantClose(t, c, 1000, "")
		closeLast(c)
	})
	f("client is lost", relay.OutcomeClientGone, func(c *websocket.Conn, _, _ func(error)) { c.Close() })
	f("server closes", relay.OutcomeCompleted, func(c *websocket.Conn, endServer, _ func(error)) {
		endServer(errors.New("over"))
		wantClose(t, c, 1001, "")
		closeLast(c)
	})
	// A tunnel does not write frames, so the close frame is the server's.
	f("tunnel drains", relay.OutcomeDrained, func(c *websocket.Conn, _, endTunnel func(error)) {
		endTunnel(errors.New("over"))
		wantClose(t, c, 1001, "")
	})
}

func TestTunnelLosesServer(t *testing.T) {
	f := func(name string, want relay.OutcomeKind, last string, serve func(net.Conn)) {
		t.Run(name, func(t *testing.T) {
			address := forwardtest.ListenRaw(t, func(c net.Conn) {
				r, err := forwardtest.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				h := transport.Handshake{Key: r.Header.Get("Sec-WebSocket-Key")}
				fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Accept: %s\r\n\r\nearly%s", h.AcceptKey(), last)
				serve(c)
			})
			ends := make(chan realtime.TunnelOutcome, 1)
			entry, _ := wsServer(t, address, func(c *server.Request, rc *fasthttp.RequestCtx, h *transport.Handshake, a *transport.Response) {
				relay.SwitchProtocols(rc, h, a)
				tunnel := &realtime.Tunnel{Buffers: new(realtime.Buffers), Context: c.Context, Response: a, IdleTimeout: 300 * time.Millisecond}
				c.Hijack(rc, func(client *netconn.Conn) {
					defer c.Close()
					ends <- tunnel.Run(client)
				})
			})
			c := rawHandshake(t, entry, "")
			got, err := io.ReadAll(c)
			c.Close()
			if err != nil || !strings.HasSuffix(string(got), "\r\n\r\nearly"+last) {
				t.Errorf("the client got %q, %v; want what came with the answer, and then an end", got, err)
			}
			if end := forwardtest.Receive(t, "the end", ends); end.Kind != want {
				t.Errorf("ended with %+v, want %s", end, want)
			}
		})
	}
	f("closed", relay.OutcomeEngineError, "", func(net.Conn) {})
	f("closed after a close frame", relay.OutcomeCompleted, "\x88\x02\x03\xe8", func(net.Conn) {})
	f("closed after a close frame without a code", relay.OutcomeCompleted, "\x88\x00", func(net.Conn) {})
	f("closed inside a close frame", relay.OutcomeEngineError, "\x88\x05\x03\xe8x", func(net.Conn) {})
	f("silent", relay.OutcomeTimeout, "", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
}

// Frames that a client sends before its handshake is accepted are neither lost nor taken for another request.
func TestFramesBehindTheHandshake(t *testing.T) {
	engine, _ := wsEngine(t, echo)
	bothWays(t, func(t *testing.T, through func(string) string) {
		address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{})
		c := rawHandshake(t, through(address), "\x81\x82\x00\x00\x00\x00hi\x88\x82\x00\x00\x00\x00\x03\xe8")
		got, err := io.ReadAll(c)
		if _, frames, _ := strings.Cut(string(got), "\r\n\r\n"); err != nil || frames != "\x81\x02hi\x88\x02\x03\xe8" {
			t.Errorf("the client got %q, %v", got, err)
		}
		c.Close()
		if end := forwardtest.Receive(t, "the end", ends); end.Kind != relay.OutcomeCompleted || end.MessagesIn != 1 || end.MessagesOut != 1 {
			t.Errorf("ended with %+v", end)
		}
	})
}

// rawHandshake sends a handshake followed by more bytes.
func rawHandshake(t testing.TB, address, more string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(forwardtest.Patience))
	if _, err := io.WriteString(c, "GET /v1/realtime HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "+transport.NewHandshake(nil).Key+"\r\n\r\n"+more); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// A response that does not match the handshake is an error, and its connection is not used again.
func TestFailedHandshakes(t *testing.T) {
	const good = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n"
	tr := forwardtest.NewTransport(t)
	var conns atomic.Int64
	f := func(name, head string, handshake *transport.Handshake, want string) {
		t.Run(name, func(t *testing.T) {
			conns.Store(0)
			address := forwardtest.ListenRaw(t, func(c net.Conn) {
				conns.Add(1)
				br := bufio.NewReader(c)
				for {
					if _, err := forwardtest.ReadRequest(br); err != nil {
						return
					}
					_, _ = io.WriteString(c, head)
				}
			})
			for n := range 2 {
				r := forwardtest.NewRequest(address)
				if r.Handshake = handshake; handshake != nil {
					r.Method, r.Body = "GET", nil
				}
				a, err := tr.Do(t.Context(), r, transport.ReadOptions{API: openai.Chat})
				if err == nil {
					if a.Upgraded() {
						t.Errorf("it switched")
					}
					a.Close()
				}
				if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("failed with %v, want %q", err, want)
				}
				if want != "" && conns.Load() != int64(n+1) {
					t.Errorf("%d connections for %d requests", conns.Load(), n+1)
				}
			}
		})
	}
	h := transport.NewHandshake([]string{"realtime"})
	taken := "HTTP/1.1 101 Switching Protocols\r\n" + fmt.Sprintf(good, h.AcceptKey())
	f("without a handshake", taken+"\r\n", nil, "without a handshake")
	f("of h2c", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", nil, "without a handshake")
	f("to h2c", strings.Replace(taken, "websocket", "h2c", 1)+"\r\n", h, "without an upgrade to websocket")
	f("without connection", strings.Replace(taken, "Connection", "X", 1)+"\r\n", h, "without an upgrade to websocket")
	f("for another key", strings.Replace(taken, h.AcceptKey(), transport.NewHandshake(nil).AcceptKey(), 1)+"\r\n", h, "does not match the key")
	f("with an extension", taken+"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n", h, "extension")
	f("with a foreign subprotocol", taken+"Sec-WebSocket-Protocol: mqtt\r\n\r\n", h, "subprotocol")
	f("refused", "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", h, "")
	f("200", "HTTP/1.1 200 OK\r\n"+fmt.Sprintf(good, h.AcceptKey())+"Content-Length: 2\r\n\r\nok", h, "")
}

func TestReadHandshake(t *testing.T) {
	const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	f := func(fields, want string, protocols ...string) {
		t.Helper()
		var rc fasthttp.RequestCtx
		if err := rc.Request.Header.Read(bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n"))); err != nil {
			t.Fatal(err)
		}
		h, err := relay.ReadHandshake(&rc)
		if (err != nil) != (want != "") || err != nil && (err.Status != 400 || !strings.Contains(err.Message, want)) {
			t.Errorf("%q: %+v, want %q", fields, err, want)
		}
		if h != nil && strings.Join(h.Protocols, " ") != strings.Join(protocols, " ") {
			t.Errorf("%q: protocols %q, want %q", fields, h.Protocols, protocols)
		}
	}
	const up, version = "Upgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n", "Sec-WebSocket-Version: 13\r\n"
	f(up+version+key, "")
	f(up+version+key+"Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.x ,\r\nSec-WebSocket-Protocol: a(b, more\r\n", "",
		"realtime", "openai-insecure-api-key.x", "more")
	f(version+key, "WebSocket only")
	f("Upgrade: websocket\r\n"+version+key, "WebSocket only")
	f("Upgrade: h2c\r\nConnection: Upgrade\r\n"+version+key, "WebSocket only")
	f(up+key, "sec-websocket-version")
	f(up+"Sec-WebSocket-Version: 8\r\n"+key, "sec-websocket-version")
	f(up+version, "sec-websocket-key")
	f(up+version+"Sec-WebSocket-Key: c2hvcnQ=\r\n", "sec-websocket-key")
}

// fasthttp drops a hijack whose connection breaks while an earlier response is flushed. It must not leak the request.
func TestHijackOfALostConnection(t *testing.T) {
	inflight, err := server.NewInflight(slog.New(slog.DiscardHandler), server.DefaultBodyMemory)
	if err != nil {
		t.Fatal(err)
	}
	handling, lost, ran := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	srv := server.New(server.Config{
		Inflight: inflight, Logger: slog.New(slog.DiscardHandler),
		Handle: func(rc *fasthttp.RequestCtx) {
			if string(rc.Path()) == "/first" {
				rc.SetBodyString("not flushed, since the next request is there already")
				return
			}
			c := inflight.Begin()
			_ = c.WatchClient(rc.Conn())
			rc.HijackSetNoResponse(true)
			c.Hijack(rc, func(client *netconn.Conn) {
				_, err := client.Read(make([]byte, 1))
				ran <- err
				c.Close()
			})
			close(handling)
			<-lost
			<-c.Context.Done()
		},
	})
	address, done := forwardtest.Start(t, srv)
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "GET /first HTTP/1.1\r\nHost: x\r\n\r\nGET /second HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
	<-handling
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
	close(lost)
	if err := forwardtest.Receive(t, "the hijack", ran); err == nil {
		t.Error("a lost connection could be read")
	}
	if err := srv.Shutdown(context.Background(), server.DrainTimings{}, nil); err != nil {
		t.Error(err)
	}
	<-done
	if len(ran) > 0 {
		t.Error("it ran twice")
	}
}

// A proxy on the path may take the connection for a tunnel after any response to an upgrade, so that is its last.
func TestRefusedUpgradeCloses(t *testing.T) {
	address, _ := wsServer(t, "127.0.0.1:1", nil) // no server is there
	for _, fields := range []string{"", "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(forwardtest.Patience))
		fmt.Fprintf(c, "GET /v1/realtime HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n%s\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", fields)
		br := bufio.NewReader(c)
		answer, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		if answer.StatusCode < 400 || !answer.Close {
			t.Errorf("answered %d, closing: %v", answer.StatusCode, answer.Close)
		}
		if more, _ := io.ReadAll(br); len(more) > 0 {
			t.Errorf("answered what came behind: %q", more)
		}
		c.Close()
	}
}

// A panic in a hijacked connection, or in one of its copiers, ends that connection and not the process.
func TestPanicInAHijack(t *testing.T) {
	lines := make(forwardtest.LogLines, 10)
	inflight, err := server.NewInflight(slog.New(slog.NewTextHandler(lines, nil)), server.DefaultBodyMemory)
	if err != nil {
		t.Fatal(err)
	}
	srv := server.New(server.Config{
		Inflight: inflight, Logger: slog.New(slog.DiscardHandler),
		Handle: func(rc *fasthttp.RequestCtx) {
			c := inflight.Begin()
			rc.HijackSetNoResponse(true)
			c.Hijack(rc, func(*netconn.Conn) {
				defer c.Close()
				realtime.RunCopier(func() { panic("a bug of ours") })
			})
		},
	})
	address, done := forwardtest.Start(t, srv)
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(forwardtest.Patience))
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes, %v; want the connection closed", n, err)
	}
	if err := srv.Shutdown(context.Background(), server.DrainTimings{}, nil); err != nil {
		t.Error(err)
	}
	<-done
	if line := forwardtest.Receive(t, "the log", lines); !strings.Contains(line, "a string") || !strings.Contains(line, "TestPanicInAHijack.func1.1.1") {
		t.Errorf("logged %q", line)
	}
}
