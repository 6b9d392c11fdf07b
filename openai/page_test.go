package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"colonnade/internal/docpage"
	"colonnade/openai"
	"colonnade/reasons"
)

// The tables of errors, of reasons and of engine fields for clients are made from the lists in code.
func TestClientsPage(t *testing.T) {
	var numbers, client, other [][]string
	for _, e := range openai.Errors() {
		numbers = append(numbers, []string{fmt.Sprint(e.Number), fmt.Sprint(e.Status), "`" + e.Code + "`", "`" + e.Type + "`", e.When})
	}
	for _, r := range reasons.All() {
		row := []string{"`" + r.Reason + "`", r.Meaning}
		if r.Client {
			client = append(client, row)
		} else {
			other = append(other, row)
		}
	}
	var fields [][]string
	for _, f := range openai.AllEngineFields() {
		engines := strings.ReplaceAll(strings.Join(f.Engines, ", "), "openai", "others")
		fields = append(fields, []string{"`" + f.Name + "`", f.Chooses, engines})
	}
	titles := []string{"reason", "meaning"}
	docpage.Check(t, "docs/clients.md", map[string]string{
		"errors":        docpage.Table([]string{"number", "HTTP", "`code`", "`type`", "when"}, numbers),
		"reasons":       docpage.Table(titles, client),
		"engine fields": docpage.Table([]string{"field", "chooses", "engines that read it"}, fields),
		"event reasons": docpage.Table(titles, other),
	})
}
