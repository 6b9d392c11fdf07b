package paths_test

import (
	"slices"
	"testing"

	"colonnade/openai"
)

// notPlayed are paths of kinds of engines that the simulated engine does not have.
var notPlayed = []string{"sglang /api/chat", "sglang /api/generate"}

// Each path that only some kinds of engines have is tested with each of them.
func TestEveryPathHasACase(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	for _, c := range append(cases(), freeCases()...) {
		tested[c.engine.kind+" "+c.path] = true
	}
	for _, p := range openai.AllPaths() {
		for _, kind := range p.Passed {
			if name := kind + " " + p.Path; tested[name] == slices.Contains(notPlayed, name) {
				t.Errorf("%s has a case: %v", name, tested[name])
			}
		}
	}
}
