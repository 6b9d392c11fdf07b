package refusals_test

import (
	"fmt"
	"io"
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

// Every colo of the plan is asked once, and then one for the wait, if it has room for that; and if that was in vain,
// the next that has. If all are full, the client gets one answer, with the least time to come back in.
func TestAllColosFull(t *testing.T) {
	t.Parallel()
	full := func(retryAfter int) string {
		return fmt.Sprintf("ooc;reason=queue_full;number=42902;retry_after_ms=%d", retryAfter)
	}
	busy := func(expected int) string {
		return fmt.Sprintf("ooc;reason=busy;number=42902;retry_after_ms=9000;expected_ms=%d;may_wait=1", expected)
	}
	for _, c := range []struct {
		name   string
		says   [3]string // to a request that may not wait for long
		long   string    // to one that may; empty = it is served
		queue  string    // the client's header
		waits  [3]string // how each colo is asked
		status int
		want   string // in the body
	}{
		{"all full", [3]string{full(7000), full(3000), full(5000)}, full(5000), "", [3]string{"spill", "spill", "full"}, 429, `"retry_after_ms":3000`},
		{"one has room to wait", [3]string{full(7000), busy(900), full(5000)}, "", "", [3]string{"spill", "spill full", "spill"}, 200, `"from":"two"`},
		{"the shortest wait", [3]string{busy(900), busy(800), busy(200)}, "", "", [3]string{"spill", "spill", "spill full"}, 200, `"from":"three"`},
		{"the wait was too long", [3]string{busy(900), busy(800), full(4000)}, "ooc;reason=queue_timeout;number=42902;retry_after_ms=6000;may_wait=1", "",
			[3]string{"spill full", "spill full", "spill"}, 429, `"reason":"queue_timeout","retry_after_ms":4000`},
		{"never", [3]string{busy(900), busy(800), full(4000)}, "", "never", [3]string{"never", "never", "never"}, 429, `"retry_after_ms":4000`},
		{"wait", [3]string{busy(900), busy(800), full(4000)}, "", "wait", [3]string{"full", "", ""}, 200, `"from":"one"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var colos [3]*fleettest.StubColo
			documents := "key: models/elsewhere\npool: demo\nrouting: {steps: [{colos: [one, two, three]}]}\n---\n"
			for i, name := range []string{"one", "two", "three"} {
				var own string
				colos[i], own = fleettest.StartStubColo(t, name, name+"-1", func(w hop.Wait) string {
					if w == hop.WaitFull {
						return c.long
					}
					return c.says[i]
				})
				documents += own
			}
			f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, strings.TrimSuffix(documents, "---\n"))
			f.WatchShared(8)
			var headers []string
			if c.queue != "" {
				headers = []string{"x-colonnade-queue", c.queue}
			}
			a := f.Chat(`{"model":"elsewhere","messages":[]}`, headers...)
			if a.Status != c.status || !strings.Contains(a.Body, c.want) {
				t.Errorf("answer %d %q, want %d with %s", a.Status, a.Body, c.status, c.want)
			}
			for i, s := range colos {
				if got := strings.Join(s.Waits(), " "); got != c.waits[i] {
					t.Errorf("colo %d was asked %q, want %q", i+1, got, c.waits[i])
				}
			}
			if a.Status != 429 {
				return
			}
			if e := a.APIError(t); e.Number != 42902 || e.Code != "out_of_capacity" || e.Type != "rate_limit_error" ||
				e.Message != openai.OutOfCapacity(e.Reason, 0).Message || a.Header.Get("x-colonnade-reason") != e.Reason {
				t.Errorf("error %+v %v", e, a.Header)
			}
			seconds := fmt.Sprint((a.APIError(t).RetryAfterMS + 999) / 1000)
			if a.Header.Get("retry-after") != seconds || a.Header.Get("retry-after-ms") != fmt.Sprint(a.APIError(t).RetryAfterMS) {
				t.Errorf("headers say another time than the body: %v", a.Header)
			}
		})
	}
}

// A colo that is full spills over to the next; when all are, a request waits, in one of them, for the next slot; when
// nobody lets it wait, it is refused at once and reaches no engine.
func TestSpillOver(t *testing.T) {
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
		t.Errorf("never to queue: %d %+v %v", a.Status, e, a.Header)
	}
	if n := f.EngineRequests() - before; n != 0 {
		t.Errorf("%d engines were asked for a request that got no permit", n)
	}
	if a = f.Chat(fleettest.ChatBody(8, false), "x-colonnade-queue", "perhaps"); a.Status != 400 || a.APIError(t).Number != 40001 {
		t.Errorf("x-colonnade-queue: perhaps: %d", a.Status)
	}
	waiting := make(chan wiretest.Response, 1)
	go func() { waiting <- f.Chat(fleettest.ChatBody(8, false)) }()
	testkit.WaitFor(t, "the request to wait", func() bool {
		return strings.Contains(metrics(f, "ams")+metrics(f, "fra"), `inference_queue_length{pool="demo"} 1`)
	})
	first()
	a = <-waiting
	if a.Status != 200 || a.Header.Get("x-colonnade-queued-ms") == "0" || a.Header.Get("x-colonnade-attempts") != "1" {
		t.Errorf("after the wait: %d %v", a.Status, a.Header)
	}
	second()
}

// metrics reads what a colo server shows.
func metrics(f *fleettest.Fleet, colo string) string {
	f.T.Helper()
	for _, n := range f.Colos {
		if n.Colo != colo {
			continue
		}
		r, err := f.Client.Get("http://" + n.Admin + "/metrics")
		if err != nil {
			f.T.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			f.T.Fatal(err)
		}
		return string(text)
	}
	f.T.Fatalf("no colo %s", colo)
	return ""
}
