package streams_test

import (
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
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

// A session is relayed both ways, holds a slot, and passes the close code on; its events have what was said.
func TestSessionIsRelayed(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1)}, realtimeModels)
	f.Watch(4)
	s := f.DialRealtime("talk", "User-Agent", "test/1")
	created := s.Hear("session.created")
	if got := created["session"].(map[string]any)["model"]; got != "demo-realtime" {
		t.Errorf("the engine was asked for %v", got)
	}
	colo := s.Header.Get("x-colonnade-colo")
	if s.Header.Get("x-colonnade-attempts") != "1" || s.Header.Get("x-colonnade-queued-ms") != "0" {
		t.Errorf("headers of the response: %v", s.Header)
	}
	if st := f.Engine(colo).Stats(); st.Running != 1 {
		t.Errorf("the engine has %d sessions", st.Running)
	}
	for _, name := range []string{"voice", "talk", "demo-realtime"} {
		s.Say(`{"type":"session.update","session":{"model":"` + name + `"}}`)
		s.Hear("session.updated")
	}
	s.Say(`{"type":"conversation.item.create","item":{"content":[{"type":"input_text","text":"echo: four words of mine"}]}}`)
	if err := s.WriteMessage(websocket.BinaryMessage, []byte(`{"type":"response.create"}`)); err != nil {
		t.Fatal(err)
	}
	if got := s.Hear("response.output_text.done")["text"]; got != "four words of mine" {
		t.Errorf("the engine said %v", got)
	}
	s.Hear("response.done")

	// The session has the only slot of its colo.
	want := 200
	if len(f.Colos) == 1 {
		want = 429
	}
	if a := f.Chat(fleettest.ChatBody(1, false), "x-colonnade-queue", "never"); a.Status != want || a.Header.Get("x-colonnade-colo") == colo {
		t.Errorf("beside the session: %d from %s", a.Status, a.Header.Get("x-colonnade-colo"))
	}
	s.HangUp(4001, "enough")
	s.ExpectClose(4001, "")
	if got := f.Engine(colo).Stats().CloseCode; got != 4001 {
		t.Errorf("the engine got close code %d", got)
	}
	s.Close()

	request, inference := f.LastEvents(s.Header.Get("x-request-id"))
	for _, e := range []analytics.Event{request, inference} {
		if e.Outcome != analytics.OutcomeCompleted || !e.WebSocket || e.Model != "voice" || e.Status != 101 || e.BytesIn == 0 || e.BytesOut == 0 || e.Partial {
			t.Errorf("%s event: %+v", e.Kind, e)
		}
	}
	if inference.MessagesIn != 5 || inference.MessagesOut < 6 || inference.Reason != "close_4001" {
		t.Errorf("inference event: %+v", inference)
	}
}

// Before the upgrade, a session is retried like any other request.
func TestSessionRetriedBeforeUpgrade(t *testing.T) {
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
		t.Fatalf("%s: no session was retried", fault)
		return fleettest.Session{}
	}
	first(simengine.FaultRefuse)
	first(simengine.FaultError500)
	first(simengine.FaultMalformedHead)

	f.InjectFault(simengine.FaultError400, 1)
	if a := f.ExpectRefused("demo-realtime", 400); !strings.Contains(a.Body, "on purpose") {
		t.Errorf("an engine's refusal reads %q", a.Body)
	}
	f.ClearFaults()
}
