package fleettest

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"testing"

	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
)

// BlockSlots takes all slots of the first engine of ams with requests that stay until their connections are closed.
func (f *Fleet) BlockSlots(slots int) (blockers []*wiretest.Conn) {
	f.T.Helper()
	f.Engine("ams").SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: slots})
	for range slots {
		blockers = append(blockers, f.BeginChat(ChatBody(1, false)))
	}
	testkit.WaitFor(f.T, "all slots to be taken", func() bool { return InFlight(f.Engine("ams")) == slots })
	return blockers
}

// Enqueue sends a request, and waits until so many wait in the demo's pool of ams.
func (f *Fleet) Enqueue(queued int, lines ...string) *wiretest.Conn {
	f.T.Helper()
	c := f.BeginChat(ChatBody(1, false), lines...)
	testkit.WaitFor(f.T, "the request to wait", func() bool { return f.Pool("ams", "demo").Queued == queued })
	return c
}

// ServeAll closes the blockers, and expects that all that wait are served.
func ServeAll(t testing.TB, blockers, waiting []*wiretest.Conn) {
	t.Helper()
	for _, c := range blockers {
		c.Close()
	}
	for n, c := range waiting {
		if a := c.Read(); a.Status != 200 {
			t.Errorf("waiter %d: %d %q", n, a.Status, a.Body)
		}
	}
}

// Refusal is what a refused client gets.
type Refusal struct {
	Status, Number     int
	Code, Type, Reason string
}

// OutOfCapacity is the refusal of a request for which there is no slot and no room or time to wait.
var OutOfCapacity = Refusal{Status: 429, Number: 42902, Code: "out_of_capacity", Type: "rate_limit_error"}

// WithReason returns the refusal with a reason.
func (r Refusal) WithReason(reason string) Refusal {
	r.Reason = reason
	return r
}

var ownRequestID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Expect compares all parts of a response on which clients may rely.
func (r Refusal) Expect(t testing.TB, a wiretest.Response) {
	t.Helper()
	e := a.APIError(t)
	if a.Status != r.Status || e.Number != r.Number || e.Code != r.Code || e.Type != r.Type || e.Reason != r.Reason || e.Message == "" {
		t.Errorf("refused with %d %+v, want %+v", a.Status, e, r)
	}
	var body struct{ Error map[string]any }
	if err := json.Unmarshal([]byte(a.Body), &body); err != nil {
		t.Errorf("body: %v", err)
	}
	for _, name := range []string{"message", "type", "param", "code", "number", "reason", "retry_after_ms", "request_id"} {
		if _, ok := body.Error[name]; !ok {
			t.Errorf("the error has no %s: %s", name, a.Body)
		}
	}
	if body.Error["param"] != nil {
		t.Errorf("param is %v, want null", body.Error["param"])
	}
	h := a.Header
	if h.Get("Content-Type") != "application/json" || h.Get("x-colonnade-reason") != r.Reason || h.Get("x-should-retry") != "" {
		t.Errorf("headers: %v", h)
	}
	if id := h.Get("x-request-id"); id != e.RequestID || !ownRequestID.MatchString(id) {
		t.Errorf("x-request-id is %q, in the body %q", id, e.RequestID)
	}
	if e.RetryAfterMS < 1000 || e.RetryAfterMS > 32000 || h.Get("retry-after-ms") != strconv.FormatInt(e.RetryAfterMS, 10) ||
		h.Get("retry-after") != strconv.Itoa(int(math.Ceil(float64(e.RetryAfterMS)/1000))) {
		t.Errorf("retry-after is %q, retry-after-ms %q, in the body %d", h.Get("retry-after"), h.Get("retry-after-ms"), e.RetryAfterMS)
	}
}
