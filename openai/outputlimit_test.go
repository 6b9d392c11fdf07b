package openai_test

import (
	"encoding/json"
	"testing"

	"colonnade/openai"
)

// A body that says nothing about the length of its answer gets the limit where its API has it; one that asks for more, under any name that an
// engine may know, is refused; all others stay as they are.
func TestLimitOutput(t *testing.T) {
	for _, c := range []struct {
		api        openai.API
		body, want string // want empty: refused
	}{
		{openai.Chat, `{"model":"m"}`, `{"model":"m","max_tokens":100}`},
		{openai.Chat, `{"model":"m" , "max_tokens" : null }`, `{"model":"m" , "max_tokens" : 100 }`},
		{openai.Chat, `{"max_completion_tokens":100,"model":"m"}`, `{"max_completion_tokens":100,"model":"m"}`},
		{openai.Chat, `{"max_completion_tokens":null,"model":"m"}`, `{"max_completion_tokens":null,"model":"m","max_tokens":100}`},
		{openai.Chat, `{"model":"m","max_tokens":101}`, ""},
		{openai.Chat, `{"model":"m","max_tokens":5,"n_predict":101}`, ""},
		{openai.Chat, `{"model":"m","max_tokens":-1}`, ""},
		{openai.Chat, `{"model":"m","max_tokens":1e9}`, ""},
		{openai.Chat, `{"model":"m","max\u005ftokens":101}`, ""},
		{openai.Chat, `{"model":"m","n_predict":7}`, `{"model":"m","n_predict":7,"max_tokens":100}`},
		{openai.Completions, `{"model":"m","prompt":"x"}`, `{"model":"m","prompt":"x","max_tokens":100}`},
		{openai.Responses, `{"model":"m","max_output_tokens":101}`, ""},
		{openai.Responses, `{"model":"m"}`, `{"model":"m","max_output_tokens":100}`},
		{openai.Messages, `{"model":"m","max_tokens":100}`, `{"model":"m","max_tokens":100}`},
		{openai.OllamaChat, `{"model":"m"}`, `{"model":"m","options":{"num_predict":100}}`},
		{openai.OllamaChat, `{"model":"m","options":{ }}`, `{"model":"m","options":{ "num_predict":100}}`},
		{openai.OllamaChat, `{"options":{"num_ctx":5},"model":"m"}`, `{"options":{"num_ctx":5,"num_predict":100},"model":"m"}`},
		{openai.OllamaChat, `{"options":{"num_predict":-1},"model":"m"}`, ""},
		{openai.OllamaChat, `{"options":null,"model":"m"}`, `{"options":{"num_predict":100},"model":"m"}`},
		{openai.Generate, `{"inputs":"x"}`, `{"inputs":"x","parameters":{"max_new_tokens":100}}`},
		{openai.Generate, `{"inputs":"x","parameters":{"max_new_tokens":50}}`, `{"inputs":"x","parameters":{"max_new_tokens":50}}`},
		{openai.Infill, `{}`, `{"n_predict":100}`},
		{openai.LlamaCompletions, `{"prompt":"x"}`, `{"prompt":"x","n_predict":100}`},
		{openai.LlamaCompletions, `{"prompt":"x","max_tokens":5}`, `{"prompt":"x","max_tokens":5,"n_predict":5}`},
		{openai.LlamaCompletions, `{"max_tokens":7,"n_predict":null,"max_completion_tokens":6}`, `{"max_tokens":7,"n_predict":6,"max_completion_tokens":6}`},
		{openai.LlamaCompletions, `{"max_tokens":5,"n_predict":9}`, `{"max_tokens":5,"n_predict":9}`},
		{openai.Infill, `{"max_tokens":101}`, ""},
		{openai.Embeddings, `{"model":"m"}`, `{"model":"m"}`},
	} {
		got, _, err := openai.LimitOutput(c.api, []byte(c.body), 100)
		switch {
		case c.want == "" && err == nil:
			t.Errorf("%s %s: accepted as %s", c.api, c.body, got)
		case c.want != "" && (err != nil || string(got) != c.want):
			t.Errorf("%s %s: %s, %v, want %s", c.api, c.body, got, err, c.want)
		}
	}
}

// A chat that is accepted asks for at most the limit, by any reader, and has all that it had.
func FuzzLimitOutput(f *testing.F) {
	addBodies(f)
	f.Add([]byte(`{"model":"m","max_tokens":null,"n_predict":3}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := openai.Peek(openai.Chat, jsonType, body); err != nil {
			return
		}
		got, _, err := openai.LimitOutput(openai.Chat, body, 100)
		if err != nil {
			return
		}
		var before, after map[string]json.RawMessage
		if json.Unmarshal(body, &before) != nil || json.Unmarshal(got, &after) != nil {
			t.Fatalf("%q became %q, which is no JSON", body, got)
		}
		if _, err := openai.Peek(openai.Chat, jsonType, got); err != nil {
			t.Fatalf("%q became %q: %v", body, got, err)
		}
		bounded := false
		for _, name := range []string{"max_tokens", "max_completion_tokens", "n_predict"} {
			n := 0
			if raw := after[name]; len(raw) > 0 && string(raw) != "null" {
				if json.Unmarshal(raw, &n) != nil || n < 0 || n > 100 {
					t.Fatalf("%q became %q, which asks for %s", body, got, raw)
				}
				bounded = bounded || name != "n_predict"
			}
		}
		if !bounded {
			t.Fatalf("%q became %q, which is not bounded", body, got)
		}
		for name, raw := range before {
			if name != "max_tokens" && string(after[name]) != string(raw) {
				t.Fatalf("%q became %q: %s differs", body, got, name)
			}
		}
	})
}
