package paths_test

import (
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/openai"
)

// Each path that only some kinds of engines have is tested with each of them.
func TestEveryPathHasACase(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	for _, c := range append(cases(), freeCases()...) {
		tested[c.engine.kind+" "+c.path] = true
	}
	for _, p := range openai.AllPaths() {
		for _, kind := range p.Passed {
			if name := kind + " " + p.Path; tested[name] != fleettest.Plays(kind, p.Path) {
				t.Errorf("%s has a case: %v", name, tested[name])
			}
		}
	}
}
