package fleet_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode"

	"colonnade/fleet"
)

func compiled(t testing.TB, words, patterns []string) *fleet.PromptFilter {
	t.Helper()
	f := &fleet.PromptFilter{Words: words, Patterns: patterns}
	if entry, err := f.Compile(); err != nil {
		t.Fatal(entry, err)
	}
	return f
}

// Words are found whole, in any letter case, and several in a row with anything between them.
func TestPromptFilterFinds(t *testing.T) {
	f := compiled(t, []string{"heron", "Project Blue Sky", "straße", "ΣΊΣΥΦΟΣ", "a b"}, []string{`(?i)agent ?00[0-9]`})
	for text, want := range map[string]string{
		"a HERON": "words[0]", "heron": "words[0]", "herons": "", "her_on": "", "_heron": "", "heron2": "", "heron's": "words[0]",
		"project, blue-SKY!": "words[1]", "project blue": "", "project blue blue sky": "", "project project blue sky": "words[1]", "blue sky": "",
		"STRAẞE": "words[2]", "σίσυφος": "words[3]", "a a b": "words[4]", "b a": "", "": "", "Agent 007": "patterns[0]", "agent 1007": "",
	} {
		entry, found := f.Find(text)
		if entry != want || found != (want != "") {
			t.Errorf("%q: %q, want %q", text, entry, want)
		}
	}
	if entry, found := compiled(t, nil, nil).Find("anything"); found {
		t.Errorf("an empty filter finds %q", entry)
	}
}

// A filter of words finds what a plain reading of the rule finds: the words of the text in a row, folded.
func FuzzPromptFilter(f *testing.F) {
	f.Add("top secret", "the Top-SECRET plan")
	f.Add("a a b", "a a a b")
	f.Add("ſ", "S")
	f.Fuzz(func(t *testing.T, entry, text string) {
		filter := &fleet.PromptFilter{Words: []string{entry}}
		if _, err := filter.Compile(); err != nil {
			return
		}
		isWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) || r == '_' }
		split := func(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return !isWord(r) }) }
		words, all, want := split(entry), split(text), false
		for i := 0; i+len(words) <= len(all); i++ {
			same := true
			for j := range words {
				same = same && strings.EqualFold(words[j], all[i+j])
			}
			want = want || same
		}
		if _, found := filter.Find(text); found != want {
			t.Errorf("%q in %q: %v, want %v", entry, text, found, want)
		}
	})
}

// The size of all patterns is bounded, whatever repetitions they have, so that a search takes a bounded time for each byte.
func TestPatternSizeIsBounded(t *testing.T) {
	for _, pattern := range []string{`(a{100}){100}b`, `[a-z]{900}x{200}`, strings.Repeat("(a|b)?c", 300)} {
		f := &fleet.PromptFilter{Patterns: []string{pattern}}
		if entry, err := f.Compile(); err == nil || entry != "patterns[0]" {
			t.Errorf("%.30q of %d bytes is accepted", pattern, len(pattern))
		}
	}
	f := compiled(t, nil, []string{`(x+x+)+y`}) // exponential for engines that backtrack
	if _, found := f.Find(strings.Repeat("x", 1<<16)); found {
		t.Error("a pattern is found that is not there")
	}
	if !regexp.MustCompile(`(x+x+)+y`).MatchString("xxy") {
		t.Error("the pattern matches nothing")
	}
}
