package streams_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"colonnade/accounts"
	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// realtimeModels are models that engines know as demo-realtime.
const realtimeModels = `
key: models/voice
aliases: [talk]
type: realtime
pool: demo
upstream_name: demo-realtime
`

func TestRealtimeSession(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1)}, realtimeModels)
	f.Watch(4)
	s := f.DialRealtime("talk", "User-Agent", "test/1")
	created := s.Hear("session.created")
	if got := created["session"].(map[string]any)["model"]; got != "demo-realtime" {
		t.Errorf("the engine was asked for %v", got)
	}
	colo := s.Header.Get("x-colonnade-colo")
	if s.Header.Get("x-colonnade-attempts") != "1" || s.Header.Get("x-colonnade-queued-ms") != "0" {
		t.Errorf("headers of the answer: %v", s.Header)
	}
	if st := f.Engine(colo).Stats(); st.Running != 1 {
		t.Errorf("the engine has %d sessions", st.Running)
	}
	s.Say(`{"type":"conversation.item.create","item":{"content":[{"type":"input_text","text":"echo: four words of mine"}]}}`)
	if err := s.WriteMessage(websocket.BinaryMessage, []byte(`{"type":"response.create"}`)); err != nil {
		t.Fatal(err)
	}
	if got := s.Hear("response.output_text.done")["text"]; got != "four words of mine" {
		t.Errorf("the engine said %v", got)
	}
	s.Hear("response.done")

	// The session has the only slot of its colo, for as long as it lasts.
	if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 || a.Header.Get("x-colonnade-colo") == colo {
		t.Errorf("beside the session: %d from %s", a.Status, a.Header.Get("x-colonnade-colo"))
	}
	s.HangUp(4001, "enough")
	s.ExpectClose(4001, "")
	if got := f.Engine(colo).Stats().CloseCode; got != 4001 {
		t.Errorf("the engine was told close code %d", got)
	}
	s.Close()

	request, inference := f.LastEvents(s.Header.Get("x-request-id"))
	for _, e := range []analytics.Event{request, inference} {
		if e.Outcome != analytics.OutcomeCompleted || !e.WebSocket || e.Model != "voice" || e.Status != 101 || e.BytesIn == 0 || e.BytesOut == 0 || e.Partial {
			t.Errorf("%s event: %+v", e.Kind, e)
		}
	}
	if inference.MessagesIn != 2 || inference.MessagesOut < 6 || inference.Reason != "close_4001" {
		t.Errorf("inference event: %+v", inference)
	}
}

func TestRealtimeEngineCloses(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1), Colos: []string{"ams"}}, "")
	f.WatchShared(4)
	s := f.DialRealtime("demo-realtime")
	s.Hear("session.created")
	s.Say(`{"type":"simengine.close","code":4002,"reason":"as told"}`)
	s.ExpectClose(4002, "as told")

	// An engine that is lost gives the client a close code, and is not asked a second time.
	for _, fault := range []string{simengine.FaultCutAtChunk, simengine.FaultCutInChunk} {
		f.InjectFault(fault, 1)
		s = f.DialRealtime("demo-realtime")
		s.Say(`{"type":"response.create"}`)
		s.ExpectClose(1011, "the inference engine failed")
		_, inference := f.LastEvents(s.Header.Get("x-request-id"))
		if inference.Outcome != analytics.OutcomeEngineError || !inference.Partial || inference.MessagesOut == 0 {
			t.Errorf("%s: inference event %+v", fault, inference)
		}
	}
	f.InjectFault(simengine.FaultFullInStream, 1)
	s = f.DialRealtime("demo-realtime")
	s.ExpectClose(1013, "no room")
}

// However a client leaves, its permit and the engine's slot are free a moment later: the next session is on the same.
func TestRealtimeClientLost(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1), Colos: []string{"ams"}}, "")
	f.Watch(4)
	reset := func(s fleettest.Session) {
		_ = s.NetConn().(*net.TCPConn).SetLinger(0)
		s.Close()
	}
	for name, leave := range map[string]func(fleettest.Session){
		"closed":      func(s fleettest.Session) { s.Close() },
		"reset":       reset,
		"half-closed": func(s fleettest.Session) { _ = s.NetConn().(*net.TCPConn).CloseWrite() },
		"in a frame": func(s fleettest.Session) {
			_, _ = s.NetConn().Write([]byte{0x81, 0xfe, 0x10, 0, 1, 2, 3, 4, '{'})
			s.Close()
		},
		"while it is spoken to": func(s fleettest.Session) {
			s.Say(`{"type":"response.create","response":{"max_output_tokens":100000}}`)
			s.Hear("response.output_text.delta")
			reset(s)
		},
		"while it takes nothing": func(s fleettest.Session) {
			f.InjectFault(simengine.FaultEndlessLine, 1)
			s.HangUp(1000, "")
			s.ExpectClose(1000, "")
			other := f.DialRealtime("demo-realtime")
			other.Say(`{"type":"response.create"}`)
			time.Sleep(100 * time.Millisecond)
			reset(other)
		},
	} {
		s := f.DialRealtime("demo-realtime")
		s.Hear("session.created")
		leave(s)
		testkit.WaitFor(t, name+": the engine to be idle", func() bool { return f.Engine("ams").Stats().Running == 0 })
		if st := f.Engine("ams").Stats(); st.CloseCode != 1001 && st.Aborted == 0 {
			t.Errorf("%s: the engine was not told that its client has gone: %+v", name, st)
		}
		if name == "while it takes nothing" {
			continue
		}
		request, inference := f.LastEvents(s.Header.Get("x-request-id"))
		if request.Outcome != analytics.OutcomeClientGone || inference.Outcome != analytics.OutcomeClientGone || !inference.Partial {
			t.Errorf("%s: outcomes %s and %s", name, request.Outcome, inference.Outcome)
		}
	}
	if a := f.Chat(fleettest.ChatBody(1, false), "x-colonnade-queue", "never"); a.Status != 200 {
		t.Errorf("the slot is not free: %d %s", a.Status, a.Body)
	}
}

func TestRealtimeRefusals(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1)}, "key: defaults\norigins: ['https://app.example.com']\n")
	f.Watch(4)
	told := func(a wiretest.Response, number int, code, param string) {
		t.Helper()
		if e := a.APIError(t); e.Number != number || e.Code != code || e.Param != param || e.RequestID != a.Header.Get("x-request-id") {
			t.Errorf("refused with %+v, want %d %s", e, number, code)
		}
	}
	told(f.ExpectRefused("nobody", 404), 40002, "model_not_found", "model")
	told(f.ExpectRefused("demo-chat", 400), 40001, "invalid_request", "model")
	told(f.ExpectRefused("demo-realtime&model=demo-chat", 400), 40001, "invalid_request", "model")
	told(f.ExpectRefused("demo-realtime", 403, "Origin", "https://evil.example.com"), 40303, "origin_not_allowed", "")
	told(f.ExpectRefused("demo-realtime", 403, "Origin", "null"), 40303, "origin_not_allowed", "")
	plain, err := f.Client.Get(f.URL() + "/realtime?model=demo-realtime")
	if err != nil || plain.StatusCode != 400 {
		t.Fatalf("without a handshake: %v, %v", plain, err)
	}
	plain.Body.Close()

	one, two := f.DialRealtime("demo-realtime", "Origin", "https://app.example.com"), f.DialRealtime("demo-realtime")
	one.Hear("session.created")
	two.Hear("session.created")
	if a, b := one.Header.Get("x-colonnade-colo"), two.Header.Get("x-colonnade-colo"); a == b {
		t.Errorf("both sessions are in %s, which has one slot", a)
	}
	full := f.ExpectRefused("demo-realtime", 429, "x-colonnade-queue", "never")
	told(full, 42902, "out_of_capacity", "")
	if full.Header.Get("x-colonnade-reason") != "busy" || full.Header.Get("retry-after") == "" {
		t.Errorf("headers of a refusal: %v", full.Header)
	}
	// A session waits in the queue like any other request.
	go func() {
		time.Sleep(50 * time.Millisecond)
		two.HangUp(1000, "")
	}()
	three := f.DialRealtime("demo-realtime", "x-colonnade-queue", "wait")
	three.Hear("session.created")
	for _, s := range []fleettest.Session{one, three} {
		s.HangUp(1000, "")
		s.ExpectClose(1000, "")
	}
}

// Before the upgrade, a session is tried again like any other request.
func TestRealtimeTriesAgain(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1), Colos: []string{"ams"}, Engines: 2}, "")
	f.Watch(4)
	first := func(fault string) fleettest.Session {
		t.Helper()
		f.Engine("ams").SetFault(simengine.Fault{Fault: fault, Count: 1})
		defer f.Engine("ams").ClearFaults()
		for range 4 { // until the first of the two is chosen
			s := f.DialRealtime("demo-realtime")
			s.Hear("session.created")
			s.HangUp(1000, "")
			s.ExpectClose(1000, "")
			if s.Header.Get("x-colonnade-attempts") == "2" {
				return s
			}
		}
		t.Fatalf("%s: no session was tried twice", fault)
		return fleettest.Session{}
	}
	first(simengine.FaultRefuse)
	first(simengine.FaultError500)
	first(simengine.FaultMalformedHead)

	f.InjectFault(simengine.FaultError400, 1)
	if a := f.ExpectRefused("demo-realtime", 400); !strings.Contains(a.Body, "on purpose") {
		t.Errorf("an engine's refusal reads %q", a.Body)
	}
	for _, e := range f.Engines {
		e.Simulated.ClearFaults()
	}
}

// Browsers can set no header: their key comes as a subprotocol, and goes no further.
func TestRealtimeKeyInSubprotocol(t *testing.T) {
	t.Parallel()
	key, doc := accounts.NewKey("alice", "", time.Now(), time.Time{})
	seen := make(chan *http.Request, 4)
	engine := echoEngine(t, seen)
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1), Colos: []string{"ams"}}, fmt.Sprintf(`
key: keys/%s
account: alice
sha256: "%x"
---
key: models/echo
type: realtime
---
key: endpoints/ams/echo
url: %s
pool: echo
concurrency: 1
paths: {/v1/realtime: /speak}
names: {echo: echo/1+more}
`, doc.ID, doc.SHA256, engine))
	f.WatchShared(4)
	d := websocket.Dialer{HandshakeTimeout: testkit.Timeout, Subprotocols: []string{"realtime", "openai-insecure-api-key." + key, "openai-beta.realtime-v1"}}
	c, answer, err := d.Dial(f.RealtimeURL("echo"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := fleettest.Session{Conn: c, T: t, Header: answer.Header}
	if c.Subprotocol() != "realtime" {
		t.Errorf("subprotocol %q", c.Subprotocol())
	}
	for kind, want := range map[int]string{websocket.TextMessage: "text \u00e4", websocket.BinaryMessage: "\x00\xff\x01"} {
		if err := c.WriteMessage(kind, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, message, err := c.ReadMessage(); err != nil || got != kind || string(message) != want {
			t.Errorf("%q came back as %d %q, %v", want, got, message, err)
		}
	}
	s.HangUp(1000, "")
	s.ExpectClose(1000, "")
	request, inference := f.LastEvents(s.Header.Get("x-request-id"))
	if request.Account != "alice" || inference.Account != "alice" {
		t.Errorf("the accounts are %q and %q", request.Account, inference.Account)
	}
	r := <-seen
	if r.URL.Path != "/speak" || r.URL.Query().Get("model") != "echo/1+more" || r.Header.Get("Sec-Websocket-Protocol") != "realtime" {
		t.Errorf("the engine was asked for %s with %v", r.URL, r.Header)
	}
	if all := fmt.Sprint(r.Header, r.URL); strings.Contains(all, key) || strings.Contains(strings.ToLower(all), "x-colonnade") {
		t.Errorf("the engine was told too much: %s", all)
	}
}

// echoEngine answers each message with itself.
func echoEngine(t *testing.T, seen chan<- *http.Request) string {
	t.Helper()
	var up websocket.Upgrader
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !websocket.IsWebSocketUpgrade(r) {
			return // a health check
		}
		seen <- r
		c, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			kind, message, err := c.ReadMessage()
			if err != nil || c.WriteMessage(kind, message) != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// A fleet that ends tells its sessions so, once their time is over.
func TestRealtimeDrain(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started, ended := make(chan *onebox.Fleet, 1), make(chan error, 1)
	go func() {
		ended <- onebox.Run(ctx, onebox.Config{
			Listen: "127.0.0.1:0", Etcd: "127.0.0.1:0", Open: true, Dir: t.TempDir(), Drain: 300 * time.Millisecond,
			Colos: []string{"ams"}, Engines: 1, Engine: fleettest.QuickEngine(1),
		}, func(f *onebox.Fleet) { started <- f })
	}()
	f := &fleettest.Fleet{Fleet: <-started, T: t}
	s := f.DialRealtime("demo-realtime")
	s.Hear("session.created")
	cancel()
	s.ExpectClose(1001, "")
	if err := <-ended; err != nil {
		t.Errorf("the fleet ended with: %v", err)
	}
	_, inference := f.LastEvents(s.Header.Get("x-request-id"))
	if !inference.Partial {
		t.Errorf("inference event %+v", inference)
	}
}
