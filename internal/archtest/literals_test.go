package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"colonnade/openai"
	"colonnade/reasons"
)

// Each reason and each number of an error is written once: reasons in package reasons, numbers in openai.
func TestReasonsAndNumbersAreWrittenOnce(t *testing.T) {
	for _, problem := range literalProblems(loadRepository(t)) {
		t.Error(problem)
	}
}

func literalProblems(packages []pkg) []string {
	names, numbers := map[string]bool{}, map[string]bool{}
	for _, r := range reasons.All() {
		// One word may also be a log line or a field of a document.
		names[strconv.Quote(r.Reason)] = strings.Contains(r.Reason, "_")
	}
	for _, row := range openai.Errors() {
		numbers[strconv.Itoa(row.Number)] = true
	}
	var found []string
	for _, p := range packages {
		if p.path == "reasons" || strings.HasPrefix(p.path, "internal/") || strings.HasPrefix(p.path, "bench") || strings.HasPrefix(p.path, "test/") {
			continue
		}
		for _, f := range p.files {
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				literal, ok := n.(*ast.BasicLit)
				switch {
				case !ok:
				case literal.Kind == token.STRING && names[literal.Value] && !isOutcome(literal.Value):
					found = append(found, fmt.Sprintf("%s: %s is a reason: use package reasons", p.set.Position(literal.Pos()), literal.Value))
				case literal.Kind == token.INT && numbers[literal.Value] && p.path != "openai":
					found = append(found, fmt.Sprintf("%s: %s is the number of an error: use openai.Number…", p.set.Position(literal.Pos()), literal.Value))
				}
				return true
			})
		}
	}
	return found
}

// isOutcome reports a word that is the outcome of an event, too.
func isOutcome(literal string) bool { return literal == `"client_gone"` }

func TestLiteralRules(t *testing.T) {
	wantProblem(t, literalProblems([]pkg{parse(t, "entry", `package entry; const r = "queue_full"`)}), "is a reason")
	wantProblem(t, literalProblems([]pkg{parse(t, "entry", `package entry; const n = 42902`)}), "is the number of an error")
	if got := literalProblems([]pkg{parse(t, "entry", `package entry; const a, b = "draining", 42`)}); len(got) != 0 {
		t.Error(got)
	}
}
