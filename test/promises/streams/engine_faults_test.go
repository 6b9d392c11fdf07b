package streams_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// shortTimeouts are models whose timeouts a test can wait for.
const shortTimeouts = `
key: models/brief
upstream_name: demo-chat
pool: demo
timeouts: {total: 1s}
---
key: models/lively
upstream_name: demo-chat
pool: demo
timeouts: {first_byte: 500ms, idle: 500ms}
`

// ending is the end of a request as its client sees it.
type ending struct {
	model   string // other than demo-chat
	status  int
	number  int    // of the error in the body, or in the last event of a stream
	reason  string // in its header, and in the error
	cut     bool   // by the end of the connection
	engines uint64 // at most so many get the request
}

var (
	served   = ending{status: 200, engines: 1}
	refused  = ending{status: 400, engines: 1}
	relayed  = ending{status: 200, engines: 1}
	cutShort = ending{status: 200, cut: true, engines: 1}
	// One endpoint in each colo is tried; a request that broke two is not given a third.
	noAnswer  = ending{status: 502, number: 50001, reason: "no_answer", engines: 2}
	badStatus = ending{status: 502, number: 50001, reason: "engine_status", engines: 2}
	// After full endpoints the other colo is tried, then those with room to wait, within the budget.
	full = ending{status: 429, number: 42902, engines: 4}
	// Nothing is retried after the first byte from an engine, even if the client has not seen it.
	cutPlain   = ending{status: 502, number: 50001, reason: "truncated", engines: 1}
	cutStream  = ending{status: 200, number: 50001, reason: "truncated", cut: true, engines: 1}
	noFirst    = ending{model: "lively", status: 504, number: 50401, reason: "first_byte_timeout", engines: 1}
	outOfTime  = ending{model: "brief", status: 504, number: 50401, reason: "total_timeout", engines: 1}
	endless    = ending{model: "brief", status: 200, cut: true, engines: 1}
	idleStream = ending{model: "lively", status: 200, number: 50401, reason: "idle_timeout", cut: true, engines: 1}
)

// faultEndings are how plain and streamed chats end when every engine has a fault.
var faultEndings = []struct {
	fault           string
	plain, streamed ending
}{
	{simengine.FaultRefuse, noAnswer, noAnswer},
	{simengine.FaultFull, full, full},
	{simengine.FaultFull429, full, full},
	{simengine.FaultFullInStream, full, full},
	{simengine.FaultError400, refused, refused},
	{simengine.FaultError500, badStatus, badStatus},
	{simengine.FaultHTMLError, badStatus, badStatus},
	{simengine.FaultStallHead, outOfTime, noFirst},
	{simengine.FaultStallStream, outOfTime, idleStream},
	{simengine.FaultCutAtChunk, cutPlain, cutStream},
	{simengine.FaultCutInChunk, cutPlain, cutStream},
	{simengine.FaultNoDone, served, cutStream},
	{simengine.FaultErrorThenDone, badStatus, relayed},
	{simengine.FaultErrorThenCut, cutPlain, cutShort},
	{simengine.FaultShortBody, cutPlain, served}, // only [DONE] marks the end of a stream
	{simengine.FaultCutUnframed, cutPlain, cutStream},
	{simengine.FaultAfterEnd, served, served},
	{simengine.FaultMalformedHead, noAnswer, noAnswer},
	{simengine.FaultBothLengths, noAnswer, noAnswer},
	{simengine.FaultFlood1xx, noAnswer, noAnswer},
	// An event without an end is cut at 16 MiB, another response without an end at its timeout.
	{simengine.FaultEndlessLine, endless, cutStream},
	{simengine.FaultSlow, served, served},
	{simengine.FaultPingFirst, served, served},
	{simengine.FaultCloseIdle, served, served},
}

// The client of an engine with any of the faults gets an exact response in bounded time, and the next request is served.
func TestEngineFaults(t *testing.T) {
	t.Parallel()
	c := onebox.Config{Engine: fleettest.QuickEngine(4)}
	if fleettest.Serve() {
		c.Engines = 2 // so that a request can be tried again, as in a second colo
	}
	f := fleettest.Start(t, c, shortTimeouts)
	f.WatchShared(8)
	for _, h := range faultEndings {
		for _, stream := range []bool{false, true} {
			want := h.plain
			if stream {
				want = h.streamed
			}
			t.Run(fmt.Sprintf("%s/stream=%v", h.fault, stream), func(t *testing.T) {
				withFault(t, f, h.fault, stream, want)
			})
		}
	}
	for _, e := range f.Engines {
		if n := e.Simulated.Stats().Reused; n > 0 {
			t.Errorf("engine %s: %d requests on a connection that must not be reused", e.ID, n)
		}
	}
}

// withFault sends a request while all engines have a fault, and two when they have none.
func withFault(t *testing.T, f *fleettest.Fleet, fault string, stream bool, want ending) {
	f.InjectFault(fault, 0)
	before := f.EngineRequests()
	w := wiretest.Dial(t, f.Entry.Address)
	w.Post("/v1/chat/completions", strings.Replace(fleettest.ChatBody(8, stream), "demo-chat", cmp.Or(want.model, "demo-chat"), 1))
	a := w.Read()
	f.ClearFaults()
	want.check(t, w, a)
	if n := f.EngineRequests() - before; n < 1 || n > want.engines {
		t.Errorf("reached engines %d times, want at most %d", n, want.engines)
	}
	for _, stream := range []bool{false, true} {
		if next := f.Chat(fleettest.ChatBody(8, stream)); next.Status != 200 || next.Err != nil || !strings.Contains(next.Body, "every") {
			t.Errorf("the next request: %d %v %.300q", next.Status, next.Err, next.Body)
		}
	}
}

// check compares a response, and the end of its connection, with an ending.
func (want ending) check(t testing.TB, w *wiretest.Conn, a wiretest.Response) {
	t.Helper()
	if a.Status != want.status || (a.Err != nil) != want.cut {
		t.Errorf("status %d, ended with %v: want %+v; %.300q", a.Status, a.Err, want, a.Body)
	}
	if want.cut {
		if how := w.End(); how != "closed" {
			t.Errorf("the connection ended: %s", how)
		}
	}
	if want.number == 0 {
		return
	}
	var e wiretest.APIError
	if want.status != 200 {
		e = a.APIError(t)
		if got := a.Header.Get("x-colonnade-reason"); got != e.Reason {
			t.Errorf("x-colonnade-reason: %q, in the body %q", got, e.Reason)
		}
		if got := a.Header.Get("x-should-retry") == "false"; got != (want.status != 429) {
			t.Errorf("x-should-retry: %q", a.Header.Get("x-should-retry"))
		}
	} else {
		last := readEvents(t, a.Body[strings.LastIndex(strings.TrimSuffix(a.Body, "\n\n"), "\n\n")+2:])
		e = last[0].apiError(t)
	}
	if e.Number != want.number || want.reason != "" && e.Reason != want.reason || e.RequestID != a.Header.Get("x-request-id") {
		t.Errorf("error %+v, want number %d and reason %q", e, want.number, want.reason)
	}
	if want.status == 429 && (e.Reason == "" || e.RetryAfterMS < 1000 || a.Header.Get("retry-after") == "" || a.Header.Get("retry-after-ms") == "") {
		t.Errorf("the reason or Retry-After is missing: %+v %v", e, a.Header)
	}
}
