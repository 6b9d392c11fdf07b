package fleet

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// PromptFilter refuses prompts by their text. One that comes from a table is compiled and safe for concurrent use.
type PromptFilter struct {
	// Words, or several words in a row, in any letter case. Letters, digits, marks and underscores make words; anything else may stand between
	// the words of one entry.
	Words []string `json:"words,omitzero" is:"text"`
	// Regular expressions in the syntax of RE2; (?i) at the beginning makes one ignore letter case.
	Patterns []string `json:"patterns,omitzero" is:"text"`
	// Most text that is searched. Requests with more are refused, since the rest could have anything. Default: 1MiB.
	MaxText Bytes `json:"max_text,omitempty" range:"1KiB,64MiB"`

	patterns []*regexp.Regexp
	phrases  map[string][]phrase // by their last word
	longest  int                 // words in a phrase
}

// phrase is an entry of PromptFilter.Words.
type phrase struct {
	entry  int
	before []string // the words before the last one
}

const (
	maxFilterText = MiB // see PromptFilter.MaxText

	// MaxPatternSize bounds all patterns of a filter together, in instructions of RE2's machine. Searching takes at most time in proportion to
	// it, for each byte of text.
	MaxPatternSize = 1000
)

// Compile makes the filter ready to search. The error names the entry that is not valid, as words[0] or patterns[0], and why.
func (f *PromptFilter) Compile() (entry string, err error) {
	if f.MaxText == 0 {
		f.MaxText = maxFilterText
	}
	f.phrases, f.patterns, f.longest = map[string][]phrase{}, nil, 0
	for i, text := range f.Words {
		words := splitWords(text)
		if len(words) == 0 {
			return fmt.Sprintf("words[%d]", i), errors.New("must have a letter or a digit")
		}
		last := words[len(words)-1]
		f.phrases[last] = append(f.phrases[last], phrase{i, words[:len(words)-1]})
		f.longest = max(f.longest, len(words))
	}
	size := 0
	for i, text := range f.Patterns {
		pattern, n, err := compilePattern(text)
		if err != nil {
			return fmt.Sprintf("patterns[%d]", i), err
		}
		if size += n; size > MaxPatternSize {
			return fmt.Sprintf("patterns[%d]", i), fmt.Errorf("all patterns together must have at most %d instructions (this one has %d): write shorter ones, without large repetitions",
				MaxPatternSize, n)
		}
		f.patterns = append(f.patterns, pattern)
	}
	return "", nil
}

// compilePattern returns a pattern and how many instructions it has.
func compilePattern(text string) (*regexp.Regexp, int, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, 0, fmt.Errorf("must be a regular expression of RE2: %w", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, 0, fmt.Errorf("must be a regular expression of RE2: %w", err)
	}
	pattern, err := regexp.Compile(text)
	if err == nil && pattern.MatchString("") {
		err = errors.New("must not match an empty text, since it would match every prompt")
	}
	return pattern, len(program.Inst), err
}

// Find returns the first entry that a text has, as words[0] or patterns[0].
func (f *PromptFilter) Find(text string) (entry string, found bool) {
	if i := f.findPhrase(text); i >= 0 {
		return fmt.Sprintf("words[%d]", i), true
	}
	for i, p := range f.patterns {
		if p.MatchString(text) {
			return fmt.Sprintf("patterns[%d]", i), true
		}
	}
	return "", false
}

// findPhrase returns the number of the entry of Words whose last word is found first in the text, or -1.
func (f *PromptFilter) findPhrase(text string) int {
	if len(f.phrases) == 0 {
		return -1
	}
	recent := make([][]byte, f.longest) // the last words, a ring
	for n := 0; ; n++ {
		var ok bool
		last := &recent[n%f.longest]
		if *last, text, ok = nextWord((*last)[:0], text); !ok {
			return -1
		}
		for _, p := range f.phrases[string(*last)] {
			if len(p.before) <= n && p.follows(recent, n) {
				return p.entry
			}
		}
	}
}

// follows reports whether the words before the last one of p stand before word n.
func (p phrase) follows(recent [][]byte, n int) bool {
	for i, word := range p.before {
		if string(recent[(n-len(p.before)+i)%len(recent)]) != word {
			return false
		}
	}
	return true
}

func splitWords(text string) (words []string) {
	for {
		word, rest, ok := nextWord(nil, text)
		if !ok {
			return words
		}
		words, text = append(words, string(word)), rest
	}
}

// nextWord appends the first word of a text to dst, folded, and returns what follows it.
func nextWord(dst []byte, text string) (word []byte, rest string, ok bool) {
	for i, r := range text {
		if isWordRune(r) {
			dst, ok = utf8.AppendRune(dst, foldRune(r)), true
		} else if ok {
			return dst, text[i:], true
		}
	}
	return dst, "", ok
}

func isWordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || r == '_'
	}
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)
}

// foldRune returns the same rune for all that differ in letter case only: the least of them.
func foldRune(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}
