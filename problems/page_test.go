package problems_test

import (
	"testing"

	"colonnade/internal/docpage"
	"colonnade/reasons"
)

// The kinds on the page are those of the code.
func TestKindsOnThePage(t *testing.T) {
	var rows [][]string
	for _, p := range reasons.Problems() {
		rows = append(rows, []string{"`" + p.Kind + "`", p.Meaning, p.Effect, p.Action})
	}
	docpage.Check(t, "docs/status.md", map[string]string{"problems": docpage.Table([]string{"kind", "what is wrong", "what it does to clients", "what to do"}, rows)})
}
