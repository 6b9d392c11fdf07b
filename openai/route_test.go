package openai_test

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"colonnade/openai"
)

func TestParseRoute(t *testing.T) {
	f := func(line string, api openai.API, wantPath, model string) {
		t.Helper()
		method, target, _ := strings.Cut(line, " ")
		r, err := openai.ParseRoute([]byte(method), []byte(target))
		if err != nil || r != (openai.Route{API: api, Path: wantPath, Model: model}) {
			t.Errorf("%s: %+v, %v", line, r, err)
		}
	}
	f("POST /v1/chat/completions", openai.Chat, "/v1/chat/completions", "")
	f("POST /v1/chat/completions?api-version=1", openai.Chat, "/v1/chat/completions", "")
	f("POST http://host/v1/completions", openai.Completions, "/v1/completions", "")
	f("POST /v1/responses", openai.Responses, "/v1/responses", "")
	f("POST /v1/embeddings", openai.Embeddings, "/v1/embeddings", "")
	f("POST /v1/rerank", openai.Rerank, "/v1/rerank", "")
	f("POST /v1/images/generations", openai.Images, "/v1/images/generations", "")
	f("POST /v1/images/edits", openai.Images, "/v1/images/edits", "")
	f("POST /v1/images/variations", openai.Images, "/v1/images/variations", "")
	f("POST /v1/audio/speech", openai.Speech, "/v1/audio/speech", "")
	f("POST /v1/audio/transcriptions", openai.Transcriptions, "/v1/audio/transcriptions", "")
	f("POST /v1/audio/translations", openai.Transcriptions, "/v1/audio/translations", "")
	f("GET /v1/models", openai.ListModels, "/v1/models", "")
	f("GET /v1/models?limit=3", openai.ListModels, "/v1/models", "")
	f("HEAD /v1/models", openai.ListModels, "/v1/models", "")
	f("HEAD /v1/models/demo-chat", openai.GetModel, "/v1/models/{model}", "demo-chat")
	f("GET /v1/models/demo-chat", openai.GetModel, "/v1/models/{model}", "demo-chat")
	f("GET /v1/models/meta-llama%2FLlama-3.1", openai.GetModel, "/v1/models/{model}", "meta-llama/Llama-3.1")
	f("GET /v1/models/meta-llama%2fLlama-3.1?x=1", openai.GetModel, "/v1/models/{model}", "meta-llama/Llama-3.1")
	f("GET /v1/models/meta-llama/Llama-3.1", openai.GetModel, "/v1/models/{model}", "meta-llama/Llama-3.1")
	f("GET /v1/models/a+b%3Ac%40d", openai.GetModel, "/v1/models/{model}", "a+b:c@d")
	f("GET /v1/realtime?model=demo-realtime", openai.Realtime, "/v1/realtime", "demo-realtime")
	f("GET /v1/realtime?x=1&model=a%2Fb%2Bc&y", openai.Realtime, "/v1/realtime", "a/b+c")
	f("GET /v1/realtime?m%6fdel=a", openai.Realtime, "/v1/realtime", "a")
	f("POST /tokenize?model=a%2Fb", openai.Tokenize, "/tokenize", "a/b")
	f("POST /tokenize?x=1", openai.Tokenize, "/tokenize", "")
	f("POST /v1/embeddings?model=a", openai.Embeddings, "/v1/embeddings", "")
}

// Each path of other APIs than OpenAI's has the dialect of its API, errors of ParseRoute included.
func TestParseRouteDialect(t *testing.T) {
	for line, want := range map[string]openai.Route{
		"POST /v1/messages":                      {API: openai.Messages, Path: "/v1/messages", Dialect: openai.DialectAnthropic},
		"POST /v1/messages?beta=true":            {API: openai.Messages, Path: "/v1/messages", Dialect: openai.DialectAnthropic},
		"POST /v1/messages/count_tokens":         {API: openai.CountTokens, Path: "/v1/messages/count_tokens", Dialect: openai.DialectAnthropic},
		"POST /tokenize":                         {API: openai.Tokenize, Path: "/tokenize"},
		"POST /detokenize":                       {API: openai.Tokenize, Path: "/detokenize"},
		"POST /v1/score":                         {API: openai.Score, Path: "/v1/score"},
		"POST /score":                            {API: openai.Score, Path: "/score"},
		"POST /rerank":                           {API: openai.Rerank, Path: "/rerank"},
		"POST /v2/rerank":                        {API: openai.Rerank, Path: "/v2/rerank"},
		"POST /classify":                         {API: openai.Classify, Path: "/classify"},
		"POST /pooling":                          {API: openai.Pooling, Path: "/pooling"},
		"POST /infill":                           {API: openai.Infill, Path: "/infill"},
		"POST /completion":                       {API: openai.LlamaCompletions, Path: "/completion"},
		"POST /completions":                      {API: openai.LlamaCompletions, Path: "/completions"},
		"POST /api/chat":                         {API: openai.OllamaChat, Path: "/api/chat", Dialect: openai.DialectOllama},
		"POST /api/generate":                     {API: openai.OllamaGenerate, Path: "/api/generate", Dialect: openai.DialectOllama},
		"POST /api/embed":                        {API: openai.OllamaEmbed, Path: "/api/embed", Dialect: openai.DialectOllama},
		"POST /api/embeddings":                   {API: openai.OllamaEmbed, Path: "/api/embeddings", Dialect: openai.DialectOllama},
		"GET /api/tags":                          {API: openai.OllamaTags, Path: "/api/tags", Dialect: openai.DialectOllama},
		"GET /api/ps":                            {API: openai.OllamaRunning, Path: "/api/ps", Dialect: openai.DialectOllama},
		"HEAD /api/version":                      {API: openai.OllamaVersion, Path: "/api/version", Dialect: openai.DialectOllama},
		"POST /api/version":                      {Dialect: openai.DialectOllama},
		"POST /embed":                            {API: openai.Embeddings, Path: "/embed", Dialect: openai.DialectTEI},
		"HEAD /api/tags":                         {API: openai.OllamaTags, Path: "/api/tags", Dialect: openai.DialectOllama},
		"POST /api/show":                         {API: openai.OllamaShow, Path: "/api/show", Dialect: openai.DialectOllama},
		"POST /generate":                         {API: openai.Generate, Path: "/generate", Dialect: openai.DialectTGI},
		"POST /generate_stream":                  {API: openai.Generate, Path: "/generate_stream", Dialect: openai.DialectTGI},
		"GET /v1/messages":                       {Dialect: openai.DialectAnthropic},
		"POST /v1/messages/batches":              {Dialect: openai.DialectAnthropic},
		"POST /api/tags":                         {Dialect: openai.DialectOllama},
		"GET /api/me":                            {Dialect: openai.DialectOllama},
		"GET /generate":                          {Dialect: openai.DialectTGI},
		"POST http://host/v1/messages/batches?x": {Dialect: openai.DialectAnthropic},
	} {
		method, target, _ := strings.Cut(line, " ")
		r, err := openai.ParseRoute([]byte(method), []byte(target))
		if r != want || (err == nil) != (want.API != 0) {
			t.Errorf("%s: %+v, %v", line, r, err)
		}
	}
}

func TestParseRouteRefuses(t *testing.T) {
	f := func(line string, number int) *openai.Error {
		t.Helper()
		method, target, _ := strings.Cut(line, " ")
		r, err := openai.ParseRoute([]byte(method), []byte(target))
		if err == nil || err.Number != number {
			t.Errorf("%s: %+v, %v", line, r, err)
			return new(openai.Error)
		}
		return err
	}
	if err := f("POST /chat/completions?api-key=secret", 40003); !strings.Contains(err.Message, "the base URL must end in /v1") ||
		!strings.Contains(err.Message, `"/chat/completions"`) || strings.Contains(err.Message, "secret") {
		t.Errorf("message %q", err.Message)
	}
	if err := f("POST /v1/moderations?x=secret", 40003); err.Message != `unknown URL "/v1/moderations": this server has no such path` {
		t.Errorf("message %q", err.Message)
	}
	if err := f("GET /v1", 40003); !strings.Contains(err.Message, "such as /v1/models") {
		t.Errorf("message %q", err.Message)
	}
	for _, target := range []string{
		"/", "", "*", "/v1", "/v1/", "/v2/chat/completions", "/V1/chat/completions", "/v1/Chat/completions",
		"/v1/chat/completions/", "//v1/chat/completions", "/v1//chat/completions", "/v1/chat//completions",
		"/v1/./chat/completions", "/v1/chat/../chat/completions", "/../v1/chat/completions", "/v1/chat/completions/..",
		"/v1/chat/%63ompletions", "/v1/chat%2fcompletions", "/v1%2Fchat/completions", "/%76%31/chat/completions",
		"/v1/%2e/chat/completions", "/v1/%2e%2e/v1/chat/completions", "/v1/%252e%252e/v1/chat/completions",
		"/v1/chat/completions;x=1", "/v1;/chat/completions", "/v1/chat/completions%00", "/v1/chat/completions%0d%0aX: y",
		"/v1\\chat\\completions", "/v1/chat/completions\x00", "/v1/chat/completions?\x00", "/v1/chat/completions?\u00e4", "/v1/chat/completions ", "/v1/chat/completions#x",
		"/v1/v1/chat/completions", "/v1/chat", "/v1/images", "/v1/images/x", "/v1/audio/", "/health",
		"http://host", "http://host?/v1/chat/completions", "gopher://host/v1/chat/completions",
	} {
		if err := f("POST "+target, 40003); err.Status != 404 {
			t.Errorf("%q: status %d", target, err.Status)
		}
	}
	for _, name := range []string{"", "/", "..", ".", "../chat", "a/../b", "a/./b", "a//b", "a/", "/a", "%2e%2e", "a%2f..%2fb", "a%2F%2Fb",
		"a%2f", "%2fa", "%252e%252e", "a%252fb", "a%", "a%2", "a%zz", "a%00", "a%0d%0a", "a b", "a%20b", "a;b", "a%3bb", "a%5cb", "a\\b",
		"-a", ".a", "%c3%a4", "%ff", "a#b", strings.Repeat("a", 300)} {
		f("GET /v1/models/"+name, 40003)
	}
	for line, allow := range map[string]string{
		"GET /v1/chat/completions": "POST", "post /v1/chat/completions": "POST", "PUT /v1/embeddings": "POST",
		"POST /v1/models": "GET, HEAD", "DELETE /v1/models/a": "GET, HEAD", "POST /v1/realtime": "GET", "HEAD /v1/realtime?model=a": "GET",
		"HEAD /v1/chat/completions": "POST", "head /v1/models": "GET, HEAD",
	} {
		if err := f(line, 40501); err.Allow != allow || err.Status != 405 {
			t.Errorf("%s: %+v", line, err)
		}
	}
	for _, query := range []string{"", "?", "?model=", "?model", "?Model=a", "?model=a&model=a", "?model=a&m%6fdel=b", "?model=a&MODEL=b",
		"?model=a;model=b", "?x;model=a", "?model=%", "?model=%zz", "?model=%ff", "?model=a%00", "?model=a%0a", "?mod%el=a"} {
		if err := f("GET /v1/realtime"+query, 40001); err.Param != "model" {
			t.Errorf("%q: param %q", query, err.Param)
		}
	}
	f("GET /v1/realtime?model="+strings.Repeat("a", 300), 40002)
	for _, query := range []string{"?model=", "?Model=a", "?model=a&model=a", "?model=a;b", "?model=%ff"} {
		if err := f("POST /tokenize"+query, 40001); err.Param != "model" {
			t.Errorf("%q: param %q", query, err.Param)
		}
	}
}

// A route is a fixed path spelled exactly, or a model's name whose meaning does not depend on the reader; a query has
// one model, the same as for net/url.
func FuzzParseRoute(f *testing.F) {
	for _, target := range []string{"/v1/models/a%2F..%2fb", "/v1/models/a", "/v1/chat/completions?x", "http://h/v1/models", "/v1/models/%252e",
		"/v1/realtime?model=a&m%6fdel=b", "/v1/realtime?model=a+b", "/v1/./models", "//v1/models", "/v1/models;/a", "/tokenize?model=a&m%6fdel=b", "/infill?mod%65l=a+b"} {
		f.Add("GET", target)
		f.Add("POST", target)
	}
	f.Fuzz(func(t *testing.T, method, target string) {
		r, err := openai.ParseRoute([]byte(method), []byte(target))
		if err != nil {
			return
		}
		if method != "GET" && method != "POST" {
			t.Errorf("%s %q: method", method, target)
		}
		u, parseErr := url.ParseRequestURI(target)
		if parseErr != nil {
			t.Fatalf("%q: net/url refuses: %v", target, parseErr)
		}
		switch r.API {
		case openai.GetModel:
			if whole := "/v1/models/" + r.Model; u.Path != whole || path.Clean(whole) != whole || strings.ContainsAny(r.Model, "%\\;\x00 ") {
				t.Errorf("%q: model %q", target, r.Model)
			}
			return
		case openai.Realtime, openai.Tokenize, openai.Infill, openai.LlamaCompletions:
			if values := u.Query()["model"]; r.Model == "" && len(values) == 0 && r.API != openai.Realtime {
				break
			}
			if values := u.Query()["model"]; len(values) != 1 || values[0] != r.Model {
				t.Errorf("%q: model %q but %q", target, r.Model, values)
			}
		}
		if u.EscapedPath() != r.Path || path.Clean(r.Path) != r.Path || !strings.Contains(target, r.Path) {
			t.Errorf("%q: path %q", target, r.Path)
		}
	})
}
