package figures

import (
	"bytes"
	"strings"
)

// label is a label of a series. The value is as it stands on the page, with its escapes.
type label struct{ name, value []byte }

// cutLabels returns the labels of a series, without their braces, and what follows. text begins behind the name of the metric.
func cutLabels(text []byte) (labels, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '{' {
		return nil, text, len(text) > 0
	}
	quoted := false
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return text[1:i], text[i+1:], true
		}
	}
	return nil, nil, false
}

// nextLabel returns the first label, and what follows it; nil after the last. A label that is not well formed has no name, and is the last.
func nextLabel(text []byte) (l label, rest []byte) {
	name, text, found := bytes.Cut(text, []byte(`="`))
	if !found {
		return label{}, nil
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			l = label{bytes.Trim(name, ", \t"), text[:i]}
			return l, text[i+1:]
		}
	}
	return label{}, nil
}

// labelOf returns the value of a label; nil if there is none.
func labelOf(labels []byte, name string) []byte {
	for labels != nil {
		var l label
		if l, labels = nextLabel(labels); string(l.name) == name {
			return l.value
		}
	}
	return nil
}

// unescaped returns the value of a label as it was before it was written.
func unescaped(value []byte) string {
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value)
	}
	var out strings.Builder
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c == '\\' && i+1 < len(value) {
			i++
			if c = value[i]; c == 'n' {
				c = '\n'
			}
		}
		out.WriteByte(c)
	}
	return out.String()
}
