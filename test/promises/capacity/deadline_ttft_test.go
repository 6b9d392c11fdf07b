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

// These engines take long for a first token; nothing else does, as long as the machine is not much slower than they are.
const (
	longBegin = 2 * time.Second
	tooSoon   = "1050" // ms; 50 are kept for the way back
	soonSlots = 32
)

// showPace has so many answers show how long they take, all at once. It returns what they were answered with.
func showPace(f *fleettest.Fleet, n int, body string) {
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

// tooLate wants a request refused for its deadline.
func tooLate(a wiretest.Response, t *testing.T, what string) {
	t.Helper()
	if e := a.APIError(t); a.Status != 429 || e.Number != 42902 || e.Reason != "deadline" || e.RetryAfterMS < 1000 ||
		a.Header.Get("x-colonnade-reason") != "deadline" {
		t.Errorf("%s: %d %+v, want 429 for its deadline", what, a.Status, e)
	}
}

// What an engine cannot begin in time any more is refused and never sent there; what it can is served; and an engine that
// has become faster is noticed. Streams and other answers have times of their own.
func TestTooLateForAnyEngine(t *testing.T) {
	t.Parallel()
	slow := simengine.Config{Slots: soonSlots, TTFT: longBegin, ITL: -1}
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engine: slow}, "")
	f.WatchShared(2 * soonSlots)
	engine := f.Engines[0].Simulated
	for _, stream := range []bool{true, false} {
		body := fleettest.ChatBody(8, stream)
		before := engine.Stats()
		if a := f.Chat(body, "x-colonnade-deadline-ms", tooSoon); a.Status != 504 {
			t.Errorf("stream %v, while nothing is known: %d, want that it is tried", stream, a.Status)
		}
		testkit.WaitFor(t, "the engine to be rid of it", func() bool { return f.RunningRequests() == 0 })
		if s := engine.Stats(); s.Aborted != before.Aborted+1 {
			t.Errorf("stream %v: the engine was left %d times, want once", stream, s.Aborted-before.Aborted)
		}
		showPace(f, soonSlots/2, body)
		before = engine.Stats()
		for range 5 {
			tooLate(f.Chat(body, "x-colonnade-deadline-ms", tooSoon), t, fmt.Sprintf("stream %v", stream))
		}
		if a := f.Chat(body, "x-colonnade-deadline-ms", "20000"); a.Status != 200 {
			t.Errorf("stream %v, with time enough: %d", stream, a.Status)
		}
		if s := engine.Stats(); s.Requests != before.Requests+1 || s.Served != before.Served+1 || s.Aborted != before.Aborted {
			t.Errorf("stream %v: the engine has seen %+v and before %+v, want one more served", stream, s, before)
		}
	}
	engine.SetPace(time.Millisecond, -1)
	f.Chat(fleettest.ChatBody(8, true)) // this shows it
	if a := f.Chat(fleettest.ChatBody(8, true), "x-colonnade-deadline-ms", tooSoon); a.Status != 200 {
		t.Errorf("a faster engine: %d, want that it is tried", a.Status)
	}
}

// A colo that is too slow for a request's deadline leaves it to one that may not be.
func TestTooLateForOneColo(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engine: simengine.Config{Slots: soonSlots, TTFT: longBegin, ITL: -1}},
		"key: models/ordered\npool: demo\nrouting: {steps: [{colos: [ams, fra]}]}\nupstream_name: demo-chat\n")
	f.WatchShared(2 * soonSlots)
	slow, fast := f.Engines[0].Simulated, f.Engines[1].Simulated
	fast.SetPace(time.Millisecond, -1)
	body := strings.Replace(fleettest.ChatBody(8, true), "demo-chat", "ordered", 1)
	showPace(f, soonSlots/2, body)
	before := slow.Stats().Requests
	if before < soonSlots/2 {
		t.Fatalf("the first colo had %d requests, want all", before)
	}
	a := f.Chat(body, "x-colonnade-deadline-ms", tooSoon)
	if a.Status != 200 || a.Header.Get("x-colonnade-colo") != "fra" || fast.Stats().Served != 1 {
		t.Errorf("answer %d from %q, want 200 from fra", a.Status, a.Header.Get("x-colonnade-colo"))
	}
	if n := slow.Stats().Requests; n != before {
		t.Errorf("the slow engine got %d more requests", n-before)
	}
}

// Once the deadline is past, no further colo is asked, and the client hears for what it was refused.
func TestTooLateForAnotherColo(t *testing.T) {
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
	tooLate(a, t, "a colo that takes all the time")
	if e := a.APIError(t); e.RetryAfterMS != 7000 {
		t.Errorf("to come back after %d ms, want what the colo has said", e.RetryAfterMS)
	}
	tooLate(f.Chat(body, "x-stainless-timeout", "0.04"), t, "less than is kept for the way back")
	if got := slow.Waits(); !slices.Equal(got, []string{"spill"}) || len(next.Waits()) > 0 {
		t.Errorf("the colos were asked %v and %v, want the first once", got, next.Waits())
	}
	if a := f.Chat(body, "x-colonnade-deadline-ms", "20000"); a.Status != 200 {
		t.Errorf("with time enough: %d", a.Status)
	}
}
