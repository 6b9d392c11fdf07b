package document_test

import (
	"testing"

	"colonnade/fleet/document"
)

func TestFieldLine(t *testing.T) {
	const text = `---
# queue: a comment
key: models/m
retry: {errors: 1}

queue:
  limit: 0 # limit
  max_wait: 5s
routing:
  steps:
  - pick: nearest
    count: 2
  - {pick: all, count: 1}
  # pick: a comment
  - pick: weighted
    weights:
      "a.b": 1
      c: 2
aliases: [x, y]
limit: 3
`
	f := func(field string, want int) {
		t.Helper()
		if got := document.FieldLine([]byte(text), field); got != want {
			t.Errorf("%s: line %d, want %d", field, got, want)
		}
	}
	f("key", 3)
	f("retry", 4)
	f("retry.errors", 4)
	f("retry.unknown", 4)
	f("queue", 6)
	f("queue.limit", 7)
	f("queue.max_wait", 8)
	f("limit", 20)
	f("routing.steps[0].pick", 11)
	f("routing.steps[0].count", 12)
	f("routing.steps[1]", 13)
	f("routing.steps[1].count", 13)
	f("routing.steps[2].pick", 15)
	f(`routing.steps[2].weights."a.b"`, 17)
	f("routing.steps[2].weights.c", 18)
	f("routing.steps[7].pick", 10)
	f("aliases[1]", 19)
	f("unknown", 0)
	f("", 0)
}

// The line is one of the text, whatever the text and the path are.
func FuzzFieldLine(f *testing.F) {
	f.Add("a:\n  b: 1\n- c: 2", "a.b[0].c")
	f.Add("{a: [1, {b: 2}]}", `"a"[1].b`)
	f.Fuzz(func(t *testing.T, text, field string) {
		lines := 1
		for _, c := range []byte(text) {
			if c == '\n' {
				lines++
			}
		}
		if line := document.FieldLine([]byte(text), field); line < 0 || line > lines {
			t.Errorf("line %d of %d", line, lines)
		}
	})
}
