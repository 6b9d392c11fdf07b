package simengine

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Each kind of engine loads and unloads in its own way, and says in its own words why it does not.
func TestLoading(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, path, body string
		status           int
		says             string
	}{
		{"vllm", "/v1/load_lora_adapter", `{"lora_name": "sql", "lora_path": "/sql"}`, 200, "added successfully"},
		{"vllm", "/v1/load_lora_adapter", `{"lora_name": "sql"}`, 400, "must be provided"},
		{"vllm", "/v1/unload_lora_adapter", `{"lora_name": "sql"}`, 404, "cannot be found"},
		{"sglang", "/load_lora_adapter", `{"lora_name": "sql", "lora_path": "/sql"}`, 200, `"sql"`},
		{"sglang", "/unload_lora_adapter", `{"lora_name": "sql"}`, 400, "error_message"},
		{"ollama", "/api/generate", `{"model": "demo", "keep_alive": -1}`, 200, `"done_reason":"load"`},
		{"ollama", "/api/generate", `{"model": "demo", "keep_alive": 0}`, 200, `"done_reason":"unload"`},
		{"ollama", "/api/generate", `{"model": "other", "keep_alive": 0}`, 404, "not found"},
		{"llamacpp", "/models/load", `{"model": "demo"}`, 200, `"success":true`},
		{"llamacpp", "/models/unload", `{"model": "other"}`, 400, "not found"},
		{"triton", "/v2/repository/models/sql/load", `{}`, 200, ""},
		{"triton", "/v2/repository/models/missing/load", `{}`, 400, "failed to load"},
		{"tgi", "/v1/load_lora_adapter", `{}`, 404, "no such path"},
	} {
		e := New(Config{Kind: c.kind})
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body)))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s %s: %d %s, want %d with %q", c.kind, c.path, c.body, w.Code, w.Body, c.status, c.says)
		}
		e.Close()
	}
}
