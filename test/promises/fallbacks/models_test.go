package fallbacks_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// body asks for the model "first".
const body = `{"model":"first","messages":[]}`

// world is a fleet with the models first, second and outside, of which the first has the others as fallbacks.
type world struct {
	*fleettest.Fleet
	second, outside *fleettest.StubEngine
	hold            chan struct{} // closed: the engine of second answers at once
	busy            atomic.Int64  // requests that the engine of second has begun
}

// start runs a world. The engine of first has one slot; more are further documents.
func start(t *testing.T, more string) *world {
	t.Helper()
	w := &world{hold: make(chan struct{})}
	close(w.hold)
	documents := more + "\n---\nkey: models/first\npool: demo\nupstream_name: demo-chat\nfallback: [second, {external: outside}]\n"
	for _, model := range []struct {
		name, rest string
		engine     **fleettest.StubEngine
	}{{"second", "cost: {unit: usd, output: 1, per: 1}\n", &w.second}, {"outside", "", &w.outside}} {
		*model.engine, _ = fleettest.StartStubEngine(t, func(rw http.ResponseWriter, r *http.Request) {
			w.busy.Add(1)
			select {
			case <-w.hold:
			case <-r.Context().Done():
				return
			}
			rw.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(rw, `{"from":%q,"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7}}`, model.name)
		})
		documents += fmt.Sprintf("---\nkey: models/%s\n%s---\nkey: endpoints/ams/%[1]s\nurl: %[3]s\npool: %[1]s\nconcurrency: 1\nexternal: %[4]v\n",
			model.name, model.rest, (*model.engine).URL, model.name == "outside")
	}
	w.Fleet = fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), documents)
	w.WatchShared(8)
	return w
}

// fill takes the slot of first.
func (w *world) fill(t *testing.T) (release func()) {
	t.Helper()
	w.InjectFault(simengine.FaultStallStream, 0)
	return w.HoldStreams(t, 1)
}

// wantServed checks which model has served a request.
func wantServed(t *testing.T, a wiretest.Response, model string) {
	t.Helper()
	if a.Status != 200 || a.Header.Get("x-colonnade-model") != model {
		t.Errorf("answer %d %q by %q, want 200 by %s", a.Status, a.Body, a.Header.Get("x-colonnade-model"), model)
	}
}

// A request for a model that is full is served by its fallback, which the answer and the events name; once there is room, by its own model.
func TestFallbackServesForFullModel(t *testing.T) {
	t.Parallel()
	w := start(t, "")
	release := w.fill(t)
	a := w.Chat(body, "x-request-id", "went-on-1")
	wantServed(t, a, "second")
	if !strings.Contains(a.Body, `"from":"second"`) || a.Header.Get("x-colonnade-attempts") != "1" {
		t.Errorf("answer %q %v", a.Body, a.Header)
	}
	e := w.FinalEvent(analytics.KindRequest, "went-on-1")
	if e.Model != "second" || e.RequestedModel != "first" || e.Pool != "second" || e.Outcome != analytics.OutcomeCompleted {
		t.Errorf("the event of the request: %+v", e)
	}
	if e = w.FinalEvent(analytics.KindInference, "went-on-1"); e.Model != "second" || e.Cost != 7 {
		t.Errorf("the event that bills: %+v", e)
	}
	if n := w.Metric(w.Entry.Admin, `inference_active_requests{model="second"}`); n != 0 {
		t.Errorf("%v requests are active for second", n)
	}
	events := w.Chat(`{"model":"first","stream":true,"messages":[]}`, "x-colonnade-queue-events", "1")
	if events.Status != 200 || !strings.Contains(events.Body, "not_a_stream") { // since the stub has answered a stream by JSON: second was asked
		t.Errorf("with queue events: %d %q", events.Status, events.Body)
	}
	release()
	w.ClearFaults()
	testkit.WaitFor(t, "the slot to be free", func() bool { return w.Pool("ams", "demo").Held == 0 })
	wantServed(t, w.Chat(body, "x-request-id", "came-back-1"), "first")
	if e = w.FinalEvent(analytics.KindRequest, "came-back-1"); e.Model != "first" || e.RequestedModel != "" {
		t.Errorf("the event of a request that its own model has served: %+v", e)
	}
	if a = w.Chat(`{"model":"second","messages":[]}`); a.Status != 200 || a.Header.Get("x-colonnade-model") != "" {
		t.Errorf("a model without fallbacks: %d %v", a.Status, a.Header)
	}
}

// A request goes to no fallback that its account may not use, nor out of the fleet without permission, nor where the client forbids it.
func TestFallbackNeedsPermission(t *testing.T) {
	t.Parallel()
	documents, headers := "", map[string]string{}
	for name, rest := range map[string]string{
		"narrow": "models: [first]", "inside": "models: [first, second]", "home": "models: [first, outside]", "abroad": "models: [first, outside]\nallow_external: true",
	} {
		document, authorization := fleettest.AccountWithKey(name, rest)
		documents, headers[name] = documents+document, authorization
	}
	w := start(t, documents)
	release := w.fill(t)
	defer release()
	for _, c := range []struct{ account, fallback, want string }{
		{"narrow", "", ""}, {"inside", "", "second"}, {"inside", "never", ""}, {"home", "", ""}, {"abroad", "", "outside"}, {"abroad", "never", ""},
	} {
		lines := []string{"Authorization: " + headers[c.account], "x-colonnade-queue: never"}
		if c.fallback != "" {
			lines = append(lines, "x-colonnade-fallback: "+c.fallback)
		}
		a := w.RawChat(body, lines...)
		if c.want != "" {
			wantServed(t, a, c.want)
		} else if e := a.APIError(t); a.Status != 429 || e.Reason != "busy" || a.Header.Get("x-colonnade-model") != "" {
			t.Errorf("%+v: %d %+v %v, want a refusal of first", c, a.Status, e, a.Header)
		}
	}
	if n := w.outside.Requests.Load(); n != 1 {
		t.Errorf("%d requests have left the fleet, want 1", n)
	}
	if a := w.Chat(body, "x-colonnade-fallback", "always"); a.Status != 400 || !strings.Contains(a.Body, "x-colonnade-fallback") {
		t.Errorf("another value of the header: %d %q", a.Status, a.Body)
	}
}

// An answer has the name that the client has asked for, also an alias, if the model or its fallback says so.
func TestFallbackAnswersWithRequestedName(t *testing.T) {
	t.Parallel()
	documents := ""
	for _, name := range []string{"renamed", "plain"} {
		settings := map[string]string{"renamed": "answer_model: requested\n"}
		documents += "---\nkey: models/" + name + "\naliases: [" + name + "-alias]\nfallback: [serves]\n" + settings[name] + "---\nkey: endpoints/ams/" + name + "\nurl: http://127.0.0.1:9\npool: " + name + "\n"
	}
	stub, _ := fleettest.StartStubEngine(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(rw, `{"model":"engines","choices":[]}`)
	})
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), documents+"---\nkey: models/serves\n---\nkey: endpoints/ams/serves\nurl: "+stub.URL+"\npool: serves\nconcurrency: 1\n")
	f.WatchShared(8)
	for asked, want := range map[string]string{"renamed": "renamed", "renamed-alias": "renamed-alias", "plain": "engines"} {
		a := f.Chat(`{"model":"` + asked + `","messages":[]}`)
		wantServed(t, a, "serves")
		if !strings.Contains(a.Body, `"model":"`+want+`"`) {
			t.Errorf("%s: %s, want %s", asked, a.Body, want)
		}
	}
}

// A fallback that is listed by its name alone does not take prompts to its external endpoints without permission: its other endpoints serve them, in
// both ways of calling a colo.
func TestFallbackWithExternalEndpoint(t *testing.T) {
	t.Parallel()
	homely, home := fleettest.AccountWithKey("homely", "")
	widely, abroad := fleettest.AccountWithKey("widely", "allow_external: true")
	for _, direct := range []bool{false, true} {
		var engines [2]*fleettest.StubEngine
		documents := homely + widely + "---\nkey: models/first\nfallback: [mixed]\n---\nkey: endpoints/ams/first\nurl: http://127.0.0.1:9\npool: first\n---\nkey: models/mixed\n"
		for i := range engines {
			engines[i], _ = fleettest.StartStubEngine(t, func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprint(rw, `{"choices":[]}`)
			})
			documents += fmt.Sprintf("---\nkey: endpoints/ams/mixed-%d\nurl: %s\npool: mixed\nconcurrency: 4\nexternal: %v\n", i, engines[i].URL, i == 1)
		}
		f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Direct: direct}, documents)
		f.WatchShared(8)
		for range 8 {
			wantServed(t, f.RawChat(body, "Authorization: "+home), "mixed")
		}
		if in, out := engines[0].Requests.Load(), engines[1].Requests.Load(); in != 8 || out != 0 {
			t.Errorf("direct %v: %d requests stayed, and %d left the fleet", direct, in, out)
		}
		for range 8 {
			wantServed(t, f.RawChat(body, "Authorization: "+abroad), "mixed")
		}
		if n := engines[1].Requests.Load(); n == 0 {
			t.Errorf("direct %v: with permission, no request has left the fleet", direct)
		}
		before := engines[1].Requests.Load()
		for range 8 { // the client asks for it by name
			if a := f.RawChat(`{"model":"mixed","messages":[]}`, "Authorization: "+home); a.Status != 200 {
				t.Errorf("direct %v: %d %q", direct, a.Status, a.Body)
			}
		}
		if engines[1].Requests.Load() == before {
			t.Errorf("direct %v: a request for the model itself is kept from its endpoint", direct)
		}
	}
}

// A model whose engines are down, or fail before their first byte, is replaced; the latter takes one from the budget of retries.
func TestFallbackServesForModelThatIsDown(t *testing.T) {
	t.Parallel()
	w := start(t, "key: models/gone\nfallback: [second]\n---\nkey: endpoints/ams/gone\nurl: http://127.0.0.1:9\npool: gone\n")
	for range 3 {
		wantServed(t, w.Chat(`{"model":"gone","messages":[]}`), "second")
	}
	before := w.Metric(w.Entry.Admin, "colonnade_retries_total")
	w.Engine("ams").SetFault(simengine.Fault{Fault: simengine.FaultHTMLError, Count: 1})
	wantServed(t, w.Chat(body), "second")
	if n := w.Metric(w.Entry.Admin, "colonnade_retries_total") - before; n != 1 {
		t.Errorf("%v retries, want 1", n)
	}
}

// A client that leaves while a fallback serves it frees the slot there, and has one final event.
func TestClientLeavesFallback(t *testing.T) {
	t.Parallel()
	w := start(t, "")
	release := w.fill(t)
	defer release()
	w.hold = make(chan struct{})
	ctx, leave := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = w.Post(ctx, "/chat/completions", body, "x-request-id", "leaves-early")
	}()
	testkit.WaitFor(t, "the fallback to run", func() bool { return w.busy.Load() == 1 })
	if n := w.Metric(w.Entry.Admin, `inference_active_requests{model="second"}`); n != 1 {
		t.Errorf("%v requests are active for second, want 1", n)
	}
	leave()
	<-gone
	e := w.FinalEvent(analytics.KindRequest, "leaves-early")
	if e.Outcome != analytics.OutcomeClientGone || e.Model != "second" || e.RequestedModel != "first" {
		t.Errorf("the event: %+v", e)
	}
	testkit.WaitFor(t, "the slot to be free", func() bool { return w.Pool("ams", "second").Held == 0 })
	close(w.hold)
	wantServed(t, w.Chat(body), "second")
}

// Limits are charged once, by what the model that has served the request costs.
func TestFallbackIsChargedOnce(t *testing.T) {
	t.Parallel()
	document, authorization := fleettest.AccountWithKey("bounded", "limits: {requests_per_minute: 100, tokens_per_minute: 100000, budget: {unit: usd, day: 7}}")
	w := start(t, document)
	release := w.fill(t)
	defer release()
	a := w.RawChat(body, "Authorization: "+authorization)
	wantServed(t, a, "second")
	if left := a.Header.Get("x-ratelimit-remaining-requests"); left != "99" {
		t.Errorf("%s requests are left, want 99", left)
	}
	a = w.RawChat(body, "Authorization: "+authorization) // the first has cost 7 usd, by the price of second
	if e := a.APIError(t); a.Status != 429 || e.Reason != "budget_spent" {
		t.Errorf("the next request: %d %+v", a.Status, e)
	}
}
