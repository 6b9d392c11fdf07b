package hops_test

import (
	"fmt"
	"strings"
	"testing"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
)

// A body above the model's forward_below crosses one way only, and so do requests of a model that allows one hop, and realtime sessions.
// They are served all the same.
func TestWhatDoesNotTravel(t *testing.T) {
	t.Parallel()
	const small, oneHop, session = "small-bodies", "one-hop", "sessions"
	f := startFar(t, fleettest.SteadyEngine(2), noSpill, modelDocument(small, "retry: {forward_below: 1KiB}\n")+modelDocument(oneHop, "retry: {hops: 1}\n")+
		strings.Replace(modelDocument(session, "type: realtime\n"), "demo-chat", "demo-realtime", 1))
	f.fill("ams")
	padded := func(model string, size int) string {
		body := chat(model, 1, false)
		return strings.Replace(body, "hello", strings.Repeat("a", size-len(body)+len("hello")), 1)
	}
	for n, c := range []struct {
		body   string
		onward bool
	}{
		{padded(small, 1024), true}, {padded(small, 1025), false}, {padded(onward, 256<<10), true}, {padded(onward, 256<<10+1), false},
		{padded(oneHop, 100), false}, {padded(walk, 100), false},
	} {
		id := fmt.Sprintf("stays-where-%d", n)
		f.expectServed(f.RawChat(c.body, "x-request-id: "+id), "ams, fra")
		want := []string{"request entry-1 completed", "inference fra-1 completed"}
		if c.onward {
			want = append(want, "forward ams-1 completed")
		}
		f.expectEvents(id, want...)
	}
	s := f.DialRealtime(session, "x-request-id", "stays-session")
	if h := s.Header; h.Get("x-colonnade-colo") != "fra" || h.Get("x-colonnade-colo-path") != "ams, fra" {
		t.Errorf("the session has the header %v", h)
	}
	s.HangUp(1000, "")
	s.ExpectClose(1000, "")
	s.Close()
	f.freeSoon("fra")
	f.FinalEvent(analytics.KindRequest, "stays-session")
	f.FinalEvent(analytics.KindInference, "stays-session")
	if n := len(f.FinalEvents(analytics.KindForward, "stays-session")); n > 0 {
		t.Errorf("the session was forwarded by %d colos", n)
	}
}
