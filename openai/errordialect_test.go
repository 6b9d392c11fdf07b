package openai_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"colonnade/openai"
)

func TestAppendBody(t *testing.T) {
	f := func(e *openai.Error, anthropic, tgi, tei string) {
		t.Helper()
		var a struct {
			Type      string
			RequestID string `json:"request_id"`
			Error     struct {
				Type, Message, Reason string
				Number                int
			}
		}
		var o, g, h map[string]any
		for d, to := range map[openai.Dialect]any{openai.DialectAnthropic: &a, openai.DialectOllama: &o, openai.DialectTGI: &g, openai.DialectTEI: &h} {
			body := e.AppendBody([]byte(" "), d, "req")
			if err := json.Unmarshal(body, to); err != nil || body[0] != ' ' {
				t.Fatalf("%s: %v", body, err)
			}
		}
		if a.Type != "error" || a.RequestID != "req" || a.Error.Type != anthropic || a.Error.Message != e.Message || a.Error.Number != e.Number || a.Error.Reason != e.Reason {
			t.Errorf("Anthropic: %+v", a)
		}
		if o["error"] != e.Message || o["code"] != e.Code || o["request_id"] != "req" {
			t.Errorf("Ollama: %v", o)
		}
		if g["error"] != e.Message || g["error_type"] != tgi || g["number"] != float64(e.Number) {
			t.Errorf("TGI: %v", g)
		}
		if h["error"] != e.Message || h["error_type"] != tei || h["number"] != float64(e.Number) {
			t.Errorf("TEI: %v", h)
		}
		if got, want := string(e.AppendBody(nil, openai.DialectOpenAI, "req")), string(e.AppendJSON(nil, "req")); got != want {
			t.Errorf("OpenAI: %s", got)
		}
	}
	f(openai.InvalidRequest("x", "no \"good\" ü\n"), "invalid_request_error", "validation", "Validation")
	f(openai.ModelNotFound("m"), "not_found_error", "model_not_found", "model_not_found")
	f(openai.InvalidAPIKey("no key"), "authentication_error", "invalid_api_key", "invalid_api_key")
	f(openai.NoModelAllowed(), "permission_error", "model_not_allowed", "model_not_allowed")
	f(openai.MethodNotAllowed("PUT", "POST"), "invalid_request_error", "method_not_allowed", "method_not_allowed")
	f(openai.RequestTimeout("late"), "timeout_error", "request_timeout", "request_timeout")
	f(openai.RequestTooLarge(5), "request_too_large", "validation", "Validation")
	f(openai.RateLimited("rate_limited", time.Second), "rate_limit_error", "overloaded", "Overloaded")
	f(openai.OutOfCapacity("queue_full", time.Second), "rate_limit_error", "overloaded", "Overloaded")
	f(openai.BudgetSpent("spent", time.Hour), "billing_error", "insufficient_quota", "insufficient_quota")
	f(openai.Internal(), "api_error", "generation", "Backend")
	f(openai.EngineFailed("truncated"), "api_error", "generation", "Backend")
	f(openai.Unavailable("draining", time.Second), "overloaded_error", "overloaded", "Overloaded")
	f(openai.InferenceTimeout("idle_timeout"), "timeout_error", "generation", "Backend")
}

func TestDialectOf(t *testing.T) {
	f := func(target string, anthropic bool, want openai.Dialect) {
		t.Helper()
		if got := openai.DialectOf([]byte(target), anthropic); got != want {
			t.Errorf("%q: %v", target, got)
		}
	}
	f("/v1/messages?beta=true", false, openai.DialectAnthropic)
	f("http://x/v1/messages/count_tokens", false, openai.DialectAnthropic)
	f("/v1/messages/batches", false, openai.DialectAnthropic)
	f("/api/chat", false, openai.DialectOllama)
	f("/api/pull", false, openai.DialectOllama)
	f("/generate_stream", false, openai.DialectTGI)
	f("/embed", false, openai.DialectTEI)
	f("/v1/models", true, openai.DialectAnthropic)
	f("/v1/models/m", true, openai.DialectAnthropic)
	f("/v1/models", false, openai.DialectOpenAI)
	f("/v1/chat/completions", true, openai.DialectOpenAI)
	f("", false, openai.DialectOpenAI)
	f("*", true, openai.DialectOpenAI)
}

// The dialect of a path that engines of several kinds have is the one that those of a pool have in common, and OpenAI's without one.
func TestDialectWith(t *testing.T) {
	f := func(path string, want openai.Dialect, kinds ...string) {
		t.Helper()
		var engines openai.Engines
		for _, kind := range kinds {
			engines = engines.With(kind)
		}
		r, err := openai.ParseRoute([]byte("POST"), []byte(path))
		if got := r.DialectWith(engines); err != nil || got != want {
			t.Errorf("%s with %q: %v, want %v", path, kinds, got, want)
		}
	}
	f("/tokenize", openai.DialectOpenAI)
	f("/tokenize", openai.DialectTGI, "tgi")
	f("/tokenize", openai.DialectTEI, "tei")
	f("/tokenize", openai.DialectOpenAI, "tgi", "tei")
	f("/tokenize", openai.DialectOpenAI, "vllm")
	f("/tokenize", openai.DialectOpenAI, "vllm", "llamacpp", "sglang", "openai")
	f("/tokenize", openai.DialectOpenAI, "tei", "vllm")
	f("/tokenize", openai.DialectTEI, "tei", "ollama") // which does not have it
	f("/tokenize", openai.DialectOpenAI, "ollama")
	f("/rerank", openai.DialectTEI, "tei")
	f("/rerank", openai.DialectTEI, "tei", "tgi")
	f("/rerank", openai.DialectOpenAI, "llamacpp")
	f("/v1/chat/completions", openai.DialectOpenAI, "tgi")
	f("/v1/embeddings", openai.DialectOpenAI, "tei")
	f("/v1/messages", openai.DialectAnthropic, "tgi")
	f("/embed", openai.DialectTEI, "vllm")
	f("/generate", openai.DialectTGI)
}

// An engine's own error passes if it has the shape of the client's API, and otherwise gets it, with the engine's words.
func TestWrapClientErrorByDialect(t *testing.T) {
	const (
		inOpenAI    = `{"error":{"message":"too long","type":"BadRequestError","code":400}}`
		inAnthropic = `{"type":"error","error":{"type":"invalid_request_error","message":"too long"}}`
		inOllama    = `{"error":"too long"}`
		inTGI       = `{"error":"too long","error_type":"validation"}`
	)
	passes := map[openai.Dialect][]string{
		openai.DialectOpenAI: {inOpenAI, inAnthropic}, openai.DialectAnthropic: {inAnthropic}, openai.DialectOllama: {inOllama, inTGI}, openai.DialectTGI: {inTGI}, openai.DialectTEI: {inTGI},
	}
	for d, unchanged := range passes {
		for _, body := range []string{inOpenAI, inAnthropic, inOllama, inTGI, inOllama + "x", "<html>", ""} {
			got := string(openai.WrapClientError(d, 422, []byte(body), "req"))
			kept := false
			for _, same := range unchanged {
				kept = kept || same == body
			}
			if kept != (got == body) {
				t.Errorf("%v: %s became %s", d, body, got)
			}
			if e := openai.ParseClientError(422, []byte(got)); strings.Contains(body, "too long") && !strings.HasSuffix(body, "x") && !strings.HasSuffix(e.Message, "too long") {
				t.Errorf("%v: %s became %s, which says %q", d, body, got, e.Message)
			}
			if again := string(openai.WrapClientError(d, 422, []byte(got), "req")); again != got {
				t.Errorf("%v: %s has not the shape", d, got)
			}
		}
	}
}

// Usage in whole answers of engines' own APIs, also if they are too long to be held.
func TestNativeBodyUsage(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	f := func(a openai.API, body string, want openai.Usage, ok bool) {
		t.Helper()
		if got, is, end := openai.ReadBody(a, []byte(body)); is != ok || ok && got != want || ok && end != openai.JSONClosed {
			t.Errorf("%v %.200s: %+v, %v, end %v", a, body, got, is, end)
		}
		inPieces(body, func(pieces []string, size int) {
			l := openai.UsageScanner{API: a}
			for _, p := range pieces {
				l.Write([]byte(p))
			}
			if got, is := l.Usage(); is != ok || ok && got != want {
				t.Errorf("%v %.200s in pieces of %d: %+v, %v", a, body, size, got, is)
			}
		})
	}
	f(openai.Messages, `{"type":"message","content":[{"type":"text","text":"`+long+`"}],"usage":{"input_tokens":3,"cache_read_input_tokens":4,"cache_creation_input_tokens":5,"output_tokens":6}}`,
		openai.Usage{Prompt: 12, Completion: 6, Cached: 4}, true)
	f(openai.Messages, `{"usage":{"input_tokens":3,"cache_read_input_tokens":null,"output_tokens":6}}`, openai.Usage{Prompt: 3, Completion: 6}, true)
	f(openai.OllamaChat, `{"message":{"content":"`+long+`"},"done":true,"prompt_eval_count":3,"eval_count":4}`, openai.Usage{Prompt: 3, Completion: 4}, true)
	f(openai.OllamaGenerate, `{"response":"x","done":true,"eval_count":4}`, openai.Usage{Completion: 4}, true)
	f(openai.OllamaEmbed, `{"embeddings":[[`+strings.Repeat("0.5,", 50<<10)+`1]],"prompt_eval_count":3}`, openai.Usage{Prompt: 3}, true)
	f(openai.Generate, `{"generated_text":"`+long+`","details":{"generated_tokens":5,"prefill":[],"tokens":[{"id":1},{"id":2}]}}`, openai.Usage{Completion: 5}, true)
	f(openai.Infill, `{"index":0,"content":"`+long+`","tokens_predicted":2,"tokens_evaluated":8,"timings":{"cache_n":3}}`, openai.Usage{Prompt: 8, Completion: 2, Cached: 3}, true)
	// Several prompts get a list.
	one := `{"index":0,"content":"` + long[:100<<10] + `","stop":true,"generation_settings":{"samplers":["a","b"]},"tokens_predicted":2,"tokens_evaluated":8,"timings":{"cache_n":3}}`
	f(openai.LlamaCompletions, ` [`+one+`, {"index":1,"tokens_predicted":1,"tokens_evaluated":4} ,`+one+` ] `, openai.Usage{Prompt: 20, Completion: 5, Cached: 6}, true)
	f(openai.LlamaCompletions, `[`+one+`]`, openai.Usage{Prompt: 8, Completion: 2, Cached: 3}, true)
	f(openai.LlamaCompletions, `[{"x":`+one+`},[`+one+`]]`, openai.Usage{}, false)
	for _, a := range []openai.API{openai.Messages, openai.OllamaChat, openai.OllamaEmbed, openai.Generate, openai.Infill, openai.LlamaCompletions} {
		for _, body := range []string{``, `{}`, `[]`, `{"usage":null}`, `{"details":null,"usage":[],"timings":1,"message":7}`, `{"eval_count":-1,"tokens_predicted":"x"}`,
			`{"eval_count":1,"tokens_predicted":1,"usage":{"input_tokens":1},"details":{"generated_tokens":1}`} {
			f(a, body, openai.Usage{}, false)
		}
	}
	// LiteLLM says Anthropic's counts beside OpenAI's, which include them.
	f(openai.Chat, `{"usage":{"prompt_tokens":9,"completion_tokens":2,"cache_read_input_tokens":5}}`, openai.Usage{Prompt: 9, Completion: 2}, true)
}
