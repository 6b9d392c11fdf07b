package openai_test

import (
	"slices"
	"strings"
	"testing"

	"colonnade/openai"
)

// Each type serves paths, and the error for another path lists them.
func TestTypeServes(t *testing.T) {
	t.Parallel()
	generating := []openai.API{openai.Completions, openai.Tokenize, openai.Infill, openai.LlamaCompletions, openai.OllamaGenerate, openai.Generate}
	vectors := []openai.API{openai.Rerank, openai.Score, openai.Pooling, openai.Tokenize}
	types := map[string][]openai.API{
		"chat":       append([]openai.API{openai.Chat, openai.Responses, openai.Messages, openai.CountTokens, openai.OllamaChat}, generating...),
		"completion": generating,
		"embedding":  append([]openai.API{openai.Embeddings, openai.OllamaEmbed}, vectors...),
		"rerank":     append([]openai.API{openai.Classify}, vectors...),
		"audio":      {openai.Speech, openai.Transcriptions}, "image": {openai.Images}, "realtime": {openai.Realtime},
	}
	for modelType, apis := range types {
		if modelType != "realtime" && modelType != "generic" {
			types["generic"] = append(types["generic"], apis...)
		}
	}
	for modelType, want := range types {
		for api := openai.Chat; api <= openai.GetModel; api++ {
			if got := openai.TypeServes(modelType, api); got != slices.Contains(want, api) {
				t.Errorf("%s serves %s: %v", modelType, api, got)
			}
		}
	}
	e := openai.PathNotOfType("e5", "embedding", "/v1/chat/completions")
	if want := `the model "e5" is of type embedding, which does not serve /v1/chat/completions: it serves /v1/embeddings, ` +
		"/v1/rerank, /v2/rerank, /rerank, /v1/reranking, /reranking, /v1/score, /score, /pooling, /embed, /v1/tokenize, /v1/detokenize, /tokenize, /detokenize, /decode, /api/embed, /api/embeddings"; e.Message != want || e.Status != 404 {
		t.Errorf("%d %s, want %s", e.Status, e.Message, want)
	}
	e = openai.PathNotServed("llama", "chat", "/v1/responses", 0)
	if want := `the engines of the model "llama" do not have /v1/responses; a model of type chat may serve /v1/chat/completions, ` +
		"/v1/completions, /v1/messages, /v1/messages/count_tokens, /v1/tokenize, /v1/detokenize, /tokenize, /detokenize, /decode, /infill, /completion, /completions, /api/chat, /api/generate, /generate, /generate_stream"; e.Message != want {
		t.Errorf("%s, want %s", e.Message, want)
	}
}

// The error for a path that the engines do not have lists those that engines of their kinds have.
func TestPathNotServedByEngines(t *testing.T) {
	t.Parallel()
	var engines openai.Engines
	e := openai.PathNotServed("llama", "completion", "/infill", engines.With("tgi").With("ollama"))
	want := `the engines of the model "llama" do not have /infill; they may have /v1/completions, /tokenize, /api/generate, /generate, /generate_stream`
	if e.Message != want || e.Status != 404 {
		t.Errorf("%d %s, want %s", e.Status, e.Message, want)
	}
	if a, b := engines.With("anything"), engines.With("openai"); a != b {
		t.Errorf("an unknown kind: %b, not %b", a, b)
	}
}

// An engine that refuses the gateway is a mistake in the fleet, and the client learns which.
func TestEngineMisconfigured(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{401: "credential", 403: "permit", 404: "path", 405: "method", 418: "418", 200: "form of the API", 301: "failed"} {
		if e := openai.EngineMisconfigured("endpoint_misconfigured", status); e.Status != 502 || !e.NoRetry || !strings.Contains(e.Message, want) {
			t.Errorf("%d: %+v", status, e)
		}
	}
}

// The names in an engine's list of models are read, those of adapters included.
func TestListedModels(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]string{
		`{"object":"list","data":[{"id":"base","parent":null,"permission":[{"id":"x"}]},{"id":"sql\u002dv1","parent":"base"},{"object":"model"}]}`: {"base", "sql-v1"},
		`{"data":[]}`: {},
		// A router of llama.cpp: tools/server/server-models.cpp of ggml-org/llama.cpp.
		`{"data":[{"id":"a","status":{"value":"unloaded","args":["x"]}},{"id":"b","status":{"value":"loaded"}},{"status":{"value":"sleeping"},"id":"c"}]}`: {"b", "c"},
	} {
		if got, ok := openai.ListedModels([]byte(body)); !ok || !slices.Equal(got, want) {
			t.Errorf("%s: %q %v", body, got, ok)
		}
	}
	for _, body := range []string{"", "{}", `{"data":{}}`, `{"data":[{"id":"a"}`, "[]", `{"data":null}`} {
		if got, ok := openai.ListedModels([]byte(body)); ok {
			t.Errorf("%s: %q", body, got)
		}
	}
}
