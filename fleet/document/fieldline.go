package document

import (
	"regexp"
	"strconv"
	"strings"
)

// FieldLine returns the line of a document's text, counted from 1, that has a field, such as routing.steps[1].pick, or the
// innermost part of its path that is there; 0 if there is none. It goes by names and indentation alone, so it may be wrong where
// texts look like fields.
func FieldLine(text []byte, field string) int {
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "---") || strings.HasPrefix(line, "...") {
			line = "   " + line[3:]
		}
		if rest := strings.TrimSpace(line); rest == "" || rest[0] == '#' {
			line = ""
		}
		lines[i] = line
	}
	at := block{lines: lines, first: 1}
	found := 0
	for _, step := range fieldSteps.FindAllStringSubmatch(field, -1) {
		name, index := step[1], step[2]
		if quoted, err := strconv.Unquote(step[0]); err == nil {
			name = quoted
		}
		inner, ok := at.field(name)
		if n, err := strconv.Atoi(index); err == nil {
			inner, ok = at.element(n)
		}
		if !ok {
			break
		}
		at, found = inner, inner.first
	}
	return found
}

// fieldSteps matches the parts of a field's path: names, quoted names and indexes.
var fieldSteps = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|([^.\[\]"]+)|\[([0-9]+)\]`)

// block is a part of a document's text. Comments in it are empty lines.
type block struct {
	lines []string
	first int // the number of its first line
}

// field returns the block of a field: its line, and those below that are indented further. A field of the block itself is
// preferred to one further inside, and to one in flow style.
func (b block) field(name string) (block, bool) {
	isField := regexp.MustCompile(`^[\s-]*["']?` + regexp.QuoteMeta(name) + `["']?\s*:`)
	inFlow := regexp.MustCompile(`[{,]\s*["']?` + regexp.QuoteMeta(name) + `["']?\s*:`)
	outer := b.indentation()
	for i, line := range b.lines {
		if isField.MatchString(line) && indentation(line) == outer {
			return b.part(i, func(line string) bool { return indentation(line) > outer }), true
		}
	}
	for i, line := range b.lines {
		if isField.MatchString(line) || inFlow.MatchString(line) {
			return b.part(i, func(below string) bool { return indentation(below) > indentation(line) }), true
		}
	}
	return block{}, false
}

// element returns the block of an element of a list whose elements have lines of their own.
func (b block) element(index int) (block, bool) {
	outer, seen := -1, 0
	for i, line := range b.lines {
		if !isElement(line) || i == 0 || outer >= 0 && spaces(line) != outer {
			continue
		}
		outer = spaces(line)
		if seen == index {
			return b.part(i, func(below string) bool { return spaces(below) > outer }), true
		}
		seen++
	}
	return block{}, false
}

// part returns the block of a line and of those below it that belong to it.
func (b block) part(at int, belongs func(line string) bool) block {
	end := at + 1
	for end < len(b.lines) && (b.lines[end] == "" || belongs(b.lines[end])) {
		end++
	}
	return block{lines: b.lines[at:end], first: b.first + at}
}

// indentation returns the least indentation of the fields in the block.
func (b block) indentation() int {
	least := -1
	for i, line := range b.lines {
		if line == "" || i == 0 && b.first > 1 && !isElement(line) {
			continue // the line of the field that the block belongs to
		}
		if n := indentation(line); least < 0 || n < least {
			least = n
		}
	}
	return least
}

func isElement(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " "), "- ") }

func spaces(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// indentation returns where a field begins, after the marks of list elements.
func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " -")) }
