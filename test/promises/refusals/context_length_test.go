package refusals_test

import (
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

// A prompt that is longer than the context that the engine states is refused before it takes a slot, though no document has a length.
func TestPromptLongerThanTheEnginesContext(t *testing.T) {
	t.Parallel()
	e, documents := fleettest.StartKind(t, "small", simengine.Config{Kind: "vllm", MaxModelLen: 1000, TTFT: -1, ITL: -1, Tokens: 2}, "")
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), documents)
	f.WatchShared(4)
	ask := func(words int) (int, string) {
		a := f.Chat(`{"model":"small","messages":[{"role":"user","content":"` + strings.Repeat("a ", words) + `"}]}`)
		return a.Status, a.Body
	}
	testkit.WaitFor(t, "the entry to know the context", func() bool {
		status, body := ask(4100)
		return status == 400 && strings.Contains(body, `"number":40006`) && strings.Contains(body, "is 1000 tokens")
	})
	before := e.Stats().Requests
	if status, body := ask(4100); status != 400 || e.Stats().Requests != before {
		t.Errorf("%d %s, and the engine got %d requests", status, body, e.Stats().Requests-before)
	}
	if status, body := ask(4000); status != 200 {
		t.Errorf("a prompt that may fit: %d %s", status, body)
	}
}
