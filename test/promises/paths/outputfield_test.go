package paths_test

import (
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
)

// A chat's bound of tokens is obeyed by every kind of engine, under either of its names: also by those that know only max_tokens.
func TestEitherNameOfTheMostTokensIsObeyed(t *testing.T) {
	t.Parallel()
	s := start(t, simengine.Config{ITL: -1})
	for _, kind := range []string{"vllm", "sglang", "llamacpp", "ollama", "tgi"} {
		for _, field := range []string{`,"max_completion_tokens":2`, `,"max_tokens":null,"max_completion_tokens":2`, `,"max_tokens":2`} {
			c := pathCase{engine: engineType{kind, "chat"}, path: fleettest.ChatPath, body: askThree + field}
			a := s.send(t, c, false, strings.Trim(kind+strings.NewReplacer(`"`, "", ",", "-", ":", "-", "_", "-").Replace(field), "-")).Read()
			if a.Status != 200 || !strings.Contains(a.Body, `"completion_tokens":2`) || !strings.Contains(a.Body, `"length"`) {
				t.Errorf("%s%s: %d %v: %s", kind, field, a.Status, a.Err, a.Body)
			}
		}
	}
}
