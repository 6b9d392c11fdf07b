package openai_test

import (
	"fmt"
	"testing"

	"colonnade/internal/docpage"
	"colonnade/openai"
	"colonnade/reasons"
)

// The tables of errors and of reasons for clients are made from the lists in code.
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
	titles := []string{"reason", "meaning"}
	docpage.Check(t, "docs/clients.md", map[string]string{
		"errors":        docpage.Table([]string{"number", "HTTP", "`code`", "`type`", "when"}, numbers),
		"reasons":       docpage.Table(titles, client),
		"event reasons": docpage.Table(titles, other),
	})
}
