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
	var paths [][]string
	for _, p := range openai.AllPaths() {
		paths = append(paths, pathRow(p))
	}
	titles := []string{"reason", "meaning"}
	docpage.Check(t, "docs/clients.md", map[string]string{
		"paths":         docpage.Table([]string{"path", "types of models", "engines that have it", "engines for which it is translated"}, paths),
		"errors":        docpage.Table([]string{"number", "HTTP", "`code`", "`type`", "when"}, numbers),
		"reasons":       docpage.Table(titles, client),
		"engine fields": docpage.Table([]string{"field", "chooses", "engines that read it"}, fields),
		"event reasons": docpage.Table(titles, other),
	})
}

// pathRow is the row of a path in the table of paths.
func pathRow(p openai.PathInfo) []string {
	name := "`" + p.Methods + " " + p.Path + "`"
	if p.Free {
		name += " (no slot)"
	}
	engines := func(kinds []string) string { return strings.ReplaceAll(strings.Join(kinds, ", "), "openai", "others") }
	row := []string{name, strings.Join(p.Types, ", "), "any", engines(p.Translated)}
	switch {
	case len(p.Types) == 0:
		row[1], row[2] = "all", "the entry answers"
	case p.Passed != nil:
		row[2] = engines(p.Passed)
	}
	return row
}
