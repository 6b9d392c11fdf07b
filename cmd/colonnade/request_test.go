package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/testkit"
)

const followedID = "0123456789abcdef0123456789abcdef"

func milli(n float64) analytics.Milliseconds { return analytics.Milliseconds(n * 1e6) }

// retried is a request that two servers refused before one engine broke off and another has answered. The clock of ams-1 is ahead by skew.
func retried(skew time.Duration) []analytics.Event {
	at := func(ms int) time.Time {
		return time.Date(2026, 11, 23, 3, 0, 0, 0, time.Local).Add(time.Duration(ms) * time.Millisecond)
	}
	e := analytics.Event{RequestID: followedID, Phase: analytics.PhaseEnd, Account: "acme", Key: "laptop", Model: "llama", Pool: "p"}
	request, first := e, e
	request.EventID, request.Kind, request.Node, request.ColoID = "1", analytics.KindRequest, "edge-1", "ams"
	request.ColoPath = []string{"ams/ams-1", "fra/fra-1", "ams/ams-1"}
	request.Time, request.RequestTime, request.QueuingTime, request.TimeToFirstToken = at(2000), milli(2000), milli(300), milli(1200)
	request.Status, request.Outcome, request.Attempts = 200, analytics.OutcomeCompleted, 2
	first.EventID, first.Kind, first.Node, first.ColoID, first.ColoPath = "2", analytics.KindInference, "ams-1", "ams", []string{"ams/ams-1"}
	second := first
	second.EventID = "3"
	first.Endpoint, first.Attempts, first.Time, first.RequestTime, first.InferenceTime = "gpu-1", 1, at(900).Add(skew), milli(800), milli(500)
	first.QueuingTime, first.Status, first.Outcome, first.Code, first.Reason = milli(300), 502, analytics.OutcomeEngineError, "engine_error", "engine_status"
	second.Endpoint, second.Attempts, second.Time, second.RequestTime, second.InferenceTime = "gpu-2", 2, at(1990).Add(skew), milli(1890), milli(1090)
	second.QueuingTime, second.TimeToFirstToken, second.Status, second.Outcome = milli(300), milli(1090), 200, analytics.OutcomeCompleted
	return []analytics.Event{second, request, first, first} // in any order, one twice
}

func drawn(events []analytics.Event, width int) string {
	s := &screen{width: width}
	drawRequests(s, followRequests(events))
	return s.String()
}

// The picture of a request does not change with the clock of a node, but for the note on clocks and the places of bars.
func TestRequestPicture(t *testing.T) {
	const want = `request 0123456789abcdef0123456789abcdef
2026-11-23 03:00:00.000  account acme  key laptop  model llama
ams-1: 502 engine_error (engine_status): the engine answered with a status that means failure (408, 409, 424, 5xx)

NODE    WHAT                                            QUEUED  DISPATCHED  FIRST BYTE    END
edge-1  entry           ░░░░░▒▒▒▒▒▒▒▒▒▒▒▒▒████████████   300ms           -       1.20s  2.00s  200
ams-1   ams, no permit                                       -           -           -      -
fra-1   fra, no permit                                       -           -           -      -
ams-1   ams/gpu-1         ░░░░▒▒▒▒▒▒▒▒                   300ms       300ms           -  800ms  502 engine_error
ams-1   ams/gpu-2                     ▒▒▒▒████████████       -           -       290ms  1.09s  200
░ queued  ▒ waits for the first byte  █ answer; each hop counts its times from its own begin
`
	if got := drawn(retried(0), 0); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, skew := range []time.Duration{time.Hour, -time.Hour, 300 * time.Millisecond, -300 * time.Millisecond} {
		got := drawn(retried(skew), 0)
		note := "the clocks of the nodes differ: hops are placed by their order\n"
		if !strings.HasSuffix(got, note) {
			t.Errorf("%v: no note on clocks:\n%s", skew, got)
		}
		if withoutBars(strings.TrimSuffix(got, note)) != withoutBars(want) {
			t.Errorf("%v: got\n%s\nwant\n%s", skew, got, want)
		}
	}
	for _, width := range []int{80, 140} {
		for line := range strings.Lines(drawn(retried(0), width)) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("a line has %d columns, more than %d: %s", n, width, line)
			}
		}
	}
}

func withoutBars(text string) string {
	before, legend, _ := strings.Cut(text, "░ queued")
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if strings.ContainsRune("░▒█", r) {
			return -1
		}
		return r
	}, before)), " ") + legend
}

// Whatever the clocks of nodes say, hops come in the order of the path, begin within the request, and end within it if they fit.
func TestHopsAreNeverNonsense(t *testing.T) {
	r := rand.New(rand.NewPCG(testkit.Seed(t), 3))
	for range 2000 {
		events := retried(time.Duration(r.Int64N(int64(4*time.Second))) - 2*time.Second)
		r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		q := followRequests(events[:1+r.IntN(len(events))])[0]
		var order []string
		for i := range q.Hops {
			h := &q.Hops[i]
			order = append(order, h.Node)
			if h.Offset < 0 || h.Queued < 0 || h.Dispatched < 0 || h.FirstByte < 0 || h.End < 0 {
				t.Fatalf("negative: %+v", h)
			}
			if all := q.Hops[0].End; q.Hops[0].Kind == analytics.KindRequest && h.Offset+h.End > all+milli(2) {
				t.Fatalf("%s ends after the request: %+v", h.Node, q.Hops)
			}
		}
		if got := strings.Join(order, " "); len(q.Hops) == 5 && got != "edge-1 ams-1 fra-1 ams-1 ams-1" {
			t.Fatalf("the order is %s", got)
		}
	}
}

// A process that was killed leaves a begin: the request has no end until the next start writes one.
func TestRequestOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, "ams-1")
	begin := retried(0)[2]
	begin.Phase, begin.Outcome, begin.Status, begin.Code, begin.Reason, begin.RequestTime, begin.InferenceTime = analytics.PhaseBegin, "", 0, "", "", 0, 0
	l.Append(&begin)
	entry := retried(0)[1]
	entry.Phase, entry.Outcome, entry.Status, entry.RequestTime, entry.ColoPath, entry.Node = analytics.PhaseBegin, "", 0, 0, nil, ""
	l.Append(&entry)
	run(t, "", "request", followedID, "-data-dir", dir).want(t, "has not ended: the request still runs, or the process was killed", "no end yet", "ams/gpu-1")
	if err := l.Close(); err != nil { // leaves the begins open, as a kill does
		t.Fatal(err)
	}
	openLog(t, dir, "ams-1")
	out := run(t, "", "request", followedID[:8], "-data-dir", dir).want(t, "ams-1: crashed: the process was killed while the request ran")
	if strings.Contains(out, "no end yet") {
		t.Errorf("got\n%s", out)
	}
	run(t, "", "usage", "-data-dir", dir).want(t, "acme            1        0       1           1")
}

// An id may be that of several requests, or of none.
func TestRequestIDs(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, "edge-1")
	for i := range 7 {
		e := ended(fmt.Sprintf("%031d%d", 0, i), "acme", analytics.OutcomeRefused)
		e.ClientRequestID, e.Reason, e.Status, e.Pool = "mine", "account_queue_full", 429, "p"
		l.Append(e)
	}
	f := func(shown int, texts ...string) {
		t.Helper()
		out := run(t, "", "request", "mine", "-data-dir", dir).want(t, texts...)
		if n := strings.Count(out, "account acme"); n != shown {
			t.Errorf("%d requests, want %d:\n%s", n, shown, out)
		}
	}
	f(5, "7 requests have this id; the newest 5 are shown", "429 refused (account_queue_full): the account's part of the queue (queue.per_account) has no room",
		"colonnade status -pool p shows who holds its slots")
	var page struct{ Requests []followedRequest }
	if err := json.Unmarshal([]byte(run(t, "", "request", "mine", "-json", "-data-dir", dir).want(t)), &page); err != nil || len(page.Requests) != 7 {
		t.Errorf("%d requests, %v", len(page.Requests), err)
	}
	run(t, "", "request", "none", "-data-dir", dir).fail(t, `no event has the request id "none"`)
	run(t, "", "request", "a", "b", "-data-dir", dir).fail(t, "one ID is expected, and there are 2")
	run(t, "", "request").fail(t, "colonnade request needs the ID of a request")
	run(t, "", "request", "x", "-data-dir", dir+"/x").fail(t, "no node keeps events there")
}
