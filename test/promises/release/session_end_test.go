package release_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
)

// However a session ends, its permit is free within 500 ms, and its final event says how it ended. All the ways in which a
// session can end are tested in forwarding/realtime.
func TestSessionEndFreesPermit(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), "")
	f.WatchShared(4)
	partOfFrame := wiretest.Text(strings.Repeat("*", 4<<10)).Masked()[:1<<10]
	speak := wiretest.Text(`{"type":"response.create","response":{"max_output_tokens":1000}}`).Masked()
	reset := func(c *wiretest.Conn) { c.Leave(0) }
	for _, c := range []struct {
		name    string
		send    []byte
		leave   func(*wiretest.Conn) // what the client does then; nil = it waits
		fault   string               // of the engine, once it speaks
		outcome analytics.Outcome
		reason  string
	}{
		{name: "reset in mid-message", send: partOfFrame, leave: reset, outcome: analytics.OutcomeClientGone},
		{name: "closed in mid-message", send: partOfFrame, leave: func(c *wiretest.Conn) { c.Leave(1) }, outcome: analytics.OutcomeClientGone},
		{name: "half-closed", leave: func(c *wiretest.Conn) { _ = c.CloseWrite() }, outcome: analytics.OutcomeClientGone},
		{name: "reset while the engine speaks", send: speak, leave: reset, outcome: analytics.OutcomeClientGone},
		{name: "invalid text", send: wiretest.Text("\xff").Masked(), outcome: analytics.OutcomeRefused, reason: "not_utf8"},
		{name: "another model", send: wiretest.Text(`{"type":"session.update","model":"adapter"}`).Masked(), outcome: analytics.OutcomeRefused, reason: "foreign_model"},
		{name: "engine lost", send: speak, fault: simengine.FaultCutInChunk, outcome: analytics.OutcomeEngineError, reason: "truncated"},
	} {
		f.ClearFaults()
		if c.fault != "" { // a session takes it when it begins
			f.InjectFault(c.fault, 1)
		}
		id := strings.ReplaceAll("session "+c.name, " ", "-")
		w := f.Handshake("demo-realtime", "x-request-id: "+id)
		if fr, err := wiretest.ReadFrame(w.R); err != nil || !strings.Contains(fr.Payload, "session.created") {
			t.Fatalf("%s: began with %q, %v", c.name, fr.Payload, err)
		}
		_, _ = w.Write(c.send)
		if c.leave != nil {
			c.leave(w)
		}
		testkit.Within(t, 500*time.Millisecond, c.name+": the permit to be free", func() bool { return f.Pool("ams", "demo").Held == 0 })
		e := f.FinalEvent(analytics.KindInference, id)
		if e.Outcome != c.outcome || e.Reason != c.reason || !e.Partial || !e.WebSocket || e.MessagesOut == 0 {
			t.Errorf("%s: event %+v", c.name, e)
		}
		w.Close()
	}
	if a := f.Chat(fleettest.ChatBody(1, false), "x-colonnade-queue", "never"); a.Status != http.StatusOK {
		t.Errorf("the slot is not free: %d %s", a.Status, a.Body)
	}
}
