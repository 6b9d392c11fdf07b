package paths_test

import (
	"strings"
	"testing"

	"colonnade/internal/simengine"
)

// A path that no engine of the model's pool has is refused before a slot is spent, in the words of its API, with what the model can do.
func TestPathsThatEnginesLack(t *testing.T) {
	t.Parallel()
	s := start(t, simengine.Config{ITL: -1})
	f := func(of engineType, path, body string, want refusal, can string) {
		t.Run(of.String()+path, func(t *testing.T) {
			e := s.engines[of]
			before := e.Stats()
			a := s.send(t, pathCase{engine: of, path: path, body: body}, false, "lacks-"+of.kind).Read()
			if a.Status != 404 || !strings.HasPrefix(a.Body, want.begins) || !strings.Contains(a.Body, can) {
				t.Errorf("%d %v: %s, want 404, %s and %s", a.Status, a.Err, a.Body, want.begins, can)
			}
			if after := e.Stats(); after.Requests != before.Requests || after.Unknown != before.Unknown {
				t.Errorf("the engine's counts are %+v, before %+v", after, before)
			}
		})
	}
	f(engineType{"vllm", "chat"}, "/api/chat", askThree, ollamaError, "/v1/chat/completions")
	f(engineType{"vllm", "chat"}, "/generate", `,"inputs":"one"`, tgiError, "/v1/messages")
	f(engineType{"ollama", "chat"}, "/v1/messages/count_tokens", askThree, anthropicError, "/api/chat")
	f(engineType{"tgi", "chat"}, "/infill", `,"input_prefix":"one","input_suffix":""`, openAIError, "/generate")
	f(engineType{"vllm", "embedding"}, "/embed", `,"inputs":"one"`, teiError, "/v1/embeddings")
	f(engineType{"vllm", "chat"}, "/completion", `,"prompt":"one"`, openAIError, "/v1/completions")
	f(engineType{"ollama", "chat"}, "/tokenize", `,"prompt":"one"`, openAIError, "/api/generate")
}
