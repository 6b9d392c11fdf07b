package paths_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/wiretest"
)

// Requests that take no slot are refused in the words of the engines too, by the engine or on its behalf.
func TestFreePathsRefuse(t *testing.T) {
	t.Parallel()
	s := start(t, simengine.Config{ITL: -1})
	f := func(fault string, status ...int) {
		for _, c := range freeCases() {
			s.engines[c.engine].SetFault(simengine.Fault{Fault: fault})
			a := s.send(t, c, false, idOf(c, false)+"-"+fault).Read()
			s.engines[c.engine].ClearFaults()
			if a.Err != nil || !slices.Contains(status, a.Status) || !c.refusal.is(a.Body) {
				t.Errorf("%v, %s: %d %v: %s; want one of %v, in the words of the engine", c, fault, a.Status, a.Err, a.Body, status)
			}
			s.rested(t, c)
		}
	}
	f(simengine.FaultError400, 400, 422)
	f(simengine.FaultError500, 502)
	f(simengine.FaultFull429, 429) // after which the engine gets no request for a moment
}

// A path that engines of several kinds have is refused in the words of the model's own, also before a colo is asked, once one has answered for the
// model. Before that, and for an unknown model, it is OpenAI's.
func TestSharedPathIsRefusedAsTheEnginesDo(t *testing.T) {
	t.Parallel()
	shared := []pathCase{
		{engine: engineType{"tgi", "chat"}, path: "/tokenize", body: `,"inputs":"one two three"`, refusal: tgiError},
		{engine: engineType{"tei", "embedding"}, path: "/tokenize", body: `,"inputs":"one two three"`, refusal: teiError},
		{engine: engineType{"tei", "rerank"}, path: "/rerank", body: `,"query":"one","texts":["two","three"]`, refusal: teiError},
		{engine: engineType{"vllm", "chat"}, path: "/tokenize", body: `,"prompt":"one two three"`, refusal: openAIError},
		{engine: engineType{"llamacpp", "chat"}, path: "/rerank", body: `,"query":"one","documents":["two"]`, refusal: openAIError},
	}
	var documents strings.Builder
	keys := map[pathCase]string{}
	for n, c := range shared {
		name := fmt.Sprintf("%s-%d", c.engine, n)
		_, docs := fleettest.StartKind(t, name, simengine.Config{Kind: c.engine.kind, Type: c.engine.models, Slots: 1, ITL: -1}, "")
		account, key := fleettest.AccountWithKey(name, "limits: {requests_per_minute: 2}")
		documents.WriteString(docs + account)
		keys[c] = key
	}
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), documents.String())
	f.WatchShared(4 * len(shared))
	for n, c := range shared {
		t.Run(c.String(), func(t *testing.T) {
			send := func(model, body string, lines ...string) wiretest.Response {
				conn := wiretest.Dial(t, f.Entry.Address)
				defer conn.Close()
				conn.Post(c.path, `{"model":"`+model+`"`+body+"}", lines...)
				return conn.Read()
			}
			model := fmt.Sprintf("%s-%d", c.engine, n)
			expect := func(when string, a wiretest.Response, status int, as refusal) {
				t.Helper()
				if a.Status != status || a.Err != nil || status != 200 && !as.is(a.Body) {
					t.Errorf("%s: %d %v: %s; want %d", when, a.Status, a.Err, a.Body, status)
				}
			}
			tooMany := `,"documents":[` + strings.Repeat(`"",`, 2048) + `""],"inputs":[` + strings.Repeat(`"",`, 2048) + `""],"prompt":[` + strings.Repeat(`"",`, 2048) + `""]`
			expect("before any answer", send(model, tooMany), 400, openAIError)
			key := "Authorization: " + keys[c]
			expect("the first request", send(model, c.body, key), 200, refusal{})
			expect("too many inputs", send(model, tooMany), 400, c.refusal)
			expect("the second request", send(model, c.body, key), 200, refusal{})
			expect("beyond the account's limit", send(model, c.body, key), 429, c.refusal)
			expect("an unknown model", send("unknown", c.body), 404, openAIError)
		})
	}
}
