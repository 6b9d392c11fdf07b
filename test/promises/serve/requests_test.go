package serve_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
)

// Plain and streamed answers, realtime sessions and refusals are those of a fleet, and so are their events.
func TestRequestsAndEvents(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, inTest(fleettest.SteadyEngine(1)), "key: pools/demo\nqueue: {limit: 1, per_account: 1, max_wait: 1m}\n")
	f.WatchShared(2)
	stream := f.BeginChat(fleettest.ChatBody(40, true), "x-request-id: the-stream")
	stream.ReadUntil("data:", 1)
	waiting := f.Enqueue(1, "x-request-id: the-waiter")
	refused := f.RawChat(fleettest.ChatBody(1, false), "x-request-id: the-refused")
	fleettest.OutOfCapacity.WithReason("account_queue_full").Expect(t, refused)
	if rest, err := stream.ReadChunked(); err != nil || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the stream ended with %v: %q", err, rest)
	}
	if a := waiting.Read(); a.Status != http.StatusOK || a.Header.Get("x-colonnade-colo") != "ams" || a.Header.Get("x-colonnade-attempts") != "1" {
		t.Errorf("the waiting request got %d %v %s", a.Status, a.Header, a.Body)
	}
	s := f.DialRealtime("demo-realtime", "x-request-id", "the-session")
	s.Hear("session.created")
	s.HangUp(websocket.CloseNormalClosure, "")
	for _, id := range []string{"the-stream", "the-waiter", "the-session"} {
		request, inference := f.FinalEvent(analytics.KindRequest, id), f.FinalEvent(analytics.KindInference, id)
		if request.Outcome != analytics.OutcomeCompleted || inference.Outcome != analytics.OutcomeCompleted || inference.ColoID != "ams" || request.RequestID != inference.RequestID {
			t.Errorf("events of %s: %+v and %+v", id, request, inference)
		}
	}
	if e := f.FinalEvent(analytics.KindRequest, "the-refused"); e.Outcome != analytics.OutcomeRefused || e.Reason != "account_queue_full" {
		t.Errorf("event of the refused request: %+v", e)
	}
}

// A client that leaves frees its slot, whether it waits or reads.
func TestClientsLeave(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, inTest(fleettest.SteadyEngine(2)), "")
	f.WatchShared(4)
	blockers := f.BlockSlots(2)
	waiting := f.Enqueue(1)
	waiting.Leave(0)
	f.ExpectSoon("the queue to be empty", func() bool { return f.Pool("ams", "demo").Queued == 0 })
	for i, c := range blockers {
		c.Leave(i)
	}
	f.ExpectSoon("the slots to be free", func() bool { return f.Pool("ams", "demo").Held == 0 && f.RunningRequests() == 0 })
	if a := f.Chat(fleettest.ChatBody(3, true)); a.Status != http.StatusOK || !strings.HasSuffix(a.Body, "data: [DONE]\n\n") {
		t.Errorf("afterwards: %d %q", a.Status, a.Body)
	}
}

// The one admin listener has the pages of both parts, and Prometheus can tell their metrics apart.
func TestAdminPages(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, inTest(fleettest.QuickEngine(2)), "")
	f.Chat(fleettest.ChatBody(1, false))
	for _, page := range []string{"/health/live", "/health/ready", "/debug/check", "/debug/pools", "/debug/fleet", "/debug/config", "/debug/plan?model=demo-chat"} {
		r, err := f.Client.Get("http://" + f.Entry.Admin + page)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", page, r.Status)
		}
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(f.Page(f.Entry.Admin, "/metrics"))) {
		series := line[:max(strings.LastIndex(line, " "), 0)]
		if seen[series] && !strings.HasPrefix(line, "#") {
			t.Errorf("%s stands twice in /metrics", series)
		}
		seen[series] = true
	}
	for _, series := range []string{`colonnade_permits{pool="demo",role="colo"}`, `colonnade_connections{role="entry"}`} {
		if !seen[series] {
			t.Errorf("no %s in /metrics", series)
		}
	}
}
