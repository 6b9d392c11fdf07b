package openai_test

import (
	"testing"

	"colonnade/openai"
)

// Which kinds of engines have a path, and for which it is translated.
func TestEngineHas(t *testing.T) {
	t.Parallel()
	kinds := []string{"vllm", "sglang", "tgi", "tei", "llamacpp", "ollama", "triton", "openai"}
	const passed, translated = 'p', 't'
	for path, want := range map[string]string{ // by kind: passed, translated, or not
		"/v1/chat/completions":  "pppppppp",
		"/v1/rerank":            "pppppppp",
		"/v1/messages":          "ppt-pptt",
		"/infill":               "----p---",
		"/completion":           "----p---",
		"/completions":          "----p---",
		"/embed":                "---p----",
		"/predict":              "---p----",
		"/api/chat":             "-p---p--",
		"/api/embed":            "-----p--",
		"/generate_stream":      "--p-----",
		"/score":                "p------p",
		"/tokenize":             "ppppp--p",
		"/v1/models/{model}":    "--------",
		"/v1/chat/completions/": "--------",
	} {
		route := openai.Route{Path: path}
		for i, kind := range kinds {
			expected := openai.Unsupported
			switch want[i] {
			case passed:
				expected = openai.Passed
			case translated:
				expected = openai.Translated
			}
			if got := openai.EngineHas(kind, route); got != expected {
				t.Errorf("%s %s: %d, want %d", kind, path, got, expected)
			}
		}
	}
}

// A path that costs an engine next to nothing takes no slot.
func TestFreeRoutes(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"/tokenize": true, "/detokenize": true, "/decode": true, "/embed": false, "/v1/messages/count_tokens": true, "/v1/messages": false, "": false} {
		if got := (openai.Route{Path: path}).Free(); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}
