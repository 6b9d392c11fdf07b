package refusals_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/wiretest"
)

// A body of a path whose engines have one model need not name it: the query or a header may, or the account may use only one. The engine
// gets the body with the name. If nothing tells, the request is refused, and the error says how to name one.
func TestBodyWithoutModel(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return // a health check
		}
		body, _ := io.ReadAll(r.Body)
		got.Store(r.URL.String() + " " + string(body))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"tokens":[1]}`)
	}))
	t.Cleanup(engine.Close)
	key, account := fleettest.NewAccountKey(t, "one", "models: [own]")
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), fleettest.StubEngineDocuments(engine.URL)+"---\n"+account)
	ask := func(target, body string, headers ...string) wiretest.Response {
		t.Helper()
		got.Store("")
		r, err := http.NewRequest("POST", strings.TrimSuffix(f.URL(), "/v1")+target, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		response, err := f.Client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return wiretest.Response{Status: response.StatusCode, Header: response.Header, Body: string(text), Err: err}
	}
	const body, want = `{"prompt":"a"}`, `/tokenize {"model":"own","prompt":"a"}`
	for name, a := range map[string]func() wiretest.Response{
		"by the query":   func() wiretest.Response { return ask("/tokenize?model=own", body) },
		"by the header":  func() wiretest.Response { return ask("/tokenize", body, "x-colonnade-model", "own") },
		"by both":        func() wiretest.Response { return ask("/tokenize?model=own", body, "x-colonnade-model", "own") },
		"by the account": func() wiretest.Response { return ask("/tokenize", body, "Authorization", "Bearer "+key) },
	} {
		if answer := a(); answer.Status != 200 || got.Load() != want {
			t.Errorf("%s: %d %s; the engine got %q", name, answer.Status, answer.Body, got.Load())
		}
	}
	if a := ask("/tokenize?model=default", `{"model":"own","prompt":"a"}`); a.Status != 200 || got.Load() != `/tokenize {"model":"own","prompt":"a"}` {
		t.Errorf("the body names the model: %d %s; the engine got %q", a.Status, a.Body, got.Load())
	}
	refused := func(when string, a wiretest.Response, status int, says string) {
		t.Helper()
		if e := a.APIError(t); a.Status != status || e.Param != "model" || !strings.Contains(e.Message, says) || got.Load() != "" {
			t.Errorf("%s: %d %s", when, a.Status, a.Body)
		}
	}
	refused("with several models", ask("/tokenize", body), 400, "x-colonnade-model")
	refused("with two names", ask("/tokenize?model=own", body, "x-colonnade-model", "default"), 400, "different models")
	refused("without a model for it", ask("/infill", body, "Authorization", "Bearer "+key, "x-colonnade-model", "other"), 404, `"other"`)
	refused("on a path of OpenAI's", ask("/v1/embeddings?model=own", `{"input":"a"}`), 400, `no "model"`)
}
