package document_test

import (
	"fmt"
	"strings"
	"testing"

	"colonnade/fleet/document"
)

// Two versions of a document differ in the fields that have other values as they are written.
func TestDifferences(t *testing.T) {
	f := func(before, after string, want ...string) {
		t.Helper()
		version := func(text string) []byte {
			if text == "" {
				return nil
			}
			return []byte(text)
		}
		all, err := document.Differences("models/a", version(before), version(after))
		if err != nil {
			t.Error(err)
		}
		var got []string
		for _, d := range all {
			got = append(got, fmt.Sprintf("%s: %s > %s", d.Field, document.FieldText(d.Old), document.FieldText(d.New)))
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s\n%s\ndiffer in %q, want %q", before, after, got, want)
		}
	}
	f("# why\npool: p\nbeta: true\n", "{beta: true, pool: 'p'}")
	f("cost: {input: 1e3}", "cost:\n  input: 1000\n")
	f("pool: llama", "pool: lamma\nbeta: true", "beta:  > true", "pool: llama > lamma")
	f("queue: {limit: 1, max_wait: 1s}", "queue: {max_wait: 1s}", "queue.limit: 1 > ")
	f("aliases: [a]", "aliases: [a, 'b c']", `aliases: ["a"] > ["a","b c"]`)
	f("routing: {steps: [{pick: random}, {pick: latency}]}", "routing: {steps: [{pick: random, attempts: 2}]}",
		"routing.steps[0].attempts:  > 2", "routing.steps[1].pick: latency > ")
	f("", "queue: {limit: 1}\nlabels: {'a b': x}", `labels."a b":  > x`, "queue.limit:  > 1")
	f("queue: {}", "queue: 1", "queue: {} > 1")
	f("queue: {}", "{}", "queue: {} > ")
	f("", "{}")
	if _, err := document.Differences("models/a", []byte("a: [\n"), nil); err == nil || !strings.Contains(err.Error(), "models/a: ") {
		t.Error(err)
	}
}
