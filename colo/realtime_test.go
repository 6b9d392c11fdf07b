package colo

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"colonnade/analytics/journal"
	"colonnade/analytics/metrics"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/server"
	"colonnade/internal/simengine"
)

const patience = 30 * time.Second

// testServer is a colo server that a test speaks to as an entry does.
type testServer struct {
	*Server
	t       *testing.T
	address string
	keys    *hop.Keys
	down    bool // it was shut down by the test
	disk    *stuckDisk
	events  string // their directory

	protocol int // of the server, as the sender of signed knows it
}

const realtimeFleet = `
key: models/voice
type: realtime
pool: p
---
key: models/brief
type: realtime
pool: p
timeouts: {websocket: 100ms}
---
key: models/mute
type: realtime
---
key: endpoints/ams/one
url: %ENGINE
pool: p
concurrency: 1
---
key: endpoints/ams/two
url: %PLAIN
pool: mute
concurrency: 1
`

// startServer runs a server with one simulated engine, and one that answers everything with an empty 200.
func startServer(t *testing.T) *testServer {
	t.Helper()
	return startServerBy(t, func(*Server) {})
}

// startServerBy is startServer of a server that was changed before.
func startServerBy(t *testing.T, change func(*Server)) *testServer {
	t.Helper()
	return startConfigured(t, func(*Config) {}, change)
}

// startConfigured is startServerBy of a server with another configuration.
func startConfigured(t *testing.T, configure func(*Config), change func(*Server)) *testServer {
	t.Helper()
	sim := simengine.New(simengine.Config{Slots: 1, TTFT: time.Millisecond, ITL: time.Millisecond, Models: []string{"voice", "brief"}})
	engine := httptest.NewServer(sim)
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	documents := document.NewSet()
	split, err := document.SplitFile([]byte(strings.NewReplacer("%ENGINE", engine.URL, "%PLAIN", plain.URL).Replace(realtimeFleet)))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range split {
		if err := documents.Put(d.Key, d.Value, 1); err != nil {
			t.Fatal(err)
		}
	}
	table := documents.Table()
	logger := slog.New(slog.DiscardHandler)
	disk, events := newStuckDisk(), t.TempDir()
	log, err := journal.Open(journal.Config{Dir: events, Node: "ams-1", Logger: slog.New(disk)})
	if err != nil {
		t.Fatal(err)
	}
	disk.log = log
	s := &testServer{t: t, keys: hop.RandomKeys(), disk: disk, events: events}
	config := Config{
		Colo: "ams", Node: "ams-1", Keys: s.keys, Log: log,
		Metrics: metrics.NewRegistry(), Logger: logger,
	}
	configure(&config)
	s.Server, err = New(config)
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(table)
	change(s.Server)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.Run(ctx) }()
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		var err error
		if !s.down {
			now, stop := context.WithCancel(ctx)
			stop()
			err = s.Shutdown(now, server.DrainTimings{})
		}
		cancel()
		if err := errors.Join(err, <-ended, <-ended, log.Close()); err != nil {
			t.Error(err)
		}
		sim.Close()
		engine.Close()
		plain.Close()
	})
	return s
}

// dial opens a session with a token for a target.
func (s *testServer) dial(model string, to hop.Binding) (*websocket.Conn, *http.Response, error) {
	s.t.Helper()
	token, err := s.keys.Sign(&hop.Token{
		RequestID: "r", Source: "entry-1", Account: "a", Weight: 1, Priority: fleet.PriorityStandard, Model: model, HopsLeft: 1,
		Wait: hop.WaitNever, Total: hop.Millis(time.Minute),
	}, hop.NewSequence(s.Boot()), &to, time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return s.dialWith(token)
}

// dialWith opens a session with a token.
func (s *testServer) dialWith(token string) (*websocket.Conn, *http.Response, error) {
	d := websocket.Dialer{HandshakeTimeout: patience}
	c, answer, err := d.Dial("ws://"+s.address+realtimeTarget, http.Header{hop.HeaderToken: {token}, "User-Agent": {""}})
	if err == nil {
		s.t.Cleanup(func() { c.Close() })
		_ = c.SetReadDeadline(time.Now().Add(patience))
	}
	return c, answer, err
}

const realtimeTarget = "/v1/realtime?model=another"

var toSelf = hop.Binding{Audience: "ams-1", Method: "GET", Target: realtimeTarget}

// open opens a session that must not be refused.
func (s *testServer) open(model string) *websocket.Conn {
	s.t.Helper()
	c, answer, err := s.dial(model, toSelf)
	if err != nil {
		s.t.Fatalf("cannot open a session: %v, %v", err, answer)
	}
	if l, err := hop.ParseLoad(answer.Header.Get(hop.HeaderLoad)); err != nil || l.Held != 1 || l.Limit != 1 {
		s.t.Errorf("the load in the answer is %+v, %v", l, err)
	}
	if _, message, err := c.ReadMessage(); err != nil || !strings.Contains(string(message), "session.created") {
		s.t.Fatalf("it began with %q, %v", message, err)
	}
	return c
}

// refused expects a plain HTTP answer, and returns its verdict.
func (s *testServer) refused(model string, to hop.Binding, status int) string {
	s.t.Helper()
	_, answer, err := s.dial(model, to)
	if err == nil || answer == nil || answer.StatusCode != status {
		s.t.Fatalf("refused with %v, %v; want status %d", answer, err, status)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.Header.Get(hop.HeaderVerdict)
}

func (s *testServer) held() (n int) {
	for _, p := range s.Pools() {
		n += p.Held
	}
	return n
}

func closeCode(c *websocket.Conn) (int, string) {
	for {
		_, _, err := c.ReadMessage()
		var frame *websocket.CloseError
		if errors.As(err, &frame) {
			return frame.Code, frame.Text
		}
		if err != nil {
			return 0, err.Error()
		}
	}
}

func TestRealtimeRefusals(t *testing.T) {
	s := startServer(t)
	for _, to := range []hop.Binding{
		{Audience: "ams-2", Method: "GET", Target: realtimeTarget},
		{Audience: "ams-1", Method: "POST", Target: realtimeTarget},
		{Audience: "ams-1", Method: "GET", Target: "/v1/models?model=another"},
		{Audience: "ams-1", Method: "GET", Target: "/v1/realtime?model=voice"},
		{Audience: "ams-1", Method: "GET", Target: realtimeTarget, Body: []byte("x")},
	} {
		if v := s.refused("voice", to, 403); v != "" {
			t.Errorf("a client without a token received %q", v)
		}
	}
	// An engine that answers a handshake with anything but a switch speaks no WebSocket.
	if v := s.refused("mute", toSelf, 502); !strings.HasPrefix(v, "error;reason=endpoint_misconfigured") {
		t.Errorf("verdict %q", v)
	}
	c := s.open("voice")
	if v := s.refused("voice", toSelf, 429); !strings.HasPrefix(v, "ooc;reason=busy") {
		t.Errorf("verdict %q", v)
	}
	c.Close()
	if n := s.held(); n > 1 {
		t.Errorf("%d permits held", n)
	}
}

func TestRealtimeTimeIsOver(t *testing.T) {
	s := startServer(t)
	if code, text := closeCode(s.open("brief")); code != 1001 || text != "session time is over" {
		t.Errorf("ended with %d %s", code, text)
	}
}

func TestRealtimeDrain(t *testing.T) {
	s := startServer(t)
	c := s.open("voice")
	s.Drain()
	if v := s.refused("voice", toSelf, 503); !strings.HasPrefix(v, "moved;reason=draining") {
		t.Errorf("verdict %q", v)
	}
	if err := c.WriteMessage(websocket.TextMessage, []byte(`{"type":"response.create"}`)); err != nil {
		t.Fatal(err)
	}
	if _, message, err := c.ReadMessage(); err != nil || !strings.Contains(string(message), "response.created") {
		t.Errorf("a session that goes on while draining said %q, %v", message, err)
	}
	grace, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	s.down = true
	over := make(chan error, 1)
	go func() { over <- s.Shutdown(grace, server.DrainTimings{}) }()
	if code, text := closeCode(c); code != 1001 || text != "server is shutting down" {
		t.Errorf("ended with %d %s", code, text)
	}
	if n := s.held(); n != 0 {
		t.Errorf("%d permits held once the client had its answer", n)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
}
