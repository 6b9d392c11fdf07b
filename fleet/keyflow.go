package fleet

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Keys in YAML's flow style, [{id: …}], of which JSON is a part.

// yamlFlow writes a key as {id: "a", sha256: "…"}.
func (k Key) yamlFlow() string { return k.flow("", ": ", ", ") }

func (k Key) flow(quote, colon, comma string) string {
	var parts []string
	for _, f := range k.fields() {
		parts = append(parts, quote+f[0]+quote+colon+f[1])
	}
	return "{" + strings.Join(parts, comma) + "}"
}

// tight reports whether the text is JSON without any white space.
func (t *keyText) tight() bool { return t.json && !bytes.ContainsAny(bytes.TrimSpace(t.text), " \n") }

// item writes a key as others in the text are. like is one of them, or nil.
func (t *keyText) item(key Key, like *yaml.Node) string {
	quote := ""
	if t.json {
		quote = `"`
	}
	if like == nil || len(like.Content) == 0 || like.Content[0].Line == like.Line {
		if t.tight() {
			return key.flow(quote, ":", ",")
		}
		return key.flow(quote, ": ", ", ")
	}
	// Each field stands on a line of its own.
	outer, inner := t.newline()+t.indent(like.Line), t.newline()+t.indent(like.Content[0].Line)
	text := key.flow(quote, ": ", ","+inner)
	return "{" + inner + text[1:len(text)-1] + outer + "}"
}

// addToFlow writes the key behind the last one; on a line of its own if that one begins a line.
func (t *keyText) addToFlow(key Key) []byte {
	open := t.offset(t.keys)
	if len(t.keys.Content) == 0 {
		return t.splice(open+1, open+1, t.item(key, nil))
	}
	last := t.keys.Content[len(t.keys.Content)-1]
	end := flowEnd(t.text, t.offset(last))
	before, item := t.before(last), t.item(key, last)
	line := t.lineEnd(t.endLine(last))
	rest := string(bytes.TrimRight(t.text[end:line], "\r\n"))
	comment, ended := strings.CutPrefix(rest, ",")
	switch c := strings.TrimSpace(comment); {
	case c != "" && c[0] == '#' && !strings.Contains(before, "\n"):
		before = t.newline() + t.indent(last.Line) + "  " // on one line with it, the comment would speak of both
	case c != "" && c[0] != '#' || !strings.Contains(before, "\n"):
		return t.splice(end, end, ","+before+item)
	}
	// The last one has its last line for itself, with a comment perhaps.
	if ended {
		item += ","
	}
	return t.splice(end, end+len(rest), ","+comment+before+item)
}

// before is the white space that separates a node from what stands before it.
func (t *keyText) before(n *yaml.Node) string {
	from, at := t.lines[n.Line-1], t.offset(n)
	if len(bytes.TrimSpace(t.text[from:at])) == 0 {
		return t.newline() + string(t.text[from:at])
	}
	if t.tight() {
		return ""
	}
	return " "
}

// addFieldToFlow writes the keys before all else, where no comma or comment can be in the way.
func (t *keyText) addFieldToFlow(key Key) []byte {
	name := "keys: "
	switch {
	case t.tight():
		name = `"keys":`
	case t.json:
		name = `"keys": `
	}
	text := name + "[" + t.item(key, nil) + "]"
	if len(t.root.Content) == 0 {
		at := t.offset(t.root) + 1
		return t.splice(at, at, text)
	}
	first := t.root.Content[0]
	at := t.offset(first)
	return t.splice(at, at, text+","+t.before(first))
}

// removeFromFlow takes a key out with one of the commas around it.
func (t *keyText) removeFromFlow(i int) []byte {
	items := t.keys.Content
	from, to := t.offset(items[i]), flowEnd(t.text, t.offset(items[i]))
	switch {
	case i+1 < len(items):
		to = t.offset(items[i+1])
	case i > 0:
		from = flowEnd(t.text, t.offset(items[i-1]))
	default:
		from = t.offset(t.keys) + 1
		to = flowEnd(t.text, t.offset(t.keys)) - 1
	}
	return t.splice(from, to, "")
}

// flowEnd returns where the list or map that begins at from has ended. It panics if nothing begins or ends: see
// keyEdit.try.
func flowEnd(text []byte, from int) int {
	depth := 0
	for i := from; ; i++ {
		begins := i > 0 && strings.IndexByte(" \t\r\n[{,:", text[i-1]) >= 0
		switch c := text[i]; {
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == '"' && begins:
			i = doubleQuoted(text, i)
		case c == '\'' && begins:
			i = singleQuoted(text, i)
		case c == '#' && begins:
			for text[i] != '\n' {
				i++
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
}

// singleQuoted returns where the text that begins with a quote at from has its other quote. Two of them within mean
// one.
func singleQuoted(text []byte, from int) int {
	for i := from + 1; ; i++ {
		if text[i] != '\'' {
			continue
		}
		if i++; text[i] != '\'' {
			return i - 1
		}
	}
}

// doubleQuoted returns where the text that begins with a quote at from has its other quote.
func doubleQuoted(text []byte, from int) int {
	for i := from + 1; ; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
}
