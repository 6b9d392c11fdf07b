package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// glossary is what the page CONTRIBUTING.md says about words.
type glossary struct {
	phrases []banned // not in prose, and not in names
	names   []banned // not in names

	wrong map[string]string // results of wrongName: most names occur many times
}

// banned is a word, or several words, and what to use instead.
type banned struct {
	words   string
	instead string
	pattern *regexp.Regexp
}

func loadGlossary(t *testing.T) glossary {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	g := parseGlossary(string(page))
	if len(g.phrases) == 0 || len(g.names) == 0 {
		t.Fatalf("CONTRIBUTING.md has %d phrases and %d names in its tables of words", len(g.phrases), len(g.names))
	}
	return g
}

// parseGlossary reads the tables "not, but" and "word, meaning, not".
func parseGlossary(page string) glossary {
	g := glossary{wrong: map[string]string{}}
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch instead := strings.TrimSpace(cells[len(cells)-1]); {
		case !strings.HasPrefix(line, "|"):
		case len(cells) == 2:
			for _, words := range codeSpan.FindAllString(cells[0], -1) {
				g.phrases = append(g.phrases, ban(words, instead))
			}
		case len(cells) == 3:
			for _, words := range codeSpan.FindAllString(cells[2], -1) {
				g.names = append(g.names, ban(words, strings.TrimSpace(cells[0])))
			}
		}
	}
	return g
}

func ban(span, instead string) banned {
	words := strings.Trim(span, "`")
	pattern := regexp.MustCompile(`(?i)\b` + strings.ReplaceAll(regexp.QuoteMeta(words), " ", `\s+`) + `\b`)
	return banned{words: words, instead: instead, pattern: pattern}
}

// wrongPhrases finds banned words in a passage.
func (g glossary) wrongPhrases(p passage) []string {
	var found []string
	text := strings.ToLower(strings.Join(strings.Fields(p.text), " "))
	for _, b := range g.phrases {
		if !strings.Contains(text, b.words) {
			continue // the pattern is slow
		}
		for _, at := range b.pattern.FindAllStringIndex(p.text, -1) {
			found = append(found, fmt.Sprintf("%s:%d: %q: write %s", p.file, p.lineOf(at[0]), b.words, b.instead))
		}
	}
	return found
}

// wrongName returns what is wrong with a declared name or a file name, if anything.
func (g glossary) wrongName(name string) string {
	if wrong, ok := g.wrong[name]; ok {
		return wrong
	}
	wrong := g.findWrong(name)
	g.wrong[name] = wrong
	return wrong
}

func (g glossary) findWrong(name string) string {
	spelt := spell(name)
	for _, b := range slices.Concat(g.phrases, g.names) {
		if strings.Contains(spelt, " "+b.words+" ") || strings.Contains(spelt, " "+b.words+"s ") {
			return fmt.Sprintf("the name %s has %q in it: write %s", name, b.words, b.instead)
		}
	}
	return ""
}
