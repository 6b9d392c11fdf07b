package onebox_test

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
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
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
	f := startFleet(t, onebox.Config{Engine: quick(1)}, realtimeModels)
	f.watch(4)
	s := f.dial("talk", "User-Agent", "test/1")
	created := s.hear("session.created")
	if got := created["session"].(map[string]any)["model"]; got != "demo-realtime" {
		t.Errorf("the engine was asked for %v", got)
	}
	colo := s.header.Get("x-colonnade-colo")
	if s.header.Get("x-colonnade-attempts") != "1" || s.header.Get("x-colonnade-queued-ms") != "0" {
		t.Errorf("headers of the answer: %v", s.header)
	}
	if st := f.engine(colo).Stats(); st.Running != 1 {
		t.Errorf("the engine has %d sessions", st.Running)
	}
	s.say(`{"type":"conversation.item.create","item":{"content":[{"type":"input_text","text":"echo: four words of mine"}]}}`)
	if err := s.WriteMessage(websocket.BinaryMessage, []byte(`{"type":"response.create"}`)); err != nil {
		t.Fatal(err)
	}
	if got := s.hear("response.output_text.done")["text"]; got != "four words of mine" {
		t.Errorf("the engine said %v", got)
	}
	s.hear("response.done")

	// The session has the only slot of its colo, for as long as it lasts.
	if a := f.chat(chatBody(1, false)); a.Status != 200 || a.Header.Get("x-colonnade-colo") == colo {
		t.Errorf("beside the session: %d from %s", a.Status, a.Header.Get("x-colonnade-colo"))
	}
	s.hangUp(4001, "enough")
	s.ends(4001, "")
	if got := f.engine(colo).Stats().CloseCode; got != 4001 {
		t.Errorf("the engine was told close code %d", got)
	}
	s.Close()

	request, inference := f.lastEvents(s.header.Get("x-request-id"))
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
	f := startFleet(t, onebox.Config{Engine: quick(1), Colos: []string{"ams"}}, "")
	f.watchBeside(4)
	s := f.dial("demo-realtime")
	s.hear("session.created")
	s.say(`{"type":"simengine.close","code":4002,"reason":"as told"}`)
	s.ends(4002, "as told")

	// An engine that is lost gives the client a close code, and is not asked a second time.
	for _, fault := range []string{simengine.FaultCutAtChunk, simengine.FaultCutInChunk} {
		f.fault(fault, 1)
		s = f.dial("demo-realtime")
		s.say(`{"type":"response.create"}`)
		s.ends(1011, "the inference engine failed")
		_, inference := f.lastEvents(s.header.Get("x-request-id"))
		if inference.Outcome != analytics.OutcomeEngineError || !inference.Partial || inference.MessagesOut == 0 {
			t.Errorf("%s: inference event %+v", fault, inference)
		}
	}
	f.fault(simengine.FaultFullInStream, 1)
	s = f.dial("demo-realtime")
	s.ends(1013, "no room")
}

// However a client leaves, its permit and the engine's slot are free a moment later: the next session is on the same.
func TestRealtimeClientLost(t *testing.T) {
	f := startFleet(t, onebox.Config{Engine: quick(1), Colos: []string{"ams"}}, "")
	f.watch(4)
	reset := func(s realtime) {
		_ = s.NetConn().(*net.TCPConn).SetLinger(0)
		s.Close()
	}
	for name, leave := range map[string]func(realtime){
		"closed":      func(s realtime) { s.Close() },
		"reset":       reset,
		"half-closed": func(s realtime) { _ = s.NetConn().(*net.TCPConn).CloseWrite() },
		"in a frame": func(s realtime) {
			_, _ = s.NetConn().Write([]byte{0x81, 0xfe, 0x10, 0, 1, 2, 3, 4, '{'})
			s.Close()
		},
		"while it is spoken to": func(s realtime) {
			s.say(`{"type":"response.create","response":{"max_output_tokens":100000}}`)
			s.hear("response.output_text.delta")
			reset(s)
		},
		"while it takes nothing": func(s realtime) {
			f.fault(simengine.FaultEndlessLine, 1)
			s.hangUp(1000, "")
			s.ends(1000, "")
			other := f.dial("demo-realtime")
			other.say(`{"type":"response.create"}`)
			time.Sleep(100 * time.Millisecond)
			reset(other)
		},
	} {
		s := f.dial("demo-realtime")
		s.hear("session.created")
		leave(s)
		testkit.WaitFor(t, name+": the engine to be idle", func() bool { return f.engine("ams").Stats().Running == 0 })
		if st := f.engine("ams").Stats(); st.CloseCode != 1001 && st.Aborted == 0 {
			t.Errorf("%s: the engine was not told that its client has gone: %+v", name, st)
		}
		if name == "while it takes nothing" {
			continue
		}
		request, inference := f.lastEvents(s.header.Get("x-request-id"))
		if request.Outcome != analytics.OutcomeClientGone || inference.Outcome != analytics.OutcomeClientGone || !inference.Partial {
			t.Errorf("%s: outcomes %s and %s", name, request.Outcome, inference.Outcome)
		}
	}
	if a := f.chat(chatBody(1, false), "x-colonnade-queue", "never"); a.Status != 200 {
		t.Errorf("the slot is not free: %d %s", a.Status, a.Body)
	}
}

func TestRealtimeRefusals(t *testing.T) {
	f := startFleet(t, onebox.Config{Engine: quick(1)}, "key: defaults\norigins: ['https://app.example.com']\n")
	f.watch(4)
	told := func(a answer, number int, code, param string) {
		t.Helper()
		if e := a.error(t); e.Number != number || e.Code != code || e.Param != param || e.RequestID != a.Header.Get("x-request-id") {
			t.Errorf("refused with %+v, want %d %s", e, number, code)
		}
	}
	told(f.refuse("nobody", 404), 40002, "model_not_found", "model")
	told(f.refuse("demo-chat", 400), 40001, "invalid_request", "model")
	told(f.refuse("demo-realtime&model=demo-chat", 400), 40001, "invalid_request", "model")
	told(f.refuse("demo-realtime", 403, "Origin", "https://evil.example.com"), 40303, "origin_not_allowed", "")
	told(f.refuse("demo-realtime", 403, "Origin", "null"), 40303, "origin_not_allowed", "")
	plain, err := f.client.Get(f.URL() + "/realtime?model=demo-realtime")
	if err != nil || plain.StatusCode != 400 {
		t.Fatalf("without a handshake: %v, %v", plain, err)
	}
	plain.Body.Close()

	one, two := f.dial("demo-realtime", "Origin", "https://app.example.com"), f.dial("demo-realtime")
	one.hear("session.created")
	two.hear("session.created")
	if a, b := one.header.Get("x-colonnade-colo"), two.header.Get("x-colonnade-colo"); a == b {
		t.Errorf("both sessions are in %s, which has one slot", a)
	}
	full := f.refuse("demo-realtime", 429, "x-colonnade-queue", "never")
	told(full, 42902, "out_of_capacity", "")
	if full.Header.Get("x-colonnade-reason") != "busy" || full.Header.Get("retry-after") == "" {
		t.Errorf("headers of a refusal: %v", full.Header)
	}
	// A session waits in the queue like any other request.
	go func() {
		time.Sleep(50 * time.Millisecond)
		two.hangUp(1000, "")
	}()
	three := f.dial("demo-realtime", "x-colonnade-queue", "wait")
	three.hear("session.created")
	for _, s := range []realtime{one, three} {
		s.hangUp(1000, "")
		s.ends(1000, "")
	}
}

// Before the upgrade, a session is tried again like any other request.
func TestRealtimeTriesAgain(t *testing.T) {
	f := startFleet(t, onebox.Config{Engine: quick(1), Colos: []string{"ams"}, Engines: 2}, "")
	f.watch(4)
	first := func(fault string) realtime {
		t.Helper()
		f.engine("ams").SetFault(simengine.Fault{Fault: fault, Count: 1})
		defer f.engine("ams").ClearFaults()
		for range 4 { // until the first of the two is chosen
			s := f.dial("demo-realtime")
			s.hear("session.created")
			s.hangUp(1000, "")
			s.ends(1000, "")
			if s.header.Get("x-colonnade-attempts") == "2" {
				return s
			}
		}
		t.Fatalf("%s: no session was tried twice", fault)
		return realtime{}
	}
	first(simengine.FaultRefuse)
	first(simengine.FaultError500)
	first(simengine.FaultMalformedHead)

	f.fault(simengine.FaultError400, 1)
	if a := f.refuse("demo-realtime", 400); !strings.Contains(a.Body, "on purpose") {
		t.Errorf("an engine's refusal reads %q", a.Body)
	}
	for _, e := range f.Engines {
		e.Simulated.ClearFaults()
	}
}

// Browsers can set no header: their key comes as a subprotocol, and goes no further.
func TestRealtimeKeyInSubprotocol(t *testing.T) {
	t.Parallel()
	key, doc := accounts.NewKey("", time.Now(), time.Time{})
	seen := make(chan *http.Request, 4)
	engine := echoEngine(t, seen)
	f := startFleet(t, onebox.Config{Engine: quick(1), Colos: []string{"ams"}}, fmt.Sprintf(`
key: accounts/alice
keys: [{id: %s, sha256: "%x"}]
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
	f.watchBeside(4)
	d := websocket.Dialer{HandshakeTimeout: patience, Subprotocols: []string{"realtime", "openai-insecure-api-key." + key, "openai-beta.realtime-v1"}}
	c, answer, err := d.Dial(f.realtimeURL("echo"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := realtime{Conn: c, t: t, header: answer.Header}
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
	s.hangUp(1000, "")
	s.ends(1000, "")
	request, inference := f.lastEvents(s.header.Get("x-request-id"))
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
			Colos: []string{"ams"}, Engines: 1, Engine: quick(1),
		}, func(f *onebox.Fleet) { started <- f })
	}()
	f := &testFleet{Fleet: <-started, t: t}
	s := f.dial("demo-realtime")
	s.hear("session.created")
	cancel()
	s.ends(1001, "")
	if err := <-ended; err != nil {
		t.Errorf("the fleet ended with: %v", err)
	}
	_, inference := f.lastEvents(s.header.Get("x-request-id"))
	if !inference.Partial {
		t.Errorf("inference event %+v", inference)
	}
}
