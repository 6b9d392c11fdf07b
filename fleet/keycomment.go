package fleet

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// Whose a comment is in the text of an account's document: a change of the keys loses none that is not the key's own,
// and leaves none over another key.

// own returns where a key stands, with the comments that speak of it alone: those in it, on the lines right above it,
// and behind it on its last line. What shares a line with another key has none but those in it. In flow style, a comma
// goes along.
func (t *keyText) own(i int) (from, to int) {
	items := t.keys.Content
	item, first, last := items[i], t.firstLine(i), t.endLine(items[i])
	if !isFlow(t.keys) {
		return t.lines[t.above(first, len(t.indent(first)))-1], t.lineEnd(last)
	}
	from, to = t.offset(item), flowEnd(t.text, t.offset(item))
	rest := t.text[to:t.lineEnd(last)]
	if after, comma := bytes.CutPrefix(bytes.TrimLeft(rest, " \t"), []byte(",")); comma {
		to, rest = to+len(rest)-len(after), after
	}
	if i > 0 && t.endLine(items[i-1]) == item.Line || i+1 < len(items) && items[i+1].Line == last {
		return from, to
	}
	begins := len(bytes.TrimSpace(t.text[t.lines[first-1]:from])) == 0
	if begins {
		from = t.lines[t.above(first, len(t.text))-1]
	}
	switch behind := bytes.TrimSpace(rest); {
	case len(behind) > 0 && behind[0] != '#':
	case begins:
		to = t.lineEnd(last)
	default:
		to += len(bytes.TrimRight(rest, " \t\r\n"))
	}
	return from, to
}

// firstLine is the line of a key's dash, which may stand above the key.
func (t *keyText) firstLine(i int) int {
	item := t.keys.Content[i]
	for line := item.Line; line > 0 && !isFlow(t.keys); line-- {
		switch text := bytes.TrimSpace(t.line(line)); {
		case len(text) > 0 && text[0] == '-' && (len(text) == 1 || text[1] == ' ' || text[1] == '\t'):
			return line
		case line < item.Line && len(text) > 0 && text[0] != '#':
			return item.Line
		}
	}
	return item.Line
}

// above is the first of the lines right above a line that are comments, indented by at most that much; or the line
// itself.
func (t *keyText) above(line, indent int) int {
	for line > 1 && len(t.indent(line-1)) <= indent && bytes.HasPrefix(bytes.TrimLeft(t.line(line-1), " \t"), []byte("#")) {
		line--
	}
	return line
}

// removeOwn takes a key out with what is its own and nothing else. A comma that is left behind means nothing in YAML.
func (t *keyText) removeOwn(i int) []byte {
	if t.json {
		return nil
	}
	from, to := t.own(i)
	return t.splice(from, to, "")
}

// comment is one in a text of YAML.
type comment struct {
	from, to int
	text     string
}

// comments returns the comments in a good document in YAML. What is one is asked of the parser: a letter more in it
// changes nothing of what the document says. (A "#" in a quoted text is none, nor one in a block of text.)
func comments(text []byte) []comment {
	if !bytes.Contains(text, []byte("#")) {
		return nil
	}
	said, err := parseYAML(text)
	if err != nil {
		return nil
	}
	var marks []int
	for i, c := range text {
		if c == '#' {
			marks = append(marks, i)
		}
	}
	var out []comment
	end := 0
	for _, mark := range unsaid(text, said, marks) {
		if mark < end {
			continue // in the comment before
		}
		end = mark + lineLength(text[mark:])
		out = append(out, comment{mark, end, strings.TrimSpace(string(text[mark:end]))})
	}
	return out
}

// unsaid returns those of the marks behind which a letter changes nothing. Mostly that is all of them.
func unsaid(text []byte, said any, marks []int) []int {
	if len(marks) == 0 {
		return nil
	}
	var changed []byte
	at := 0
	for _, mark := range marks {
		changed = append(append(changed, text[at:mark+1]...), 'x')
		at = mark + 1
	}
	if got, err := parseYAML(append(changed, text[at:]...)); err == nil && reflect.DeepEqual(got, said) {
		return marks
	}
	if len(marks) == 1 {
		return nil
	}
	half := len(marks) / 2
	return append(unsaid(text, said, marks[:half:half]), unsaid(text, said, marks[half:])...)
}

// sameComments reports whether two lists have the same texts, in whatever order.
func sameComments(a, b []comment) bool {
	byText := func(a, b comment) int { return cmp.Compare(a.text, b.text) }
	return slices.EqualFunc(slices.SortedFunc(slices.Values(a), byText), slices.SortedFunc(slices.Values(b), byText),
		func(a, b comment) bool { return a.text == b.text })
}

// lineLength is the length of a text's first line with its end, as YAML sees lines.
func lineLength(text []byte) int {
	i := bytes.IndexAny(text, "\n\r\u0085\u2028\u2029")
	if i < 0 {
		return len(text)
	}
	switch rest := text[i:]; {
	case bytes.HasPrefix(rest, []byte("\r\n")):
		return i + 2
	case rest[0] == '\n' || rest[0] == '\r':
		return i + 1
	case rest[0] == 0xc2: // U+0085
		return i + 2
	}
	return i + 3
}
