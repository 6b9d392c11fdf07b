package openai_test

import (
	"strings"
	"testing"

	"colonnade/openai"
)

func TestClassifyStatus(t *testing.T) {
	want := map[openai.EngineClass][]int{
		openai.Relay:         {200, 201, 204, 206, 299},
		openai.ClientError:   {400, 413, 422},
		openai.Misconfigured: {401, 402, 403, 404, 405, 406, 410, 411, 415, 418, 431, 451},
		openai.Failed:        {0, 100, 101, 103, 199, 300, 301, 302, 304, 307, 399, 408, 409, 424, 500, 501, 502, 504, 529, 599, 600, 999},
		openai.Full:          {429, 503},
	}
	for class, statuses := range want {
		for _, status := range statuses {
			if got := openai.ClassifyStatus(status); got != class {
				t.Errorf("%d: %v instead of %v", status, got, class)
			}
		}
	}
}

func TestWrapClientError(t *testing.T) {
	same := func(body string) {
		t.Helper()
		if got := string(openai.WrapClientError(openai.DialectOpenAI, 400, []byte(body), "req")); got != body {
			t.Errorf("%q became %q", body, got)
		}
	}
	same(`{"error":{"message":"context too long","type":"BadRequestError","param":null,"code":400}}`)
	same(` {"x":[],"error":{"code":400,"message":"","type":"x"}} `)
	f := func(status int, body, says string) {
		t.Helper()
		w := decodeError(t, openai.WrapClientError(openai.DialectOpenAI, status, []byte(body), "req")).Error
		if !strings.HasSuffix(w.Message, says) || w.Type != "invalid_request_error" || text(w.RequestID) != "req" {
			t.Errorf("%q became %+v", body, w)
		}
		if want := map[int]string{413: "request_too_large"}[status]; want != "" && w.Code != want {
			t.Errorf("%d: code %q", status, w.Code)
		}
	}
	const plain = "refused the request"
	f(400, `{"object":"error","message":"too \"long\" \u00fc","code":400}`, `: too "long" ü`)
	f(422, `{"error":"Input validation error","error_type":"validation"}`, ": Input validation error")
	f(422, `{"detail":"bad thing"}`, ": bad thing")
	f(422, `{"detail":[{"loc":["body"],"msg":"Field required"},{"msg":"other"}]}`, ": Field required")
	f(422, `{"detail":[1,[],{}]}`, plain)
	f(400, `{"error":{"text":"x"}}`, plain)
	f(400, `{"error":{"message":7}}`, plain)
	f(400, `{"error":null}`, plain)
	f(400, `{"error":{"message":"x"}} trailing`, plain)
	f(400, `{"error":{"message":"x"}`, plain)
	f(400, `[]`, plain)
	f(400, `<html>no</html>`, plain)
	f(400, ``, plain)
	f(413, `nginx`, "too large for the inference engine")
	f(400, `{"message":"`+strings.Repeat("ü", 3000)+`"}`, strings.Repeat("ü", 1000))
	f(400, `{"message":`+strings.Repeat("[", 5000), plain)
}

func TestBodyUsage(t *testing.T) {
	f := func(body string, want openai.Usage, ok bool) {
		t.Helper()
		if got, is := openai.BodyUsage(openai.Chat, []byte(body)); is != ok || ok && got != want {
			t.Errorf("%s: %+v, %v", body, got, is)
		}
	}
	f(`{"id":"x","choices":[{"message":{"content":"usage"}}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,`+
		`"prompt_tokens_details":{"audio_tokens":9,"cached_tokens":1}}}`, openai.Usage{Prompt: 1, Completion: 2, Cached: 1}, true)
	f(`{"usage":{"input_tokens":4,"input_tokens_details":{"cached_tokens":2},"output_tokens":5}}`, openai.Usage{Prompt: 4, Completion: 5, Cached: 2}, true)
	f(`{"usage":{"prompt_tokens":8,"total_tokens":8}}`, openai.Usage{Prompt: 8}, true)
	f(`{"usage":{"total_tokens":8}}`, openai.Usage{Prompt: 8}, true)
	f(`{"text":"hi","usage":{"type":"duration","seconds":27}}`, openai.Usage{Seconds: 27}, true)
	f(`{"text":"hi","duration":0.42,"usage":{"type":"duration","seconds":0.42e1}}`, openai.Usage{Seconds: 4.2}, true)
	f(`{"text":"hi","usage":{"type":"tokens","input_tokens":14,"input_token_details":{"text_tokens":0,"audio_tokens":14},"output_tokens":101,"total_tokens":115}}`,
		openai.Usage{Prompt: 14, Completion: 101}, true)
	f(`{"results":[{"index":0,"relevance_score":0.9}],"usage":{"prompt_tokens":56,"total_tokens":56}}`, openai.Usage{Prompt: 56}, true)
	f(`{"us\u0061ge":{"total_tokens":8}}`, openai.Usage{Prompt: 8}, true)
	f("{\"text\":\"\xff\",\"usage\":{\"total_tokens\":8}}", openai.Usage{Prompt: 8}, true)
	f(`{"usage":{"prompt_tokens":1,"prompt_tokens_details":null}}`, openai.Usage{Prompt: 1}, true)
	// llama.cpp has them beside the usage, too.
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":1},"timings":{"cache_n":6,"prompt_n":3}}`, openai.Usage{Prompt: 9, Completion: 1, Cached: 6}, true)
	f(`{"timings":{"cache_n":6},"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}`, openai.Usage{Prompt: 9, Cached: 4}, true)
	f(`{"timings":{"cache_n":60},"usage":{"prompt_tokens":9}}`, openai.Usage{Prompt: 9, Cached: 9}, true)
	f(`{"timings":{"cache_n":6}}`, openai.Usage{}, false)
	for _, none := range []string{``, `{}`, `{"usage":null}`, `{"usage":[]}`, `{"usage":{}}`, `{"usage":{"prompt_tokens":"1"}}`, `{"usage":{"prompt_tokens":-1}}`,
		`{"x":{"usage":{"prompt_tokens":1}}}`, `[{"usage":{"prompt_tokens":1}}]`, `{"usage":{"prompt_tokens":1}`, `{"usage":{"prompt_tokens":1}} x`,
		`{"usage":{"prompt_tokens":1234567890123456}}`, `{"usage":{"type":"duration"}}`, `{"usage":{"seconds":"5"}}`, `{"usage":{"seconds":-5}}`,
		`{"usage":{"seconds":1e300}}`, `{"usage":{"seconds":null}}`} {
		f(none, openai.Usage{}, false)
	}
}

// Usage equals what encoding/json finds, if each field occurs once.
func FuzzBodyUsage(f *testing.F) {
	f.Add([]byte(`{"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}}`))
	f.Add([]byte(`{"x":[{}],"usage":{"input_tokens":1,"output_tokens":2}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, ok := openai.BodyUsage(openai.Chat, body)
		root := parseNode(body)
		if root.deep() > 200 {
			return
		}
		model := streamModel{}
		for _, usage := range root.all("usage") {
			model.hasUsage = false // the last counts, also if it is null
			model.readUsage(usage)
		}
		if ok != model.hasUsage || ok && got != model.usage {
			t.Errorf("%q: %+v, %v instead of %+v, %v", body, got, ok, model.usage, model.hasUsage)
		}
	})
}

func TestAPIString(t *testing.T) {
	if openai.Chat.String() != "chat" || openai.GetModel.String() != "get_model" || openai.API(99).String() != "unknown" {
		t.Error("names are off")
	}
}
