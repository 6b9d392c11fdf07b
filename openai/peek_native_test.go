package openai_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"colonnade/openai"
)

// native returns the route of a path of an engine's own API.
func native(t *testing.T, path string) openai.Route {
	t.Helper()
	route, err := openai.ParseRoute([]byte("POST"), []byte(path))
	if err != nil {
		t.Fatal(err)
	}
	return route
}

func peekNative(t *testing.T, path, body string) (openai.Body, *openai.Error) {
	t.Helper()
	return peekRoute(native(t, path), jsonType, []byte(body))
}

// Ollama streams unless a body says otherwise, TGI by the path, and others on request.
func TestNativeStreams(t *testing.T) {
	t.Parallel()
	f := func(path, members string, want bool) {
		t.Helper()
		body, err := peekNative(t, path, `{"model":"m"`+members+`}`)
		if err != nil || body.Stream != want {
			t.Errorf("%s %s: %v, %v", path, members, body.Stream, err)
		}
	}
	for _, path := range []string{"/api/chat", "/api/generate"} {
		f(path, "", true)
		f(path, `,"stream":null`, true)
		f(path, `,"stream":true`, true)
		f(path, `,"stream":false`, false)
	}
	f("/api/embed", `,"stream":true`, false)
	f("/generate", `,"stream":true`, false)
	f("/generate_stream", `,"stream":false`, true)
	f("/completion", "", false)
	f("/completions", `,"stream":true`, true)
	f("/infill", "", false)
	f("/infill", `,"stream":true`, true)
	f("/v1/messages", `,"stream":true`, true)
	f("/v1/messages", `,"stream":null`, false)
	f("/v1/messages/count_tokens", `,"stream":true`, false)
	f("/tokenize", `,"stream":true`, false)
	f("/v1/chat/completions", `,"stream":null`, false)
	if _, err := peekNative(t, "/api/chat", `{"model":"m","stream":"false"}`); err == nil || err.Param != "stream" {
		t.Errorf("a string for stream: %v", err)
	}
}

// Ollama does not look at the type of a body, and some of its clients name none. Elsewhere, and with a type that is another one, that is refused.
func TestUntypedBodies(t *testing.T) {
	t.Parallel()
	for path, types := range map[string]map[string]bool{
		"/api/chat":            {"application/octet-stream": true, "": true, "application/json": true, "text/plain": false},
		"/v1/chat/completions": {"application/octet-stream": false, "": true},
	} {
		route, err := openai.ParseRoute([]byte("POST"), []byte(path))
		if err != nil {
			t.Fatal(err)
		}
		for contentType, fine := range types {
			if _, err := peekRoute(route, contentType, []byte(`{"model":"m","messages":[]}`)); (err == nil) != fine {
				t.Errorf("%s with %q: %v", path, contentType, err)
			}
		}
	}
}

// Paths of engines that have one model need not name it; the others must.
func TestBodiesWithoutModel(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/tokenize", "/detokenize", "/infill", "/completion", "/completions", "/generate", "/generate_stream", "/rerank", "/score", "/v1/score", "/classify", "/pooling", "/embed", "/predict", "/decode"} {
		body, err := peekNative(t, path, `{"inputs":"a"}`)
		if err != nil || body.Model != "" {
			t.Errorf("%s: %q, %v", path, body.Model, err)
		}
		if _, err = peekNative(t, path, `{"model":""}`); err == nil || err.Param != "model" {
			t.Errorf("%s with an empty model: %v", path, err)
		}
	}
	for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens", "/api/chat", "/api/generate", "/api/embed", "/v1/rerank", "/v1/chat/completions"} {
		if _, err := peekNative(t, path, `{"inputs":"a"}`); err == nil || err.Param != "model" {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A body without a model gets one as its first member, so that an engine with several serves the right one.
func TestSpliceModelIntoBody(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"inputs":"a"}`:             `{"model":"x","inputs":"a"}`,
		` { "inputs" : "a" } `:       ` {"model":"x", "inputs" : "a" } `,
		`{}`:                         `{"model":"x"}`,
		"{ \n}":                      "{\"model\":\"x\" \n}",
		`{"inputs":"a","model":"b"}`: `{"inputs":"a","model":"x"}`,
	} {
		peeked, err := peekNative(t, "/generate", body)
		if err != nil {
			t.Fatal(err)
		}
		e := openai.Edit{Model: "x"}
		if got := peeked.Splice(nil, []byte(body), e); string(got) != want || !peeked.Changes([]byte(body), e) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
		if got := peeked.Splice(nil, []byte(body), openai.Edit{}); string(got) != body || peeked.Changes([]byte(body), openai.Edit{}) {
			t.Errorf("%s without an edit: %s", body, got)
		}
	}
}

// The bound of tokens is read where each engine has it.
func TestNativeMaxTokens(t *testing.T) {
	t.Parallel()
	f := func(path, members string, want int) {
		t.Helper()
		body, err := peekNative(t, path, `{"model":"m",`+members+`}`)
		if err != nil || body.MaxTokens != want || body.EngineFields != 0 {
			t.Errorf("%s %s: %d, %x, %v", path, members, body.MaxTokens, body.EngineFields, err)
		}
	}
	f("/v1/messages", `"max_tokens":7`, 7)
	f("/infill", `"n_predict":7`, 7)
	f("/infill", `"n_predict":-1`, 0)
	f("/completion", `"n_predict":7,"prompt":[1,"a"]`, 7)
	f("/v1/chat/completions", `"max_tokens":5,"n_predict":7`, 7)
	f("/api/chat", `"options":{"temperature":0,"num_predict":7,"seed":1}`, 7)
	f("/api/generate", `"options":{"num_predict":-1}`, 0)
	f("/api/generate", `"options":null`, 0)
	f("/generate", `"inputs":"a","parameters":{"max_new_tokens":7,"details":true}`, 7)
	f("/generate_stream", `"parameters":{"max_new_tokens":null,"adapter_id":null}`, 0)
}

// Of the settings in an engine's own API, those count as engine fields by which a request chooses what the operator should.
func TestNativeSettings(t *testing.T) {
	t.Parallel()
	f := func(path, members, want string) {
		t.Helper()
		body, err := peekNative(t, path, `{"model":"m",`+members+`}`)
		if err != nil || body.EngineFields != only(want) {
			t.Errorf("%s %s: %x, %v", path, members, body.EngineFields, err)
		}
	}
	f("/api/chat", `"options":{"num_ctx":4096}`, "options")
	f("/api/generate", `"options":{"temperature":1,"num\u005fgpu":1}`, "options")
	f("/api/embed", `"options":{"main_gpu":0}`, "options")
	f("/api/chat", `"options":{"num_ctx":null}`, "")
	f("/api/chat", `"keep_alive":"5m"`, "keep_alive")
	f("/api/generate", `"template":"x"`, "template")
	f("/generate", `"parameters":{"adapter_id":"a"}`, "adapter_id")
	f("/generate", `"parameters":{"adapter_source":"hub"}`, "adapter_source")
	f("/v1/chat/completions", `"options":{"temperature":1}`, "options")
	f("/v1/chat/completions", `"parameters":{}`, "parameters")
	for path, members := range map[string][]string{
		"/api/chat": {`"options":[]`, `"options":{"Num_ctx":1}`, `"options":{"num_predict":1,"num_predict":2}`, `"options":{"num_ctx\u0000":1}`,
			`"options":{"NUM_PREDICT":1}`, `"options":{},"options":{"num_ctx":1}`, `"Options":{}`, `"options":{"num_ctx":1,"num_ctx":null}`},
		"/generate": {`"parameters":1`, `"parameters":{"adapter_id":null,"adapter_id":"a"}`, `"parameters":{"Adapter_id":"a"}`, `"parameters":{"best_of":"2"}`,
			`"parameters":{"max_new_tokens":1,"max_new_tokens":2}`},
	} {
		for _, member := range members {
			if _, err := peekNative(t, path, `{"model":"m",`+member+`}`); err == nil || err.Number != openai.NumberInvalidRequest {
				t.Errorf("%s accepts %s: %v", path, member, err)
			}
		}
	}
}

// Elements of what engines score, classify, tokenize and embed are bounded by max_inputs, and prompts to fill in by max_completions.
func TestNativeCounts(t *testing.T) {
	t.Parallel()
	f := func(path, members, param string) {
		t.Helper()
		body, err := peekNative(t, path, `{"model":"m",`+members+`}`)
		if err == nil {
			err = body.CheckCounts(openai.Limits{Completions: 2, Inputs: 3}, "m")
		}
		switch {
		case param == "" && err != nil, param != "" && (err == nil || err.Param != param):
			t.Errorf("%s %s: %v", path, members, err)
		}
	}
	f("/score", `"text_1":"q","text_2":["","",""]`, "")
	f("/score", `"text_1":["","",""],"text_2":["","",""]`, "")
	f("/score", `"text_1":"q","text_2":["","","",""]`, "text_2")
	f("/v1/score", `"query":"q","items":["","","",""]`, "items")
	f("/v1/score", `"queries":["","","",""],"documents":[""]`, "queries")
	f("/rerank", `"texts":["","","",""]`, "texts")
	f("/classify", `"input":["","","",""]`, "input")
	f("/classify", `"text":["","","",""]`, "text")
	f("/pooling", `"input":["","","",""]`, "input")
	f("/api/embed", `"input":["","","",""]`, "input")
	f("/tokenize", `"inputs":["","","",""]`, "inputs")
	f("/embed", `"inputs":["","","",""]`, "inputs")
	f("/embed", `"inputs":[1,2,3,4]`, "")
	f("/predict", `"inputs":[["a","b"],["c","d"],["",""],["",""]]`, "inputs")
	f("/tokenize", `"prompt":["","","",""]`, "prompt")
	f("/detokenize", `"tokens":[1,2,3,4]`, "")
	f("/infill", `"prompt":["","",""]`, "prompt")
	f("/completion", `"prompt":["",[1,2],{"prompt_string":""}]`, "prompt")
	f("/completion", `"n_cmpl":3`, "n_cmpl")
	f("/generate", `"parameters":{"best_of":3}`, "best_of")
	f("/score", `"text_2":[""],"text_2":["","","",""]`, "text_2")
	for path, refused := range map[string]bool{"/score": true, "/v1/chat/completions": false} { // where it is no field
		if _, err := peekNative(t, path, `{"model":"m","Text_2":["","","",""]}`); (err != nil) != refused {
			t.Errorf("%s with a field in upper case: %v", path, err)
		}
	}
}

var nativePaths = []string{"/v1/messages", "/v1/messages/count_tokens", "/tokenize", "/detokenize", "/score", "/v1/score", "/rerank", "/classify", "/pooling", "/embed", "/predict",
	"/infill", "/completion", "/api/chat", "/api/generate", "/api/embed", "/generate", "/generate_stream"}

// engineView is a body as an engine may read it: names in any letter case, the last of several.
type engineView struct {
	Model      string
	Stream     *bool
	NumPredict json.Number `json:"n_predict"`
	Options    map[string]any
	Parameters struct {
		Adapter *string `json:"adapter_id"`
	}
}

// No body that is accepted reads otherwise to a parser that takes the last of several members, in any letter case; and one that gets a model
// differs in that alone.
func FuzzPeekNative(f *testing.F) {
	for at := range nativePaths {
		for _, body := range []string{
			`{"model":"m","stream":false}`, `{"options":{"num_ctx":1,"num_predict":3},"model":"m"}`, `{"parameters":{"adapter_id":"a","best_of":2},"inputs":"x"}`,
			`{"text_1":["a"],"text_2":["b","c"]}`, `{ }`, `{"Stream":true}`, `{"n_predict":5,"prompt":["a",[1]]}`, `{"options":{"Num_ctx":1}}`,
		} {
			f.Add(uint8(at), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, at uint8, body []byte) {
		path := nativePaths[int(at)%len(nativePaths)]
		peeked, err := peekRoute(native(t, path), jsonType, body)
		if err != nil {
			return
		}
		var view engineView
		if err := json.Unmarshal(body, &view); err != nil {
			if _, wrongType := err.(*json.UnmarshalTypeError); !wrongType {
				t.Fatalf("an engine refuses %q: %v", body, err)
			}
		}
		if view.Model != peeked.Model {
			t.Fatalf("%q: an engine sees the model %q", body, view.Model)
		}
		if (path == "/infill" || path == "/completion") && (view.Stream != nil && *view.Stream) != peeked.Stream || path == "/api/chat" && (view.Stream == nil || *view.Stream) != peeked.Stream {
			t.Fatalf("%s %q: stream %v", path, body, peeked.Stream)
		}
		if strings.HasPrefix(path, "/api/") && view.Options["num_ctx"] != nil && peeked.EngineFields&only("options") == 0 {
			t.Fatalf("%q: num_ctx passes", body)
		}
		if strings.HasPrefix(path, "/generate") && view.Parameters.Adapter != nil && peeked.EngineFields&only("adapter_id") == 0 {
			t.Fatalf("%q: adapter_id passes", body)
		}
		out := peeked.Splice(nil, body, openai.Edit{Model: "edited"})
		want, got := decode(t, body), decode(t, out)
		want["model"] = "edited"
		if !reflect.DeepEqual(got, want) || bytes.Count(out, []byte(`"edited"`)) > bytes.Count(body, []byte(`"edited"`))+1 {
			t.Fatalf("%q became %q", body, out)
		}
	})
}

func peekRoute(route openai.Route, contentType string, body []byte) (described openai.Body, err *openai.Error) {
	err = described.Peek(route, contentType, body)
	return described, err
}
