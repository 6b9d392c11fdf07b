package fallbacks_test

import (
	"fmt"
	"strings"
	"testing"

	"colonnade/analytics"
	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
)

// Each model of a request is asked once; then the request waits for the one with the shortest expected wait. If all are full, the client
// gets the refusal of the model that it has asked for, with the smallest Retry-After of all.
func TestAllModelsFull(t *testing.T) {
	t.Parallel()
	full := func(retryAfter int) string {
		return fmt.Sprintf("ooc;reason=queue_full;number=42902;retry_after_ms=%d", retryAfter)
	}
	busy := func(expected int) string {
		return fmt.Sprintf("ooc;reason=busy;number=42902;retry_after_ms=9000;expected_ms=%d;may_wait=1", expected)
	}
	const late = "ooc;reason=queue_timeout;number=42902;retry_after_ms=6000"
	cases := []struct {
		name   string
		says   [2]string // to a request that may not wait for long
		long   string    // to one that may; empty = it is served
		queue  string    // the client's x-colonnade-queue
		waits  [2]string // how each colo is asked
		status int
		want   string // in the body
		model  string // of the event
	}{
		{"all full", [2]string{full(7000), full(3000)}, full(3000), "", [2]string{"spill", "full"}, 429, `"reason":"queue_full","retry_after_ms":3000`, "first"},
		{"the first has room to wait", [2]string{busy(900), full(5000)}, "", "", [2]string{"spill full", "spill"}, 200, `"from":"one`, "first"},
		{"the fallback waits less", [2]string{busy(900), busy(200)}, "", "", [2]string{"spill", "spill full"}, 200, `"from":"two`, "second"},
		{"both waits fail", [2]string{busy(900), busy(200)}, late, "", [2]string{"spill full", "spill full"}, 429, `"reason":"queue_timeout","retry_after_ms":6000`, "first"},
		{"never", [2]string{busy(900), busy(800)}, "", "never", [2]string{"never", "never"}, 429, `"reason":"busy"`, "first"},
		{"wait", [2]string{busy(900), busy(800)}, "", "wait", [2]string{"full", ""}, 200, `"from":"one`, "first"},
		{"the first is down", [2]string{"ooc;reason=no_endpoint;number=50301;retry_after_ms=1000", full(4000)}, full(4000), "", [2]string{"spill", "full"}, 503, `"retry_after_ms":4000`, "first"},
	}
	colos, documents := make([][2]*fleettest.StubColo, len(cases)), ""
	for n, c := range cases { // colos of its own for each case, since an entry remembers which were full
		documents += fmt.Sprintf("key: models/first-%[1]d\npool: demo\nrouting: {steps: [{colos: [one-%[1]d]}]}\nfallback: [second-%[1]d]\n---\n"+
			"key: models/second-%[1]d\npool: demo\nrouting: {steps: [{colos: [two-%[1]d]}]}\n---\n", n)
		for i, name := range []string{"one", "two"} {
			var own string
			name = fmt.Sprintf("%s-%d", name, n)
			colos[n][i], own = fleettest.StartStubColo(t, name, name+"-1", func(w hop.Wait) string {
				if w == hop.WaitFull && (c.says[i] == busy(900) || c.says[i] == busy(200) || c.says[i] == busy(800)) {
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
			id := fmt.Sprintf("all-full-%d", n)
			headers := []string{"x-request-id", id}
			if c.queue != "" {
				headers = append(headers, "x-colonnade-queue", c.queue)
			}
			a := f.In(t).Chat(fmt.Sprintf(`{"model":"first-%d","messages":[]}`, n), headers...)
			if a.Status != c.status || !strings.Contains(a.Body, c.want) {
				t.Errorf("answer %d %q, want %d with %s", a.Status, a.Body, c.status, c.want)
			}
			for i, s := range colos[n] {
				if got := strings.Join(s.Waits(), " "); got != c.waits[i] {
					t.Errorf("colo %d was asked %q, want %q", i+1, got, c.waits[i])
				}
			}
			if e := f.In(t).FinalEvent(analytics.KindRequest, id); e.Model != fmt.Sprintf("%s-%d", c.model, n) || (e.RequestedModel != "") != (c.model == "second") {
				t.Errorf("the event has the model %q, asked for %q", e.Model, e.RequestedModel)
			}
		})
	}
}
