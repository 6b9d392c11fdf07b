package tracing_test

import (
	"strings"
	"testing"

	"colonnade/internal/docpage"
	"colonnade/tracing"
)

// The attributes on the page are those of the code.
func TestAttributesOnThePage(t *testing.T) {
	var rows [][]string
	for _, a := range tracing.Attributes() {
		spans := strings.Join(a.Spans, ", ")
		rows = append(rows, []string{"`" + a.Name + "`", spans, a.Meaning})
	}
	docpage.Check(t, "docs/tracing.md", map[string]string{"attributes": docpage.Table([]string{"attribute", "spans", "meaning"}, rows)})
}
