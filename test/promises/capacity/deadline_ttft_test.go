package capacity_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// The engines take two seconds for a first token. A deadline below that leaves a busy machine time for everything else.
const (
	slowTTFT      = 2 * time.Second
	shortDeadline = "1550" // ms; 50 are kept for the way back
	ttftSlots     = 32
	retryTTFT     = 5 * time.Second // at most one request in so long is tried in spite of its deadline, and one in twice as long usually
)

// sampleTTFT sends n requests without a deadline at once, so that their times to the first token are known.
func sampleTTFT(f *fleettest.Fleet, n int, body string) {
	f.T.Helper()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if a := f.Chat(body); a.Status != 200 {
				f.T.Errorf("without a deadline: %d", a.Status)
			}
		})
	}
	all.Wait()
}

// expectTooLate expects a refusal for the deadline.
func expectTooLate(t *testing.T, what string, a wiretest.Response) {
	t.Helper()
	if e := a.APIError(t); a.Status != 429 || e.Number != 42902 || e.Reason != "deadline" || e.RetryAfterMS < 1000 ||
		a.Header.Get("x-colonnade-reason") != "deadline" {
		t.Errorf("%s: %d %+v, want 429 for its deadline", what, a.Status, e)
	}
}

// A request whose first byte cannot come before its deadline is refused and never sent to the engine; one with more time is
// served. Streams and plain requests have times of their own. Once the engine has become faster, requests are sent again.
func TestDeadlineBelowTTFT(t *testing.T) {
	t.Parallel()
	slow := simengine.Config{Slots: ttftSlots, TTFT: slowTTFT, ITL: -1}
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engine: slow}, "")
	f.WatchShared(2 * ttftSlots)
	engine := f.Engines[0].Simulated
	for _, stream := range []bool{true, false} {
		body := fleettest.ChatBody(8, stream)
		before := engine.Stats()
		began := time.Now()
		if a := f.Chat(body, "x-colonnade-deadline-ms", shortDeadline); a.Status != 504 {
			t.Errorf("stream %v, before any sample: %d, want that it is tried", stream, a.Status)
		}
		testkit.WaitFor(t, "the engine to be idle", func() bool { return f.RunningRequests() == 0 })
		if s := engine.Stats(); s.Requests > before.Requests+1 || s.Aborted-before.Aborted != s.Requests-before.Requests {
			t.Errorf("stream %v: the engine has seen %+v and before %+v, want one more aborted", stream, s, before)
		}
		sampleTTFT(f, ttftSlots/2, body)
		before = engine.Stats()
		var tried uint64
		for range 5 {
			if a := f.Chat(body, "x-colonnade-deadline-ms", shortDeadline); a.Status == 504 {
				tried++
			} else {
				expectTooLate(t, fmt.Sprintf("stream %v", stream), a)
			}
		}
		if most := uint64(time.Since(began) / retryTTFT); tried > most {
			t.Errorf("stream %v: %d were tried, want at most %d after %v", stream, tried, most, time.Since(began))
		}
		if a := f.Chat(body, "x-colonnade-deadline-ms", "20000"); a.Status != 200 {
			t.Errorf("stream %v, with enough time: %d", stream, a.Status)
		}
		// On a busy machine, a request that was tried may not have come as far as the engine, or the engine has served it too late.
		if s := engine.Stats(); s.Served <= before.Served || s.Requests > before.Requests+1+tried ||
			s.Requests-before.Requests != s.Served-before.Served+s.Aborted-before.Aborted {
			t.Errorf("stream %v: the engine has seen %+v and before %+v, want one more served and at most %d others", stream, s, before, tried)
		}
	}
	engine.SetPace(time.Millisecond, -1)
	testkit.WaitFor(t, "a request to be tried at the faster engine", func() bool {
		f.Chat(fleettest.ChatBody(8, true)) // a sample
		return f.Chat(fleettest.ChatBody(8, true), "x-colonnade-deadline-ms", shortDeadline).Status == 200
	})
}

// A colo that is too slow for a request's deadline leaves the request to the next one.
func TestDeadlineBelowTTFTOfOneColo(t *testing.T) {
	t.Parallel()
	fleettest.NeedsFleet(t, "a second colo")
	f := fleettest.Start(t, onebox.Config{Engine: simengine.Config{Slots: ttftSlots, TTFT: slowTTFT, ITL: -1}},
		"key: models/ordered\npool: demo\nrouting: {steps: [{colos: [ams, fra]}]}\nupstream_name: demo-chat\n")
	f.WatchShared(2 * ttftSlots)
	slow, fast := f.Engines[0].Simulated, f.Engines[1].Simulated
	fast.SetPace(time.Millisecond, -1)
	body := strings.Replace(fleettest.ChatBody(8, true), "demo-chat", "ordered", 1)
	sampleTTFT(f, ttftSlots/2, body)
	before := slow.Stats().Requests
	if before < ttftSlots/2 {
		t.Fatalf("the first colo had %d requests, want all", before)
	}
	a := f.Chat(body, "x-colonnade-deadline-ms", shortDeadline)
	if a.Status != 200 || a.Header.Get("x-colonnade-colo") != "fra" || fast.Stats().Served != 1 {
		t.Errorf("answer %d from %q, want 200 from fra", a.Status, a.Header.Get("x-colonnade-colo"))
	}
	if n := slow.Stats().Requests; n != before {
		t.Errorf("the slow engine got %d more requests", n-before)
	}
}

// Once the deadline is past, no further colo is asked, and the refusal names the deadline.
func TestDeadlinePastAfterOneColo(t *testing.T) {
	t.Parallel()
	slow, slowDocs := fleettest.StartStubColo(t, "one", "one-1", func(hop.Wait) string {
		time.Sleep(300 * time.Millisecond)
		return "ooc;reason=busy;number=42902;retry_after_ms=7000;expected_ms=900;may_wait=1"
	})
	next, nextDocs := fleettest.StartStubColo(t, "two", "two-1", func(hop.Wait) string { return "" })
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4)}, slowDocs+nextDocs+
		"key: models/elsewhere\npool: demo\nrouting: {steps: [{colos: [one, two]}]}")
	f.WatchShared(8)
	const body = `{"model":"elsewhere","messages":[]}`
	a := f.Chat(body, "x-colonnade-deadline-ms", "340")
	expectTooLate(t, "a colo that takes all the time", a)
	if e := a.APIError(t); e.RetryAfterMS != 7000 {
		t.Errorf("Retry-After is %d ms, want the colo's", e.RetryAfterMS)
	}
	expectTooLate(t, "less than is kept for the way back", f.Chat(body, "x-stainless-timeout", "0.04"))
	if got := slow.Waits(); !slices.Equal(got, []string{"spill"}) || len(next.Waits()) > 0 {
		t.Errorf("the colos were asked %v and %v, want the first once", got, next.Waits())
	}
	if a := f.Chat(body, "x-colonnade-deadline-ms", "20000"); a.Status != 200 {
		t.Errorf("with enough time: %d", a.Status)
	}
}
