package refusals_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// eventStream is a streamed response with queue events.
type eventStream struct {
	*http.Response
	t     testing.TB
	br    *bufio.Reader
	lines []string // without the empty ones
	leave context.CancelFunc
}

// follow sends a request that asks for queue events.
func follow(f *fleettest.Fleet, path, body string, headers ...string) *eventStream {
	f.T.Helper()
	return followFor(f, testkit.Timeout, path, body, headers...)
}

// followFor is follow with a limit for the whole response.
func followFor(f *fleettest.Fleet, limit time.Duration, path, body string, headers ...string) *eventStream {
	f.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	f.T.Cleanup(cancel)
	r, err := f.Open(ctx, path, body, append(headers, fleettest.QueueEventsHeader...)...)
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(func() { r.Body.Close() })
	if got := r.Header.Get("Content-Type"); r.StatusCode != 200 || got != "text/event-stream" || r.Header.Get("x-request-id") == "" {
		f.T.Fatalf("answer %d %v", r.StatusCode, r.Header)
	}
	return &eventStream{Response: r, t: f.T, br: bufio.NewReader(r.Body), leave: cancel}
}

// next reads the next line that is not empty.
func (s *eventStream) next() (string, error) {
	for {
		line, err := s.br.ReadString('\n')
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			s.lines = append(s.lines, line)
			return line, nil
		}
		if err != nil {
			return "", err
		}
	}
}

// until reads to the first line with a prefix.
func (s *eventStream) until(prefix string) string {
	s.t.Helper()
	for {
		line, err := s.next()
		if err != nil {
			s.t.Fatalf("no line %q: %v, %q", prefix, err, s.lines)
		}
		if strings.HasPrefix(line, prefix) {
			return line
		}
	}
}

// rest reads to the end, and returns its error.
func (s *eventStream) rest() error {
	for {
		if _, err := s.next(); err != nil {
			return err
		}
	}
}

// served expects the response of an engine, with its proper end.
func (s *eventStream) served() {
	s.t.Helper()
	s.until("data: {\"id\"")
	s.until("data: [DONE]")
	if err := s.rest(); !errors.Is(err, io.EOF) {
		s.t.Errorf("the stream ended with %v", err)
	}
}

// refused expects an error event and then a cut.
func (s *eventStream) refused(number int, reason string) (data string) {
	s.t.Helper()
	data = strings.TrimPrefix(s.until("data: "), "data: ")
	var body struct{ Error wiretest.APIError }
	if err := json.Unmarshal([]byte(data), &body); err != nil {
		s.t.Fatal(err)
	}
	if e := body.Error; e.Number != number || e.Reason != reason || e.RequestID != s.Header.Get("x-request-id") || number == 42902 && e.RetryAfterMS < 1000 {
		s.t.Errorf("refused with %+v, want %d for %q", e, number, reason)
	}
	if err := s.rest(); !errors.Is(err, io.ErrUnexpectedEOF) {
		s.t.Errorf("the stream ended with %v, which may look complete", err)
	}
	return data
}

// silentEngine returns the URL of an engine that is healthy and never answers a request.
func silentEngine(t testing.TB) string {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A client that asks for queue events gets a stream at once, with comments on its place in the queue, and then the response or an
// error event. An error before a request can wait is a plain error.
func TestQueueEvents(t *testing.T) {
	t.Parallel()
	account, authorization := fleettest.AccountWithKey("acme", "")
	engine := silentEngine(t)
	c := fleettest.OneColo(fleettest.QuickEngine(1))
	f := fleettest.StartClosed(t, c, fmt.Sprintf(`key: pools/demo
queue: {limit: 2, per_account: 2, max_wait: 1m}
---
key: models/silent
---
key: endpoints/ams/silent
url: %[1]s
pool: silent
concurrency: 1
---
key: models/brief
---
key: pools/brief
queue: {max_wait: 300ms}
---
key: endpoints/ams/brief
url: %[1]s/brief
pool: brief
concurrency: 1
`, engine)+account)
	f.Key = strings.TrimPrefix(authorization, "Bearer ")
	f.WatchShared(5)
	testkit.WaitFor(t, "all pools to have an endpoint", func() bool {
		return f.Pool("ams", "silent").Free == 1 && f.Pool("ams", "brief").Free == 1
	})
	// It runs beside the subtests below.
	silent := followFor(f, 3*testkit.Timeout, "/chat/completions", strings.Replace(fleettest.ChatBody(1, true), "demo-chat", "silent", 1), "x-request-id", "the-silent")
	began := time.Now()
	testkit.WaitFor(t, "the request to hold the slot", func() bool { return f.Pool("ams", "silent").Free == 0 })
	queued := followFor(f, 3*testkit.Timeout, "/chat/completions", strings.Replace(fleettest.ChatBody(1, true), "demo-chat", "silent", 1))

	t.Run("plain errors", func(t *testing.T) { plainErrors(f) })
	t.Run("countdown", func(t *testing.T) { countdown(f, authorization) })
	t.Run("refusals", func(t *testing.T) { refusals(f, authorization) })
	t.Run("client leaves", func(t *testing.T) { leavesWaiting(f, authorization) })
	t.Run("no wait", func(t *testing.T) {
		s := follow(f, "/chat/completions", fleettest.ChatBody(3, true))
		s.served()
		if strings.HasPrefix(s.lines[0], ":") {
			t.Errorf("comments without a wait: %q", s.lines)
		}
		f.Engine("ams").SetFault(simengine.Fault{Fault: simengine.FaultError400, Count: 1})
		s = follow(f, "/chat/completions", fleettest.ChatBody(3, true), "x-request-id", "bad-to-the-engine")
		var body struct{ Error wiretest.APIError }
		if err := json.Unmarshal([]byte(strings.TrimPrefix(s.until("data: "), "data: ")), &body); err != nil || body.Error.Message == "" ||
			body.Error.Type != "BadRequestError" || !errors.Is(s.rest(), io.ErrUnexpectedEOF) {
			t.Errorf("the engine's refusal was sent as %q, %v", s.lines, err)
		}
		if e := f.FinalEvent(analytics.KindRequest, "bad-to-the-engine"); e.Status != 400 || e.Outcome != analytics.OutcomeCompleted {
			t.Errorf("its event: %+v", e)
		}
	})
	// Heartbeats keep proxies on the way from closing the connection of a silent engine.
	silent.until(": heartbeat")
	if silent.lines[0] != ": heartbeat" || time.Since(began) < 4*time.Second {
		t.Errorf("after %v: %q", time.Since(began), silent.lines)
	}
	// So do they in a queue that does not move.
	queued.until(": heartbeat")
	if len(queued.lines) != 2 || !strings.HasPrefix(queued.lines[0], ": queue position=1") {
		t.Errorf("a request in a queue that does not move read %q", queued.lines)
	}
	queued.leave()
	silent.leave()
	if e := f.FinalEvent(analytics.KindRequest, "the-silent"); e.Outcome != analytics.OutcomeClientGone {
		t.Errorf("event of a client that left: %+v", e)
	}
}

// plainErrors expects plain errors for requests that cannot wait.
func plainErrors(f *fleettest.Fleet) {
	expect := func(status int, code, says string, a wiretest.Response, err error) {
		f.T.Helper()
		if err != nil || a.Status != status || a.Header.Get("Content-Type") != "application/json" || a.APIError(f.T).Code != code || !strings.Contains(a.Body, says) {
			f.T.Errorf("answer %d %q, %v; want %d %s", a.Status, a.Body, err, status, code)
		}
	}
	post := func(body string, headers ...string) (wiretest.Response, error) {
		return f.Post(f.T.Context(), "/chat/completions", body, append(fleettest.QueueEventsHeader, headers...)...)
	}
	a, err := post(fleettest.ChatBody(1, true), "Authorization", "Bearer cn_nobody_0123456789abcdefghij")
	expect(401, "invalid_api_key", "", a, err)
	a, err = post(`{"model":"nobody-knows","stream":true}`)
	expect(404, "model_not_found", "", a, err)
	a, err = post(fleettest.ChatBody(1, false))
	expect(400, "invalid_request", "ask for a stream", a, err)
	a, err = post(fleettest.ChatBody(1, true), "x-colonnade-queue-events", "yes")
	expect(400, "invalid_request", "must be 1", a, err)
	a, err = post(fleettest.ChatBody(1, true), "x-colonnade-queue", "sometimes")
	expect(400, "invalid_request", "never or wait", a, err)
	w := f.SendHandshake("demo-realtime", "Authorization: Bearer "+f.Key, "x-colonnade-queue-events: 1")
	session := w.Read()
	w.Close()
	expect(400, "invalid_request", "leave the header out", session, nil)
}

// countdown expects the positions of a request that waits behind another.
func countdown(f *fleettest.Fleet, authorization string) {
	ams := f.Engine("ams")
	ams.SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: 2})
	first := f.BeginChat(fleettest.ChatBody(1, false), "Authorization: "+authorization)
	testkit.WaitFor(f.T, "the slot to be taken", func() bool { return fleettest.InFlight(ams) == 1 })
	second := f.Enqueue(1, "Authorization: "+authorization)
	s := follow(f, "/chat/completions", fleettest.ChatBody(3, true), "x-request-id", "counts-down")
	if line, _ := s.next(); line != ": queue position=2" { // and the rate is not known
		f.T.Errorf("the first comment is %q", line)
	}
	first.Close() // the second stalls now
	if line, _ := s.next(); line != ": queue position=1" {
		f.T.Errorf("the second comment is %q", line)
	}
	second.Close()
	s.served()
	for _, name := range []string{"x-colonnade-colo", "x-colonnade-queued-ms", "x-colonnade-attempts"} {
		if got := s.Header.Get(name); got != "" {
			f.T.Errorf("%s is %q, which was not known yet", name, got)
		}
	}
	for _, kind := range []analytics.Kind{analytics.KindRequest, analytics.KindInference} {
		if e := f.FinalEvent(kind, "counts-down"); e.Outcome != analytics.OutcomeCompleted || e.ColoID != "ams" || e.QueuingTime < 1000 || !e.Streamed {
			f.T.Errorf("event %+v", e)
		}
	}
}

// refusals expects refusals in the stream, in the form of its API.
func refusals(f *fleettest.Fleet, authorization string) {
	expect := func(id, reason string) {
		f.T.Helper()
		if e := f.FinalEvent(analytics.KindRequest, id); e.Outcome != analytics.OutcomeRefused || e.Reason != reason || e.Status != 429 || e.Code != "out_of_capacity" {
			f.T.Errorf("event %+v, want one refused for %s", e, reason)
		}
	}
	brief := strings.Replace(fleettest.ChatBody(1, true), "demo-chat", "brief", 1)
	holder := f.BeginChat(brief, "Authorization: "+authorization)
	testkit.WaitFor(f.T, "the slot to be taken", func() bool { return f.Pool("ams", "brief").Held == 1 })
	s := follow(f, "/chat/completions", brief, "x-request-id", "times-out")
	s.refused(42902, "queue_timeout")
	if s.lines[0] != ": queue position=1" {
		f.T.Errorf("while it waited: %q", s.lines)
	}
	expect("times-out", "queue_timeout")
	follow(f, "/chat/completions", brief, "x-request-id", "will-not-wait", "x-colonnade-queue", "never").refused(42902, "busy")
	expect("will-not-wait", "busy")
	follow(f, "/chat/completions", brief, "x-request-id", "has-a-deadline", "x-colonnade-deadline-ms", "200").refused(42902, "deadline")
	expect("has-a-deadline", "deadline")
	s = follow(f, "/responses", `{"model":"brief","stream":true,"input":"x"}`)
	if data := s.refused(42902, "queue_timeout"); !strings.HasPrefix(data, `{"type":"error","sequence_number":0,"code":"out_of_capacity"`) ||
		s.lines[len(s.lines)-2] != "event: error" {
		f.T.Errorf("responses are refused with %q", s.lines)
	}
	holder.Close()
}

// leavesWaiting has clients leave while they wait, by a close and by a reset: their requests are never sent to an engine.
func leavesWaiting(f *fleettest.Fleet, authorization string) {
	ams := f.Engine("ams")
	ams.SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: 1})
	holder := f.BeginChat(fleettest.ChatBody(1, false), "Authorization: "+authorization)
	testkit.WaitFor(f.T, "the slot to be taken", func() bool { return fleettest.InFlight(ams) == 1 })
	before := f.EngineRequests()
	for n, id := range []string{"leaves-by-close", "leaves-by-reset"} {
		w := f.BeginChat(fleettest.ChatBody(1, true), "Authorization: "+authorization, "x-colonnade-queue-events: 1", "x-request-id: "+id)
		w.ReadUntil(": queue position=", 1)
		w.Leave(1 - n)
		testkit.Within(f.T, 250*time.Millisecond, "the cancelled request is out of the queue", func() bool { return f.Pool("ams", "demo").Queued == 0 })
		if e := f.FinalEvent(analytics.KindRequest, id); e.Outcome != analytics.OutcomeClientGone || !e.Partial {
			f.T.Errorf("event %+v", e)
		}
	}
	holder.Close()
	testkit.WaitFor(f.T, "the slot to be free", func() bool { return f.Pool("ams", "demo").Held == 0 })
	if n := f.EngineRequests() - before; n != 0 {
		f.T.Errorf("%d requests were dispatched whose clients had left", n)
	}
}

// A request with queue events is handled like any other until the first byte, over TLS too: other colos are tried, errors are
// retried, and a drain ends it with its reason.
func TestQueueEventsOfRetriesAndDrain(t *testing.T) {
	t.Parallel()
	fleettest.NeedsFleet(t, "a second colo")
	f := fleettest.StartSecure(t, onebox.Config{Engine: fleettest.QuickEngine(1), Drain: time.Second}, `key: models/demo-chat
pool: demo
routing: {algorithm: steps, steps: [{colos: [ams], pick: order}, {colos: [fra], pick: order}]}
---
key: pools/demo
queue: {max_wait: 1m}
`, nil)
	ams, fra := f.Engine("ams"), f.Engine("fra")
	testkit.WaitFor(t, "the routing to be in force", func() bool { return f.Chat(fleettest.ChatBody(1, false)).Header.Get("x-colonnade-colo") == "ams" })
	hold := func(colo *simengine.Engine) (release func()) {
		t.Helper()
		colo.SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: 1})
		w := f.BeginChatTLS(fleettest.ChatBody(1, false))
		testkit.WaitFor(t, "the slot to be taken", func() bool { return fleettest.InFlight(colo) == 1 })
		return func() { w.Close() }
	}
	expect := func(id string, attempts int, colo string) {
		t.Helper()
		if e := f.FinalEvent(analytics.KindRequest, id); e.Outcome != analytics.OutcomeCompleted || e.Attempts != attempts || e.ColoID != colo {
			t.Errorf("event %+v, want %d attempts, and %s to have served", e, attempts, colo)
		}
	}

	ams.SetFault(simengine.Fault{Fault: simengine.FaultError500, Count: 1})
	follow(f.Fleet, "/chat/completions", fleettest.ChatBody(3, true), "x-request-id", "is-tried-again").served()
	expect("is-tried-again", 2, "fra")

	for range 20 { // so that the colo knows its drain rate
		f.Chat(fleettest.ChatBody(1, false))
	}
	release := hold(ams)
	s := follow(f.Fleet, "/chat/completions", fleettest.ChatBody(3, true), "x-request-id", "goes-on-elsewhere")
	s.served()
	if !strings.HasPrefix(s.lines[0], ": queue position=1 expected_ms=") {
		t.Errorf("while it waited: %q", s.lines)
	}
	expect("goes-on-elsewhere", 1, "fra")

	s = follow(f.Fleet, "/chat/completions", fleettest.ChatBody(3, true), "x-request-id", "was-moved", "x-colonnade-queue", "wait")
	s.until(": queue position=1")
	ended := f.EndNode("ams-1")
	s.served()
	expect("was-moved", 1, "fra")
	release()
	ended()

	hold(fra)
	follow(f.Fleet, "/chat/completions", fleettest.ChatBody(3, true), "x-colonnade-queue", "never").refused(42902, "busy")
	s = follow(f.Fleet, "/chat/completions", fleettest.ChatBody(3, true), "x-request-id", "is-drained")
	s.until(": queue position=1")
	ended = f.EndNode("entry-1")
	s.refused(50301, "draining")
	if e := f.FinalEvent(analytics.KindRequest, "is-drained"); e.Outcome != analytics.OutcomeDrained {
		t.Errorf("event %+v", e)
	}
	ended()
}
