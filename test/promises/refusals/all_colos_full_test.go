package refusals_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
	"colonnade/openai"
)

// Each colo of the plan is asked once; then the request waits at one that has room, and if it is not served there, at the
// next. If all are full, the client gets one refusal, with the smallest Retry-After.
func TestAllColosFull(t *testing.T) {
	t.Parallel()
	full := func(retryAfter int) string {
		return fmt.Sprintf("ooc;reason=queue_full;number=42902;retry_after_ms=%d", retryAfter)
	}
	busy := func(expected int) string {
		return fmt.Sprintf("ooc;reason=busy;number=42902;retry_after_ms=9000;expected_ms=%d;may_wait=1", expected)
	}
	cases := []struct {
		name   string
		says   [3]string // to a request that may not wait for long
		long   string    // to one that may; empty = it is served
		queue  string    // the client's x-colonnade-queue
		waits  [3]string // how each colo is asked
		status int
		want   string // in the body
	}{
		{"all full", [3]string{full(7000), full(3000), full(5000)}, full(5000), "", [3]string{"spill", "spill", "full"}, 429, `"retry_after_ms":3000`},
		{"one has room to wait", [3]string{full(7000), busy(900), full(5000)}, "", "", [3]string{"spill", "spill full", "spill"}, 200, `"from":"two`},
		{"the shortest wait", [3]string{busy(900), busy(800), busy(200)}, "", "", [3]string{"spill", "spill", "spill full"}, 200, `"from":"three`},
		{"the wait was too long", [3]string{busy(900), busy(800), full(4000)}, "ooc;reason=queue_timeout;number=42902;retry_after_ms=6000;may_wait=1", "",
			[3]string{"spill full", "spill full", "spill"}, 429, `"reason":"queue_timeout","retry_after_ms":4000`},
		{"never", [3]string{busy(900), busy(800), full(4000)}, "", "never", [3]string{"never", "never", "never"}, 429, `"retry_after_ms":4000`},
		{"wait", [3]string{busy(900), busy(800), full(4000)}, "", "wait", [3]string{"full", "", ""}, 200, `"from":"one`},
	}
	colos, documents := make([][3]*fleettest.StubColo, len(cases)), ""
	for n, c := range cases { // colos of its own for each case, since an entry remembers which were full
		documents += fmt.Sprintf("key: models/elsewhere-%[1]d\npool: demo\nrouting: {steps: [{colos: [one-%[1]d, two-%[1]d, three-%[1]d]}]}\n---\n", n)
		for i, name := range []string{"one", "two", "three"} {
			var own string
			name = fmt.Sprintf("%s-%d", name, n)
			colos[n][i], own = fleettest.StartStubColo(t, name, name+"-1", func(w hop.Wait) string {
				if w == hop.WaitFull {
					return c.long
				}
				return c.says[i]
			})
			documents += own
		}
	}
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(4)), strings.TrimSuffix(documents, "---\n"))
	f.WatchShared(8)
	for n, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var headers []string
			if c.queue != "" {
				headers = []string{"x-colonnade-queue", c.queue}
			}
			a := f.In(t).Chat(fmt.Sprintf(`{"model":"elsewhere-%d","messages":[]}`, n), headers...)
			if a.Status != c.status || !strings.Contains(a.Body, c.want) {
				t.Errorf("answer %d %q, want %d with %s", a.Status, a.Body, c.status, c.want)
			}
			for i, s := range colos[n] {
				if got := strings.Join(s.Waits(), " "); got != c.waits[i] {
					t.Errorf("colo %d was asked %q, want %q", i+1, got, c.waits[i])
				}
			}
			if a.Status == 429 {
				expectOneRefusal(t, a)
			}
		})
	}
}

// expectOneRefusal expects that a refusal for full colos is consistent in itself.
func expectOneRefusal(t *testing.T, a wiretest.Response) {
	t.Helper()
	e := a.APIError(t)
	if e.Number != 42902 || e.Code != "out_of_capacity" || e.Type != "rate_limit_error" ||
		e.Message != openai.OutOfCapacity(e.Reason, 0).Message || a.Header.Get("x-colonnade-reason") != e.Reason {
		t.Errorf("error %+v %v", e, a.Header)
	}
	seconds := fmt.Sprint((e.RetryAfterMS + 999) / 1000)
	if a.Header.Get("retry-after") != seconds || a.Header.Get("retry-after-ms") != fmt.Sprint(e.RetryAfterMS) {
		t.Errorf("Retry-After differs between the headers and the body: %v", a.Header)
	}
}

// Requests for a full colo go to the next one. When all are full, a request waits in one of them for the next slot; one that must
// not wait is refused at once and reaches no engine.
func TestSpillOver(t *testing.T) {
	fleettest.NeedsFleet(t, "a second colo")
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(2)}, "")
	f.Watch(8)
	f.InjectFault(simengine.FaultStallStream, 0)
	first := f.HoldStreams(t, 2)
	if got := []int{f.Engine("ams").Stats().Running, f.Engine("fra").Stats().Running}; !slices.Equal(got, []int{2, 0}) {
		t.Fatalf("running %v, want the first colo to be filled first", got)
	}
	f.ClearFaults()
	a := f.Chat(fleettest.ChatBody(8, false))
	if a.Status != 200 || a.Header.Get("x-colonnade-colo") != "fra" || a.Header.Get("x-colonnade-attempts") != "1" {
		t.Errorf("beside a full colo: %d %v, want 200 from fra at the first attempt", a.Status, a.Header)
	}
	f.InjectFault(simengine.FaultStallStream, 0)
	second := f.HoldStreams(t, 2)
	f.ClearFaults()
	before := f.EngineRequests()
	a = f.Chat(fleettest.ChatBody(8, false), "x-colonnade-queue", "never")
	if e := a.APIError(t); a.Status != 429 || e.Number != 42902 || e.Reason != "busy" || e.RetryAfterMS < 1000 || a.Header.Get("x-colonnade-attempts") != "0" {
		t.Errorf("x-colonnade-queue: never: %d %+v %v", a.Status, e, a.Header)
	}
	if n := f.EngineRequests() - before; n != 0 {
		t.Errorf("%d engines got a request without a permit", n)
	}
	if a = f.Chat(fleettest.ChatBody(8, false), "x-colonnade-queue", "perhaps"); a.Status != 400 || a.APIError(t).Number != 40001 {
		t.Errorf("x-colonnade-queue: perhaps: %d", a.Status)
	}
	waiting := make(chan wiretest.Response, 1)
	go func() { waiting <- f.Chat(fleettest.ChatBody(8, false)) }()
	testkit.WaitFor(t, "the request to wait", func() bool {
		const waiting = `inference_queue_length{pool="demo"}`
		return f.Metric(f.Colos[0].Admin, waiting)+f.Metric(f.Colos[1].Admin, waiting) == 1
	})
	first()
	a = <-waiting
	if a.Status != 200 || a.Header.Get("x-colonnade-queued-ms") == "0" || a.Header.Get("x-colonnade-attempts") != "1" {
		t.Errorf("after the wait: %d %v", a.Status, a.Header)
	}
	second()
}
