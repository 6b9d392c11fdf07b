package archtest

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
)

// Comments, pages, strings and names use the words that CONTRIBUTING.md asks for.
func TestLanguage(t *testing.T) {
	g := loadGlossary(t)
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for _, problem := range g.problems(s) {
			t.Error(problem)
		}
	}
}

func (g glossary) problems(s source) []string {
	var found []string
	for _, p := range s.passages {
		found = append(found, g.wrongPhrases(p)...)
		found = append(found, p.freeRelatives()...)
	}
	if wrong := g.wrongName(strings.TrimSuffix(path.Base(s.name), path.Ext(s.name))); wrong != "" {
		found = append(found, fmt.Sprintf("%s: %s", s.name, wrong))
	}
	for _, d := range s.names {
		if wrong := g.wrongName(d.name); wrong != "" {
			found = append(found, fmt.Sprintf("%s:%d: %s", s.name, d.line, wrong))
		}
	}
	return found
}

func (p passage) lineOf(offset int) int { return p.line + strings.Count(p.text[:offset], "\n") }

var freeRelative = regexp.MustCompile(`(?:^|[.!?:;]\s+)((?:Who|Whom|Whose|Whoever|What)\b[^.!?]*)([.!?]?)`)

// freeRelatives finds sentences that begin with a free relative clause. A question is none.
func (p passage) freeRelatives() []string {
	if !strings.Contains(p.text, "Wh") {
		return nil // the pattern is slow
	}
	var found []string
	for _, at := range freeRelative.FindAllStringSubmatchIndex(p.text, -1) {
		if sentence, end := p.text[at[2]:at[3]], p.text[at[4]:at[5]]; end != "?" {
			words := strings.Fields(sentence)
			start := strings.Join(words[:min(4, len(words))], " ")
			found = append(found, fmt.Sprintf("%s:%d: \"%s …\": begin the sentence with its subject", p.file, p.lineOf(at[2]), start))
		}
	}
	return found
}

func TestLanguageRules(t *testing.T) {
	g := parseGlossary(`
| not | but |
| --- | --- |
| ` + "`hath gone`, `thou`" + ` | the noun |

| word | meaning | not |
| --- | --- | --- |
| inflight | requests | gone, ` + "`let go`" + ` |
`)
	code := func(want, text string) {
		t.Helper()
		s, err := goSource("homes/a_test.go", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		wantProblem(t, g.problems(s), want)
	}
	code("", "package homes\n\n// Whole answers go out. What is a home?\nvar gone string")
	code(`a_test.go:4: "hath gone": write the noun`, "package homes\n\n// The client\n// hath\n// gone.")
	code(`a_test.go:4: "What is left goes …": begin`, "package homes\n\n// All of it.\n// What is left goes.")
	code("", "package homes\n\n//\thath gone\n\n//nolint:all // Thou")
	code(`a_test.go:2: "thou": write`, "package homes\nvar f = `for thou\nasks`")
	code(`a_test.go:1: the name letGo has "let go" in it: write inflight`, "package homes; func letGo() {}")
	code("the name LetGo", "package homes; func f() { for _, LetGo := range l {} }")
	code("the name nowLetGoOf", "package homes; type t struct { nowLetGoOf int }")
	code("the name thous", "package homes; var thous []string")
	code("the name GotThou", "package homes; func f(GotThou int) {}")
	code("", "package homes; var outletGo = letGo()")
	wantProblem(t, g.problems(source{name: "homes/let_go.go"}), "homes/let_go.go: the name let_go")

	page := func(want, text string) {
		t.Helper()
		wantProblem(t, g.problems(source{passages: pagePassages("a.md", text)}), want)
	}
	page("", "# What is it?\n\n```\nhath gone\n```\nSay `hath gone`.\n\n    hath gone\n")
	page(`a.md:1: "What it is …"`, "# What it is\n\nA home.")
	page(`a.md:3: "hath gone"`, "| a | b |\n| --- | --- |\n| c | hath gone |")
	page(`a.md:2: "hath gone"`, "- a `b\n  c` hath\n  gone")
	page(`a.md:2: "Who asks …"`, "- a\n- Who asks")
}
