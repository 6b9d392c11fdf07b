package document_test

import (
	"strings"
	"testing"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// A model's fallbacks and its prompt filter are read as they are written, and mistakes in them are named with their place.
func TestModelFallbacksAndFilter(t *testing.T) {
	set := document.NewSet()
	if err := set.Put("models/m", []byte("fallback: [a/b, {external: c}]\nprompt_filter: {words: [Top Secret], patterns: ['(?i)code ?name']}"), 1); err != nil {
		t.Fatal(err)
	}
	m, _ := set.Table().Model("m")
	if len(m.Fallback) != 2 || m.Fallback[0] != (fleet.Fallback{Model: "a/b"}) || m.Fallback[1] != (fleet.Fallback{Model: "c", External: true}) {
		t.Errorf("fallbacks %+v", m.Fallback)
	}
	if entry, found := m.PromptFilter.Find("the top-SECRET plan"); !found || entry != "words[0]" || m.PromptFilter.MaxText != fleet.MiB {
		t.Errorf("the filter finds %q, %v, in at most %v", entry, found, m.PromptFilter.MaxText)
	}
	for _, c := range []struct{ key, value, want string }{
		{"models/m", "fallback: [a, b, c, d, e, f, g, h, i]", "fallback: a list: must have at most 8 models"},
		{"models/m", "fallback: [m]", `fallback[0]: "m": must be another model than this one`},
		{"models/m", "fallback: [a, {external: a}]", `fallback[1]: "a": stands in the list twice`},
		{"models/m", "fallback: [{outside: a}]", "fallback[0]: a map: must be the name of a model, or {external: NAME}"},
		{"models/m", "fallback: [{external: a, b: c}]", "fallback[0]: a map: must be the name of a model"},
		{"models/m", "fallback: ['a b']", `fallback[0]: "a b": a name must begin`},
		{"models/m", "fallback: a", "fallback: \"a\": must be a list"},
		{"models/m", "prompt_filter: {words: [ok, '!?']}", "prompt_filter.words[1]: must have a letter or a digit"},
		{"models/m", "prompt_filter: {patterns: ['(']}", "prompt_filter.patterns[0]: must be a regular expression of RE2"},
		{"models/m", "prompt_filter: {patterns: ['a*']}", "prompt_filter.patterns[0]: must not match an empty text"},
		{"models/m", "prompt_filter: {patterns: ['a{1000}', 'b']}", "prompt_filter.patterns[0]: all patterns together must have at most 1000 instructions"},
		{"defaults", "model: {prompt_filter: {patterns: ['(']}}", "model.prompt_filter.patterns[0]: must be a regular"},
		{"defaults", "model: {fallback: [a]}", "model.fallback: the field belongs to a document of its own"},
	} {
		if err := document.Check(c.key, []byte(c.value)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.value, err, c.want)
		}
	}
}
