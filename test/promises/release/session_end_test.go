package release_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// However a session ends, its permit is free within half a second, and there is one event with what was said so far.
func TestRealtimePermitIsFreeAtOnce(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1), Colos: []string{"ams"}}, "")
	f.WatchShared(4)
	half := wiretest.Text(strings.Repeat("*", 4<<10)).Masked()[:1<<10]
	write := func(pieces ...[]byte) func(*wiretest.Conn) {
		return func(w *wiretest.Conn) {
			for _, p := range pieces {
				_, _ = w.Write(p)
			}
		}
	}
	flood := func(first, frames string) func(*wiretest.Conn) {
		return func(w *wiretest.Conn) {
			go func() { _, _ = io.Copy(io.Discard, w.R) }() // what it says back, so that it can go on
			_, _ = io.WriteString(w, first)
			many := strings.Repeat(frames, 1000)
			for range 1000 {
				if _, err := io.WriteString(w, many); err != nil {
					return
				}
			}
		}
	}
	speak := write(wiretest.Text(`{"type":"response.create","response":{"max_output_tokens":1000}}`).Masked())
	for _, c := range []struct {
		name           string
		act            func(*wiretest.Conn)
		outcome        analytics.Outcome
		reason         string
		leaves, resets bool   // the client closes, or resets, once it has acted
		fault          string // of the engine, once it speaks
	}{
		{name: "reset", act: write(), outcome: analytics.OutcomeClientGone, resets: true},
		{name: "reset in mid-message", act: write(half), outcome: analytics.OutcomeClientGone, resets: true},
		{name: "closed in mid-message", act: write(half), outcome: analytics.OutcomeClientGone, leaves: true},
		{name: "closed within the head of a frame", act: write(half[:1]), outcome: analytics.OutcomeClientGone, leaves: true},
		{name: "closed between fragments", act: write(wiretest.FirstText("{").Masked()), outcome: analytics.OutcomeClientGone, leaves: true},
		{name: "17 MiB", act: write(wiretest.Binary(strings.Repeat("*", 17<<20)).Masked()), outcome: analytics.OutcomeRefused, reason: "message_too_big"},
		{name: "a million fragments", act: flood("\x01\x80\x00\x00\x00\x00", "\x00\x81\x00\x00\x00\x00x"),
			outcome: analytics.OutcomeRefused, reason: "too_many_fragments"},
		{name: "a million pings", act: flood("", "\x89\x80\x00\x00\x00\x00"), outcome: analytics.OutcomeRefused, reason: "too_many_fragments"},
		{name: "no text", act: write(wiretest.Text("\xff").Masked()), outcome: analytics.OutcomeRefused, reason: "not_utf8"},
		{name: "engine dies in mid-message", act: speak, fault: simengine.FaultCutInChunk,
			outcome: analytics.OutcomeEngineError, reason: "cut_short"},
		{name: "engine dies between messages", act: speak, fault: simengine.FaultCutAtChunk,
			outcome: analytics.OutcomeEngineError, reason: "cut_short"},
	} {
		f.ClearFaults()
		if c.fault != "" { // a session takes it when it begins
			f.InjectFault(c.fault, 1)
		}
		w := f.Handshake("demo-realtime", "x-request-id: "+strings.ReplaceAll("session "+c.name, " ", "-"))
		if fr, err := wiretest.ReadFrame(w.R); err != nil || !strings.Contains(fr.Payload, "session.created") {
			t.Fatalf("%s: began with %q, %v", c.name, fr.Payload, err)
		}
		c.act(w)
		if c.resets {
			_ = w.SetLinger(0)
		}
		if c.resets || c.leaves {
			_ = w.Close()
		}
		testkit.Within(t, 500*time.Millisecond, c.name+": the permit to be free", func() bool { return f.Pool("ams", "demo").Held == 0 })
		e := f.FinalEvent(analytics.KindInference, strings.ReplaceAll("session "+c.name, " ", "-"))
		if e.Outcome != c.outcome || e.Reason != c.reason || !e.Partial || !e.WebSocket || e.MessagesOut == 0 {
			t.Errorf("%s: event %+v", c.name, e)
		}
		w.Close()
	}
	if a := f.Chat(fleettest.ChatBody(1, false), "x-colonnade-queue", "never"); a.Status != http.StatusOK {
		t.Errorf("the slot is not free: %d %s", a.Status, a.Body)
	}
}
