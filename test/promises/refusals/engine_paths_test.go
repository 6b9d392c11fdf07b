package refusals_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/wiretest"
)

// startKind runs a simulated engine of a kind until the test ends, and returns it with the document of its endpoint in the pool own.
func startKind(t *testing.T, kind string) (e *simengine.Engine, documents string) {
	e = simengine.New(simengine.Config{Kind: kind, Slots: 4, TTFT: time.Millisecond, ITL: time.Millisecond, Models: []string{"own"}})
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return e, fmt.Sprintf("---\nkey: endpoints/ams/own-%s\nurl: %s\npool: own\nengine: %s\nconcurrency: 4\n", kind, server.URL, kind)
}

// postRoot sends a body to a path that is not below /v1.
func postRoot(t *testing.T, f *fleettest.Fleet, path, body string) wiretest.Response {
	t.Helper()
	r, err := f.Client.Post(strings.TrimSuffix(f.URL(), "/v1")+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return wiretest.Response{Status: r.StatusCode, Header: r.Header, Body: string(text), Err: err}
}

// errorMessage returns the message of an error in the shape of Ollama.
func errorMessage(t *testing.T, a wiretest.Response) string {
	t.Helper()
	var body struct{ Error string }
	if err := json.Unmarshal([]byte(a.Body), &body); err != nil {
		t.Errorf("%s: %v", a.Body, err)
	}
	return body.Error
}

// A path that no engine of a model has is refused before a slot is asked for, even while none is free, and the error lists what the model
// can do. The engine is not asked.
func TestPathThatNoEngineHas(t *testing.T) {
	t.Parallel()
	engine, endpoint := startKind(t, "vllm")
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), "key: models/own\npool: own\n"+endpoint)
	a := postRoot(t, f, "/api/chat", `{"model":"own","messages":[]}`)
	if a.Status != 404 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	message := errorMessage(t, a)
	if !strings.HasPrefix(message, `the engines of the model "own" do not have /api/chat; they may have /v1/chat/completions, `) ||
		!strings.Contains(message, "/v1/messages") || strings.Contains(message, "/infill") || strings.Contains(message, "/api/generate") {
		t.Error(message)
	}
	if s := engine.Stats(); s.Requests != 0 {
		t.Errorf("the engine got %d requests", s.Requests)
	}
	if s := f.Pool("ams", "own"); s.Granted != 0 || len(s.Lacks) != 0 {
		t.Errorf("%d permits were granted; lacks %+v", s.Granted, s.Lacks)
	}
}

// In a pool of several kinds of engines, requests for a path go to those that have it.
func TestPathThatOneEngineHas(t *testing.T) {
	t.Parallel()
	with, first := startKind(t, "llamacpp")
	without, second := startKind(t, "tgi")
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), "key: models/own\npool: own\n"+first+second)
	for i := range 20 {
		a := postRoot(t, f, "/infill", fmt.Sprintf(`{"model":"own","input_prefix":"a%d","input_suffix":"b","n_predict":1}`, i))
		if a.Status != 200 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	if n := without.Stats().Requests; n != 0 {
		t.Errorf("the engine without the path got %d requests", n)
	}
	if n := with.Stats().Served; n != 20 {
		t.Errorf("the other served %d", n)
	}
}

// TGI's own API names an adapter in a setting that only the operator may choose: a model with an adapter does not answer there with the base
// model.
func TestAdapterAtPathWithoutModels(t *testing.T) {
	t.Parallel()
	engine, endpoint := startKind(t, "tgi")
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), "key: models/own\npool: own\n---\nkey: models/sql\npool: own\nadapter: sql-v1\n"+endpoint)
	if a := postRoot(t, f, "/generate", `{"model":"own","inputs":"a","parameters":{"max_new_tokens":1}}`); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	before := engine.Stats().Requests
	if a := postRoot(t, f, "/generate", `{"model":"sql","inputs":"a"}`); a.Status != 404 || engine.Stats().Requests != before {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
