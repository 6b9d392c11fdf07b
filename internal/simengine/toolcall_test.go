package simengine_test

import (
	"strings"
	"testing"
)

// A prompt that asks for a call of a tool gets one in each API, whole and streamed; without tools, it is an ordinary prompt.
func TestToolCalls(t *testing.T) {
	const prompt = `call: weather {\"city\":\"Paris\"}`
	chat := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"` + prompt + `"}]`
	f := func(kind, path, plain, stream string, whole, streamed []string) {
		t.Helper()
		c := fast()
		c.Kind = kind
		_, addr := start(t, c)
		for more, wants := range map[string][]string{plain: whole, stream: streamed} {
			body := chat + `,"tools":[{"name":"weather"}]` + more + "}"
			got := readAll(t, post(t, addr, path, body))
			for _, want := range wants {
				if !strings.Contains(got, want) {
					t.Errorf("%s of %s%s: %s\nlacks %s", path, kind, more, got, want)
				}
			}
		}
		if got := readAll(t, post(t, addr, path, chat+plain+"}")); strings.Contains(got, "Paris") || strings.Contains(got, "tool_") {
			t.Errorf("%s of %s calls a tool that it does not have: %s", path, kind, got)
		}
	}
	plain, stream := `,"stream":false`, `,"stream":true`
	f("vllm", "/v1/chat/completions", plain, stream,
		[]string{`"tool_calls":[{"function":{"arguments":"{\"city\":\"Paris\"}","name":"weather"},"id":"call_`, `"finish_reason":"tool_calls"`, `"completion_tokens":2`},
		[]string{`"function":{"arguments":"","name":"weather"},"id":"call_`, `"finish_reason":"tool_calls"`, "[DONE]"})
	f("vllm", "/v1/messages", plain, stream,
		[]string{`"content":[{"id":"toolu_`, `"input":{"city":"Paris"},"name":"weather","type":"tool_use"}`, `"stop_reason":"tool_use"`},
		[]string{`"input":{},"name":"weather","type":"tool_use"`, `"partial_json":"{\"city\"`, `"stop_reason":"tool_use"`, "message_stop"})
	f("ollama", "/api/chat", plain, stream,
		[]string{`"function":{"arguments":{"city":"Paris"},"index":0,"name":"weather"}`, `"done":true`},
		[]string{`"function":{"arguments":{"city":"Paris"},"index":0,"name":"weather"}`, `"content":"","role":"assistant"}`, `"done":true`})
}
