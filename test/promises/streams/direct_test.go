package streams_test

import (
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/onebox"
)

// A colo in the same process serves a request as one behind a network does: plain and streamed answers, realtime sessions,
// refusals that make the entry go on to the next colo, each with its events. COLONNADE_DIRECT=1 runs all other tests so.
func TestColoInTheSameProcess(t *testing.T) {
	t.Parallel()
	fleettest.NeedsFleet(t, "two colos")
	f := fleettest.Start(t, onebox.Config{Direct: true, Engine: fleettest.SteadyEngine(1)}, realtimeModels)
	f.WatchShared(0)
	first := f.BeginChat(fleettest.ChatBody(60, true), "x-request-id: the-first")
	first.ReadUntil("data:", 1)
	second := f.BeginChat(fleettest.ChatBody(3, true), "x-request-id: the-second")
	rest, err := second.ReadChunked()
	if err != nil || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the second stream ended with %v: %q", err, rest)
	}
	one, two := f.FinalEvent(analytics.KindInference, "the-second"), f.FinalEvent(analytics.KindRequest, "the-second")
	if one.Outcome != analytics.OutcomeCompleted || two.Outcome != analytics.OutcomeCompleted || one.ColoID != two.ColoID {
		t.Errorf("events of the second: %+v and %+v, want both completed", one, two)
	}
	if rest, err = first.ReadChunked(); err != nil || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the first stream ended with %v", err)
	}
	if e := f.FinalEvent(analytics.KindInference, "the-first"); e.ColoID == one.ColoID {
		t.Errorf("both ran in %s, which has one slot", e.ColoID)
	}
	s := f.DialRealtime("voice")
	s.Hear("session.created")
	s.HangUp(websocket.CloseNormalClosure, "")
	for _, c := range f.Colos {
		if n := f.Metric(c.Admin, "colonnade_connections"); n != 0 {
			t.Errorf("the peer listener of %s has %v connections, want none", c.Node, n)
		}
	}
}
