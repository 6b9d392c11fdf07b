package traces_test

import (
	"fmt"
	"strings"
	"testing"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
)

// A request has a span at the entry, one for its hop to the colo and one at the engine, each under the one before, over all nodes. The engine
// gets the last as its parent. The trace has the id of the request, and the events name it.
func TestSpansOfRequest(t *testing.T) {
	f := start(t, quick(), "")
	a := f.Chat(fleettest.ChatBody(3, false), "x-request-id", "trace-me-1")
	tr := f.await(requestID(a), 3)
	entry, hop, engine := tr.find("entry", "entry-1"), tr.find("hop", "entry-1"), tr.find("engine", "ams-1")
	expectTree(t, "", entry, hop, entry, engine, hop)
	if entry.Name != "POST /v1/chat/completions" || hop.Name != "hop" || engine.Name != "chat demo-chat" || entry.Failed || hop.Failed || engine.Failed {
		t.Errorf("spans:\n%v", tr)
	}
	if engine.Start.Before(hop.Start) || hop.Start.Before(entry.Start) || engine.End.After(hop.End) && !fleettest.Direct() || hop.End.After(entry.End) {
		t.Errorf("times:\n%v", tr)
	}
	if !fleettest.Serve() && (entry.Service != "colonnade-entry" || engine.Service != "colonnade-colo") {
		t.Errorf("services %s and %s", entry.Service, engine.Service)
	}
	expect(t, entry, "colonnade.request_id", requestID(a), "colonnade.client_request_id", "trace-me-1", "colonnade.account", "open", "colonnade.pool", "demo",
		"colonnade.colo", "ams", "colonnade.outcome", "completed", "colonnade.attempts", 1, "colonnade.reason", nil, "error.type", nil,
		"http.request.method", "POST", "http.route", "/v1/chat/completions", "url.path", "/v1/chat/completions", "url.scheme", "http", "http.response.status_code", 200,
		"gen_ai.operation.name", "chat", "gen_ai.request.model", "demo-chat", "gen_ai.request.stream", nil)
	expect(t, hop, "colonnade.request_id", requestID(a), "colonnade.colo", "ams", "colonnade.server", "ams/ams-1", "colonnade.verdict", nil)
	_, inference := f.LastEvents(requestID(a))
	host, _, _ := strings.Cut(strings.TrimPrefix(f.Engines[0].URL, "http://"), ":")
	expect(t, engine, "gen_ai.operation.name", "chat", "gen_ai.provider.name", inference.Engine, "gen_ai.request.model", "demo-chat", "gen_ai.request.max_tokens", 3,
		"gen_ai.usage.input_tokens", inference.PromptTokens, "gen_ai.usage.output_tokens", 3, "server.address", host, "http.response.status_code", 200,
		"colonnade.request_id", requestID(a), "colonnade.account", "open", "colonnade.pool", "demo", "colonnade.colo", "ams", "colonnade.endpoint", inference.Endpoint,
		"colonnade.attempt", 1, "colonnade.outcome", "completed", "gen_ai.response.time_to_first_chunk", nil)
	if got, want := f.lastReceived("ams").Header.Get("traceparent"), fmt.Sprintf("00-%s-%s-01", requestID(a), engine.ID); got != want {
		t.Errorf("the engine got traceparent %q, want %q", got, want)
	}
	for _, kind := range []analytics.Kind{analytics.KindRequest, analytics.KindInference} {
		if e := f.FinalEvent(kind, "trace-me-1"); e.TraceID != requestID(a) {
			t.Errorf("the event %s has the trace %q", kind, e.TraceID)
		}
	}
}

// A stream says when its first chunk came. A request of each API has its operation.
func TestSpansByAPI(t *testing.T) {
	f := start(t, quick(), "")
	a := f.Chat(fleettest.ChatBody(4, true))
	tr := f.await(requestID(a), 3)
	engine := tr.find("engine", "")
	if first, _ := engine.Attributes["gen_ai.response.time_to_first_chunk"].(float64); first <= 0 || first > engine.End.Sub(engine.Start).Seconds() {
		t.Errorf("time to first chunk %v of %v", first, engine.End.Sub(engine.Start))
	}
	expect(t, engine, "gen_ai.request.stream", true, "gen_ai.usage.output_tokens", 4, "colonnade.outcome", "completed")
	expect(t, tr.find("entry", ""), "gen_ai.request.stream", true)
	for _, c := range []struct{ path, body, name string }{
		{"/completions", `{"model":"demo-chat","prompt":"a","max_tokens":2}`, "text_completion demo-chat"},
		{"/responses", `{"model":"demo-chat","input":"a","max_output_tokens":2}`, "chat demo-chat"},
		{"/embeddings", `{"model":"demo-embed","input":"a"}`, "embeddings demo-embed"},
	} {
		a, err := f.Post(t.Context(), c.path, c.body)
		if err != nil || a.Status != 200 {
			t.Fatalf("%s: %d %v %s", c.path, a.Status, err, a.Body)
		}
		tr := f.await(requestID(a), 3)
		if engine := tr.find("engine", ""); engine.Name != c.name {
			t.Errorf("%s: %q, want %q", c.path, engine.Name, c.name)
		}
		if entry := tr.find("entry", ""); entry.Name != "POST /v1"+c.path {
			t.Errorf("%s: %q", c.path, entry.Name)
		}
	}
	list, err := f.Client.Get(f.URL() + "/models")
	if err != nil {
		t.Fatal(err)
	}
	list.Body.Close()
	entry := f.await(list.Header.Get("x-request-id"), 1).find("entry", "")
	expect(t, entry, "http.route", "/v1/models", "http.response.status_code", 200, "gen_ai.operation.name", nil)
}

// A refused request has a span at the entry, and one for each colo that has refused it; it has failed only if that is not the client's fault.
func TestSpansOfRefusals(t *testing.T) {
	f := start(t, fleettest.OneColo(fleettest.SteadyEngine(1)), "key: pools/demo\nqueue: {limit: 0}")
	a := f.Chat(`{"model":"none","messages":[]}`)
	entry := f.await(requestID(a), 1).find("entry", "")
	expect(t, entry, "colonnade.outcome", "refused", "http.response.status_code", 404, "error.type", nil, "gen_ai.request.model", "none")
	a = f.Chat(`{`)
	expect(t, f.await(requestID(a), 1).find("entry", ""), "colonnade.outcome", "refused", "http.response.status_code", 400, "gen_ai.request.model", nil)

	blockers := f.BlockSlots(1)
	a = f.Chat(fleettest.ChatBody(1, false))
	tr := f.await(requestID(a), 2+len(f.traceHops(requestID(a)))-1)
	entry = tr.find("entry", "")
	expect(t, entry, "colonnade.outcome", "refused", "http.response.status_code", 429, "colonnade.reason", "queue_full", "error.type", nil)
	for _, hop := range tr.all("hop", "entry-1") {
		expect(t, hop, "colonnade.verdict", "ooc", "colonnade.reason", "queue_full", "error.type", nil)
		expectTree(t, "", entry, hop, entry)
	}
	if entry.Failed || len(tr.all("hop", "")) == 0 {
		t.Errorf("spans:\n%v", tr)
	}
	fleettest.ServeAll(t, blockers, nil)
}

// traceHops waits for the entry's span of a request, and returns its hops: all are exported by then.
func (f *traced) traceHops(id string) (hops []string) {
	testkit.WaitFor(f.T, "the spans of "+id, func() bool {
		hops = nil
		ended := false
		for _, s := range f.spans.Spans(id) {
			ended = ended || s.Text("colonnade.span") == "entry"
			if s.Text("colonnade.span") == "hop" {
				hops = append(hops, s.ID)
			}
		}
		return ended
	})
	return hops
}

// Time in a queue is a span of its own, whether the request gets a permit or leaves.
func TestSpansOfQueue(t *testing.T) {
	f := start(t, fleettest.OneColo(fleettest.SteadyEngine(1)), fleettest.LongQueue)
	blockers := f.BlockSlots(1)
	leaves := f.Enqueue(1, "x-request-id: leaves-the-queue")
	stays := f.Enqueue(2, "x-request-id: stays-in-queue")
	leaves.Close()
	left := f.FinalEvent(analytics.KindRequest, "leaves-the-queue")
	testkit.WaitFor(t, "one to wait", func() bool { return f.Pool("ams", "demo").Queued == 1 })
	fleettest.ServeAll(t, blockers, []*wiretest.Conn{stays})
	served := f.FinalEvent(analytics.KindRequest, "stays-in-queue")

	tr := f.await(served.TraceID, 4)
	queue, hop, engine := tr.find("queue", "ams-1"), tr.find("hop", ""), tr.find("engine", "")
	expectTree(t, "", tr.find("entry", ""), queue, hop, engine, hop)
	expect(t, queue, "colonnade.request_id", served.RequestID, "colonnade.account", "open", "colonnade.pool", "demo", "colonnade.colo", "ams",
		"colonnade.priority", "standard", "colonnade.queue_length", 1, "colonnade.reason", nil)
	if engine.Start.Before(queue.Start) || !queue.End.After(queue.Start) {
		t.Errorf("times:\n%v", tr)
	}
	if waited, _ := tr.find("entry", "").Attributes["colonnade.queued_ms"].(float64); waited <= 0 {
		t.Errorf("queued for %v ms", waited)
	}
	tr = f.await(left.TraceID, 3)
	expect(t, tr.find("queue", ""), "colonnade.reason", "client_gone", "colonnade.queue_length", nil)
	expect(t, tr.find("entry", ""), "colonnade.outcome", "client_gone", "http.response.status_code", nil, "error.type", nil)
	expect(t, tr.find("hop", ""), "error.type", nil)
}

// Each attempt at an engine has a span, of which those that failed say why.
func TestSpansOfRetries(t *testing.T) {
	c := quick()
	c.Engines = 2
	f := start(t, c, "")
	f.InjectFault(simengine.FaultError500, 0)
	f.Engines[1].Simulated.ClearFaults()
	var tr trace
	testkit.WaitFor(t, "a request that is tried twice", func() bool {
		a := f.Chat(fleettest.ChatBody(1, false))
		if a.Status != 200 || a.Header.Get("x-colonnade-attempts") != "2" {
			return false
		}
		tr = f.await(requestID(a), 4)
		return true
	})
	engines := tr.all("engine", "ams-1")
	if len(engines) != 2 || !engines[0].Failed || engines[1].Failed {
		t.Fatalf("spans:\n%v", tr)
	}
	expect(t, engines[0], "colonnade.attempt", 1, "colonnade.outcome", "engine_error", "error.type", engines[0].Attributes["colonnade.reason"])
	expect(t, engines[1], "colonnade.attempt", 2, "colonnade.outcome", "completed", "error.type", nil)
	expect(t, tr.find("entry", ""), "colonnade.attempts", 2, "error.type", nil)
	expectTree(t, "", tr.find("entry", ""), engines[0], tr.find("hop", ""), engines[1], tr.find("hop", ""))
	f.ClearFaults()
}

// A stream that is cut has failed at the engine and at the entry; one whose client leaves has not.
func TestSpansOfStreamsThatAreCut(t *testing.T) {
	f := start(t, fleettest.OneColo(fleettest.SlowEngine(4)), "")
	f.InjectFault(simengine.FaultCutInChunk, 1)
	a := f.Chat(fleettest.ChatBody(20, true))
	tr := f.await(requestID(a), 3)
	for _, kind := range []string{"entry", "hop", "engine"} {
		if s := tr.find(kind, ""); !s.Failed || s.Text("error.type") == "" {
			t.Errorf("%s: %+v", kind, s)
		}
	}
	c := f.LongStream("demo-chat", "x-request-id: leaves-early")
	c.Close()
	left := f.FinalEvent(analytics.KindRequest, "leaves-early")
	tr = f.await(left.TraceID, 3)
	for _, kind := range []string{"entry", "hop", "engine"} {
		expect(t, tr.find(kind, ""), "error.type", nil)
	}
	expect(t, tr.find("entry", ""), "colonnade.outcome", "client_gone")
	expect(t, tr.find("engine", ""), "colonnade.outcome", "client_gone")
}

// A stream of queue events and a realtime session have the same spans, which last as long as they do.
func TestSpansOfLongAnswers(t *testing.T) {
	f := start(t, quick(), "")
	a := f.Chat(fleettest.ChatBody(2, true), fleettest.QueueEventsHeader...)
	tr := f.await(requestID(a), 3)
	expectTree(t, "", tr.find("entry", ""), tr.find("hop", ""), tr.find("entry", ""), tr.find("engine", ""), tr.find("hop", ""))

	s := f.DialRealtime("demo-realtime", "x-request-id", "a-session")
	s.Hear("session.created")
	s.Say(`{"type":"response.create"}`)
	s.Hear("response.done")
	s.HangUp(1000, "")
	s.ExpectClose(1000, "")
	e := f.FinalEvent(analytics.KindRequest, "a-session")
	tr = f.await(e.TraceID, 3)
	entry, engine := tr.find("entry", ""), tr.find("engine", "")
	if entry.Name != "GET /v1/realtime" || engine.Name != "realtime demo-realtime" || entry.Failed || engine.Failed {
		t.Errorf("spans:\n%v", tr)
	}
	expect(t, entry, "http.response.status_code", 101)
	expect(t, engine, "http.response.status_code", 101)
	if engine.Attributes["gen_ai.usage.output_tokens"] == nil {
		t.Errorf("no usage: %v", engine.Attributes)
	}
	expectTree(t, "", entry, tr.find("hop", ""), entry, engine, tr.find("hop", ""))
}
