package durability_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// begin sends a request over a connection of its own.
func begin(f *fleettest.Fleet, c usageCase, model, id string) *wiretest.Conn {
	f.T.Helper()
	w := wiretest.Dial(f.T, f.Entry.Address)
	w.Post("/v1/"+c.path, fmt.Sprintf(`{"model":%q,"stream":%v,%s}`, model, c.stream, c.body), "x-request-id: "+id)
	return w
}

// partial is a request that ends early, with what its events must say.
type partial struct {
	fault   string
	model   string                                 // empty = priced
	leave   func(*fleettest.Fleet, *wiretest.Conn) // the client does this instead of reading
	outcome analytics.Outcome
	reason  string
	code    string // of the inference event
	status  int    // likewise
	want    billed
}

// check sends one request and compares its two events.
func check(f *fleettest.Fleet, t *testing.T, c usageCase, e partial) {
	t.Helper()
	if e.model == "" {
		e.model = "priced"
	}
	id := strings.NewReplacer("_", "-", " ", "-").Replace(fmt.Sprintf("%s-%s-%s-%v", c.name, e.fault, e.outcome, c.stream))
	f.InjectFault(e.fault, 0)
	w := begin(f, c, e.model, id)
	defer w.Close()
	if e.leave != nil {
		e.leave(f, w)
	} else {
		w.Read()
	}
	inference, request := f.FinalEvent(analytics.KindInference, id), f.FinalEvent(analytics.KindRequest, id)
	f.ClearFaults()
	if billOf(inference) != e.want || inference.Outcome != e.outcome || inference.Reason != e.reason || !inference.Partial ||
		inference.Streamed != c.stream || inference.Code != e.code || inference.Status != e.status {
		t.Errorf("%s: inference event %+v, want %+v", id, inference, e)
	}
	midStream := e.code == "" && e.reason != "client_gone" // the entry learns the reason
	if request.Outcome != e.outcome || request.Partial == (e.outcome == analytics.OutcomeRefused) || (billOf(request) != billed{}) ||
		midStream && request.Reason != e.reason {
		t.Errorf("%s: request event %+v", id, request)
	}
}

// Of a stream that ends early, the tokens that were generated and not counted are estimated, and every event says how it ended.
func TestUsageOfPartialStreams(t *testing.T) {
	t.Parallel()
	f := usageFleet(t, onebox.Config{Engines: 1})
	f.WatchShared(8)
	reset := func(_ *fleettest.Fleet, w *wiretest.Conn) {
		w.ReadUntil("takes", 1)
		w.Leave(0)
	}
	for _, c := range []usageCase{
		{name: "chat", path: "chat/completions", body: `"max_tokens":8,"messages":[{"role":"user","content":"` + fourWords + `"}]`, stream: true},
		{name: "completions", path: "completions", body: `"max_tokens":8,"prompt":"` + fourWords + `"`, stream: true},
		{name: "responses", path: "responses", body: `"max_output_tokens":8,"input":"` + fourWords + `"`, stream: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			held := estimate(partWords)
			for _, e := range []partial{
				{fault: simengine.FaultStallStream, model: "patient", leave: reset, outcome: analytics.OutcomeClientGone, status: 200, want: held},
				{fault: simengine.FaultStallStream, outcome: analytics.OutcomeTimeout, reason: "idle_timeout", status: 200, want: held},
				{fault: simengine.FaultCutAtChunk, outcome: analytics.OutcomeEngineError, reason: "truncated", status: 200, want: held},
				{fault: simengine.FaultCutInChunk, outcome: analytics.OutcomeEngineError, reason: "truncated", status: 200, want: held},
				{fault: simengine.FaultNoDone, outcome: analytics.OutcomeEngineError, reason: "truncated", status: 200, want: held},
				{fault: simengine.FaultErrorThenDone, outcome: analytics.OutcomeEngineError, reason: "error_event", status: 200, want: held},
			} {
				check(f, t, c, e)
			}
		})
	}
}

// Requests that end before the first byte have final events, and no bill.
func TestEventsBeforeFirstByte(t *testing.T) {
	f := usageFleet(t, onebox.Config{Engines: 1})
	f.ApplyAndWait("key: models/once\npool: demo\nupstream_name: demo-chat\nretry: {errors: 0}\ncost: {unit: neurons, input: 5, output: 20, per: 10}\n", func() bool {
		return f.Chat(`{"model":"once","messages":[],"max_tokens":1}`).Status == 200
	})
	f.Watch(8)
	gone := func(f *fleettest.Fleet, w *wiretest.Conn) {
		testkit.WaitFor(f.T, "the engine to have the request", func() bool { return f.Engine("ams").Stats().Running == 1 })
		w.Leave(0)
	}
	idle := func() bool {
		p := f.Pool("ams", "demo")
		return p.Free == p.Limit && p.Endpoints[0].State == "up"
	}
	for _, stream := range []bool{true, false} {
		c := usageCase{name: "chat", path: "chat/completions", body: `"messages":[{"role":"user","content":"` + fourWords + `"}]`, stream: stream}
		for _, e := range []partial{
			{fault: simengine.FaultStallHead, leave: gone, outcome: analytics.OutcomeClientGone, reason: "client_gone"},
			{fault: simengine.FaultError500, outcome: analytics.OutcomeEngineError, reason: "engine_status", code: "engine_error", status: 502},
			{fault: simengine.FaultRefuse, outcome: analytics.OutcomeEngineError, reason: "no_answer", code: "engine_error", status: 502},
			{fault: simengine.FaultFull, outcome: analytics.OutcomeRefused, reason: "engine_full", code: "out_of_capacity", status: 429},
		} {
			e.model = "once"
			check(f, t, c, e)
			testkit.WaitFor(t, "the engine to be up and idle", idle)
		}
		reason := "total_timeout"
		if stream {
			reason = "first_byte_timeout"
		}
		check(f, t, c, partial{fault: simengine.FaultStallHead, model: "hasty", outcome: analytics.OutcomeTimeout, reason: reason, code: "inference_timeout", status: 504})
	}
}

// A session's bill is the sum of its responses' usage.
func TestUsageOfSessions(t *testing.T) {
	t.Parallel()
	f := usageFleet(t, onebox.Config{Engines: 1})
	f.WatchShared(8)
	item := `{"type":"conversation.item.create","item":{"content":[{"type":"input_text","text":"` + fourWords + `"}]}}`
	create := func(tokens int) string {
		return fmt.Sprintf(`{"type":"response.create","response":{"max_output_tokens":%d}}`, tokens)
	}
	respond := func(s fleettest.Session, tokens int) {
		s.Say(item)
		s.Say(create(tokens))
		s.Hear("response.done")
	}
	check := func(s fleettest.Session, outcome analytics.Outcome, messagesIn int64, want billed) {
		t.Helper()
		request, inference := f.LastEvents(s.Header.Get("x-request-id"))
		if billOf(inference) != want || inference.Outcome != outcome || inference.MessagesIn != messagesIn || inference.MessagesOut == 0 || !inference.WebSocket {
			t.Errorf("inference event %+v, want %+v", inference, want)
		}
		if request.Outcome != outcome || (billOf(request) != billed{}) {
			t.Errorf("request event %+v", request)
		}
	}
	// The prompt of each response is the whole conversation so far.
	sum := billed{prompt: 4 + 8, completion: 5 + 3, cached: 2 + 2, cost: 0.5*12 + 2*8}

	s := f.DialRealtime("spoken", "x-request-id", "session-0001")
	respond(s, 5)
	respond(s, 3)
	s.HangUp(websocket.CloseNormalClosure, "")
	s.ExpectClose(websocket.CloseNormalClosure, "")
	check(s, analytics.OutcomeCompleted, 4, sum)

	s = f.DialRealtime("spoken", "x-request-id", "session-0003")
	s.Hear("session.created")
	s.HangUp(websocket.CloseNormalClosure, "")
	s.ExpectClose(websocket.CloseNormalClosure, "")
	check(s, analytics.OutcomeCompleted, 0, billed{})
}

// A session whose client leaves in the middle of a response is billed an estimate of that response.
func TestUsageOfAbandonedSession(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engines: 1, Colos: []string{"ams"}, Engine: simengine.Config{Slots: 1, TTFT: time.Millisecond, ITL: 100 * time.Millisecond}}, pricedDocuments)
	f.WatchShared(8)
	s := f.DialRealtime("spoken")
	s.Say(`{"type":"response.create","response":{"input":"two words","max_output_tokens":2}}`)
	s.Hear("response.done")
	s.Say(`{"type":"response.create","response":{"max_output_tokens":64}}`)
	for range 3 {
		s.Hear("response.output_text.delta")
	}
	s.Close()
	_, inference := f.LastEvents(s.Header.Get("x-request-id"))
	got := billOf(inference)
	want := billed{prompt: 2, completion: 2, estimated: got.estimated, cost: 0.5*2 + 2*float64(2+got.estimated)}
	if got != want || got.estimated < 3 || got.estimated > 60 || inference.Outcome != analytics.OutcomeClientGone {
		t.Errorf("inference event %+v", inference)
	}
}

// Events record the length of the queue on arrival and the time in it.
func TestEventsOfQueuedRequests(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1), Colos: []string{"ams"}, Engines: 1}, "")
	f.Watch(8)
	f.InjectFault(simengine.FaultStallStream, 1)
	first := f.BeginChat(fleettest.ChatBody(8, true), "x-request-id: queue-0000")
	first.ReadUntil("takes", 1)
	var all sync.WaitGroup
	for i := 1; i <= 2; i++ {
		all.Go(func() { f.Chat(fleettest.ChatBody(1, false), "x-request-id", fmt.Sprintf("queue-000%d", i)) })
		testkit.WaitFor(t, "the request to wait", func() bool { return f.Pool("ams", "demo").Queued == i })
	}
	first.Leave(0)
	all.Wait()
	for i := range 3 {
		id := fmt.Sprintf("queue-000%d", i)
		e, r := f.FinalEvent(analytics.KindInference, id), f.FinalEvent(analytics.KindRequest, id)
		if e.QueuedInColo != (i > 0) || (e.QueuingTime > 0) != (i > 0) || e.LocalQueueSize != max(i-1, 0) {
			t.Errorf("%s: inference event %+v", id, e)
		}
		served := i > 0 // the first was abandoned, which both nodes noticed by themselves
		if r.QueuedInColo != (i > 0) || r.QueuingTime > e.QueuingTime || served && r.RequestTime < e.RequestTime {
			t.Errorf("%s: request event %+v", id, r)
		}
	}
}
