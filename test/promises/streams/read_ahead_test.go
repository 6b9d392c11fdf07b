package streams_test

import (
	"strings"
	"testing"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// slowChat asks for a stream of 384 KiB: more than is buffered on the way to a client that does not read, and less than that with the backlog of
// the server with the permit.
func slowChat(tokens int) string {
	return strings.Replace(fleettest.ChatBody(tokens, true), "hello", "wide:16384 hello", 1)
}

// startOneSlot starts a fleet with one slot.
func startOneSlot(t *testing.T) *fleettest.Fleet {
	t.Helper()
	return fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1), Colos: []string{"ams"}, Drain: testkit.Timeout}, "")
}

// beginSlow begins a stream whose client reads nothing, and waits until its permit is released.
func beginSlow(f *fleettest.Fleet, body, id string) *wiretest.Conn {
	c := dialSlow(f.T, f.Entry.Address)
	c.Post("/v1/chat/completions", body, "x-request-id: "+id)
	testkit.WaitFor(f.T, "the engine to have said everything", func() bool {
		st := f.Engine("ams").Stats()
		return st.Bytes > 256<<10 && st.Running == 0
	})
	testkit.WaitFor(f.T, "the slot to be free", func() bool { return f.Pool("ams", "demo").Held == 0 })
	return c
}

// The slot of a stream is free once its engine has said everything, though its client has yet to read it. The client gets every byte.
func TestSlotIsFreeBeforeSlowReader(t *testing.T) {
	t.Parallel()
	f := startOneSlot(t)
	f.WatchShared(8)
	want := f.Chat(slowChat(24))
	slow := beginSlow(f, slowChat(24), "slow-reader")
	if n := len(f.FinalEvents(analytics.KindRequest, "slow-reader")); n != 0 {
		t.Errorf("%d final events of a request whose client has read nothing", n)
	}
	if a := f.Chat(fleettest.ChatBody(8, true)); a.Status != 200 || a.Err != nil {
		t.Errorf("the next request for the only slot: %d %v", a.Status, a.Err)
	}
	got := slow.Read()
	if text := textOf(readEvents(t, got.Body)); got.Err != nil || text != textOf(readEvents(t, want.Body)) || len(text) < 384<<10 {
		t.Errorf("%v after %d bytes, want %d", got.Err, len(got.Body), len(want.Body))
	}
	for _, kind := range []analytics.Kind{analytics.KindRequest, analytics.KindInference} {
		if e := f.FinalEvent(kind, "slow-reader"); e.Outcome != analytics.OutcomeCompleted || kind == analytics.KindInference && e.CompletionTokens != 24 {
			t.Errorf("%s: %+v", kind, e)
		}
	}
	if e := f.FinalEvent(analytics.KindInference, "slow-reader"); e.InferenceTime >= e.RequestTime {
		t.Errorf("the permit was held for %v of %v ms", e.InferenceTime, e.RequestTime)
	}
	slow.Close()
}

// A client that leaves without the rest is gone for the events, and pays for all that its engine has said.
func TestSlowReaderLeavesWithoutTheRest(t *testing.T) {
	t.Parallel()
	f := startOneSlot(t)
	f.WatchShared(8)
	beginSlow(f, slowChat(24), "leaves-without").Close()
	if e := f.FinalEvent(analytics.KindRequest, "leaves-without"); e.Outcome != analytics.OutcomeClientGone {
		t.Errorf("request: %+v", e)
	}
	// Sockets between the nodes may have taken everything, if there are no links: then the colo has completed it.
	e := f.FinalEvent(analytics.KindInference, "leaves-without")
	if e.Outcome != analytics.OutcomeClientGone && e.Outcome != analytics.OutcomeCompleted || e.CompletionTokens != 24 || e.TokensEstimated != 0 {
		t.Errorf("inference: %+v", e)
	}
	if a := f.Chat(fleettest.ChatBody(8, true)); a.Status != 200 || a.Err != nil {
		t.Errorf("the next request: %d %v", a.Status, a.Err)
	}
	if st := f.Pool("ams", "demo"); st.Held != 0 {
		t.Errorf("%d permits are held", st.Held)
	}
}

// A colo server that drains waits for the client that has yet to read the rest of its stream.
func TestDrainWaitsForSlowReader(t *testing.T) {
	t.Parallel()
	fleettest.NeedsFleet(t, "a colo server that ends before the entry")
	f := startOneSlot(t)
	slow := beginSlow(f, slowChat(24), "slow-reader")
	ended := f.EndNode("ams-1")
	testkit.WaitFor(t, "the drain to begin", func() bool { return !f.IsReady(f.Colos[0].Admin) })
	if got := slow.Read(); got.Err != nil || len(textOf(readEvents(t, got.Body))) < 384<<10 {
		t.Errorf("%v after %d bytes", got.Err, len(got.Body))
	}
	slow.Close()
	ended()
}
