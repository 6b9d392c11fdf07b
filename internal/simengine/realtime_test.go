package simengine_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

type session struct {
	*websocket.Conn
	t *testing.T
}

func openSession(t *testing.T, addr string) session {
	t.Helper()
	d := websocket.Dialer{HandshakeTimeout: patience, Subprotocols: []string{"realtime"}}
	c, resp, err := d.Dial("ws://"+addr+"/v1/realtime?model=m", nil)
	if err != nil {
		t.Fatalf("%v, %v", err, resp)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(patience))
	return session{c, t}
}

// next reads one event.
func (s session) next(want string) map[string]any {
	s.t.Helper()
	_, data, err := s.ReadMessage()
	if err != nil {
		s.t.Fatalf("%v, waiting for %s", err, want)
	}
	m := decode(s.t, string(data))
	if m["type"] != want {
		s.t.Fatalf("got %s, want %s", data, want)
	}
	return m
}

func (s session) say(event string) {
	s.t.Helper()
	if err := s.WriteMessage(websocket.TextMessage, []byte(event)); err != nil {
		s.t.Fatal(err)
	}
}

// end reads until the connection has ended, and returns why.
func (s session) end() error {
	for {
		if _, _, err := s.ReadMessage(); err != nil {
			return err
		}
	}
}

func (s session) closes(code int, reason string) {
	s.t.Helper()
	msg := websocket.FormatCloseMessage(code, reason)
	if err := s.WriteControl(websocket.CloseMessage, msg, time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
}

func TestRealtime(t *testing.T) {
	c := fast()
	c.Tokens = 3
	c.Slots = 1
	e, addr := start(t, c)
	s := openSession(t, addr)
	if got := s.Subprotocol(); got != "realtime" {
		t.Errorf("subprotocol %q", got)
	}
	if got := dig(s.next("session.created"), "session", "model"); got != "m" {
		t.Errorf("the session's model is %v", got)
	}
	if st := e.Stats(); st.Running != 1 {
		t.Errorf("stats %+v: an open session must hold a slot", st)
	}
	s.say(`{"type":"session.update","session":{"instructions":"be brief"}}`)
	if got := dig(s.next("session.updated"), "session", "instructions"); got != "be brief" {
		t.Errorf("instructions %v", got)
	}
	s.say(`nonsense`)
	s.next("error")
	s.say(`{"type":"conversation.item.create","item":{"content":[{"type":"input_text","text":"echo: four words of mine"}]}}`)
	s.next("conversation.item.added")
	s.say(`{"type":"response.create"}`)
	s.next("response.created")
	var deltas strings.Builder
	for range 4 {
		deltas.WriteString(s.next("response.output_text.delta")["delta"].(string))
	}
	if got := s.next("response.output_text.done")["text"]; got != "four words of mine" || deltas.String() != got {
		t.Errorf("the deltas are %q, the whole text %q", deltas.String(), got)
	}
	if got := dig(s.next("response.done"), "response", "usage", "output_tokens"); got != 4.0 {
		t.Errorf("output_tokens %v", got)
	}
	s.closes(4001, "enough")
	var frame *websocket.CloseError
	if err := s.end(); !errors.As(err, &frame) || frame.Code != 4001 {
		t.Errorf("the session ended with %v", err)
	}
	if st := e.Stats(); st.Running != 0 || st.Served != 1 || st.CloseCode != 4001 {
		t.Errorf("stats %+v", st)
	}
}

func TestRealtimeClosesWithACode(t *testing.T) {
	e, addr := start(t, fast())
	s := openSession(t, addr)
	s.say(`{"type":"simengine.close","code":4002,"reason":"on request"}`)
	var frame *websocket.CloseError
	if err := s.end(); !errors.As(err, &frame) || frame.Code != 4002 || frame.Text != "on request" {
		t.Errorf("the session ended with %v", err)
	}
	waitForStats(t, e, "it is served", func(st simengine.Stats) bool { return st.Running == 0 && st.Served == 1 })
}

// A client that does not answer the close frame does not keep the session.
func TestRealtimeClosesWithoutTheClientsCloseFrame(t *testing.T) {
	_, addr := start(t, fast())
	s := openSession(t, addr)
	s.SetCloseHandler(func(int, string) error { return nil })
	s.say(`{"type":"simengine.close","code":4002}`)
	_ = s.end()
	if _, err := io.Copy(io.Discard, s.NetConn()); err != nil {
		t.Errorf("the connection was not closed: %v", err)
	}
}

func TestRealtimeClientLeaves(t *testing.T) {
	e, addr := start(t, simengine.Config{TTFT: -1, ITL: time.Hour})
	for n, leave := range []func(session){
		func(s session) { s.NetConn().Close() },
		func(s session) { _ = s.NetConn().(*net.TCPConn).CloseWrite() },
		func(s session) { // while the engine is blocked in a write
			e.SetFault(simengine.Fault{Fault: simengine.FaultEndlessLine, Count: 1})
			defer s.NetConn().Close()
			other := openSession(t, addr)
			other.say(`{"type":"response.create"}`)
			time.Sleep(20 * time.Millisecond)
			_ = other.NetConn().(*net.TCPConn).CloseWrite()
		},
	} {
		s := openSession(t, addr)
		s.next("session.created")
		s.say(`{"type":"response.create"}`)
		s.next("response.created")
		leave(s)
		want := uint64(n + 1)
		if n == 2 {
			want++
		}
		waitForStats(t, e, "it is aborted", func(st simengine.Stats) bool { return st.Running == 0 && st.Aborted == want })
	}
}

func TestRealtimeRefusals(t *testing.T) {
	e, addr := start(t, fast())
	f := func(fault string, status int) {
		t.Helper()
		e.SetFault(simengine.Fault{Fault: fault, Count: 1})
		_, resp, err := websocket.DefaultDialer.Dial("ws://"+addr+"/v1/realtime?model=m", nil)
		if err == nil {
			t.Fatalf("%s: upgraded", fault)
		}
		if status == 0 && resp != nil || status != 0 && (resp == nil || resp.StatusCode != status) {
			t.Errorf("%s: %v with %v, want status %d", fault, err, resp, status)
		}
	}
	f(simengine.FaultRefuse, 0)
	f(simengine.FaultFull, http.StatusServiceUnavailable)
	f(simengine.FaultError500, http.StatusInternalServerError)
	f(simengine.FaultMalformedHead, 0)
	if status, _ := testkit.Get("http://" + addr + "/v1/realtime?model=m"); status != http.StatusBadRequest {
		t.Errorf("without an upgrade: %d", status)
	}
}

func TestRealtimeFaults(t *testing.T) {
	// How the session ends after response.create, by what comes first.
	f := func(fault string, code int, events string) {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			c := fast()
			c.Tokens = 5
			e, addr := start(t, c)
			e.SetFault(simengine.Fault{Fault: fault})
			s := openSession(t, addr)
			s.SetReadLimit(1 << 20)
			_ = s.SetReadDeadline(time.Now().Add(2 * time.Second))
			_ = s.WriteMessage(websocket.TextMessage, []byte(`{"type":"response.create"}`))
			var got strings.Builder
			var err error
			for err == nil {
				var data []byte
				if _, data, err = s.ReadMessage(); err == nil {
					got.WriteString(shortType(decode(t, string(data))["type"].(string)))
				}
			}
			if got.String() != events {
				t.Errorf("events %q, want %q", got.String(), events)
			}
			var frame *websocket.CloseError
			if errors.As(err, &frame) != (code != 0) || frame != nil && frame.Code != code {
				t.Errorf("ended with %v, want code %d", err, code)
			}
			s.Close()
			waitForStats(t, e, "it is over", func(st simengine.Stats) bool { return st.Running == 0 })
		})
	}
	const abnormal = websocket.CloseAbnormalClosure
	f(simengine.FaultFullInStream, websocket.CloseTryAgainLater, "E")
	f(simengine.FaultStallStream, 0, "sr...")
	f(simengine.FaultCutAtChunk, abnormal, "sr...")
	f(simengine.FaultCutInChunk, abnormal, "sr...")
	f(simengine.FaultNoDone, websocket.CloseNormalClosure, "sr...")
	f(simengine.FaultErrorThenDone, 0, "sr...EtD")
	f(simengine.FaultCloseIdle, abnormal, "sr.....tD")
	f(simengine.FaultEndlessLine, 0, "sr...")
	f(simengine.FaultBigAnswer, 0, "sr...")
}

func shortType(name string) string {
	switch name {
	case "session.created":
		return "s"
	case "response.created":
		return "r"
	case "response.output_text.delta":
		return "."
	case "response.output_text.done":
		return "t"
	case "response.done":
		return "D"
	case "error":
		return "E"
	}
	return "?"
}
