package fleet

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// keyText is the text of an account's document, and where in it the keys stand.
type keyText struct {
	text  []byte
	lines []int      // where each begins
	json  bool       // the text is JSON, which is YAML's flow style but for the quotes around names
	doc   *yaml.Node // the document, which the comments at its head and foot belong to
	root  *yaml.Node // its map
	field *yaml.Node // the name "keys" in it; nil = it is not there
	keys  *yaml.Node // its list
}

// readKeyText returns nil if the text cannot be taken apart.
func readKeyText(text []byte) *keyText {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	t := &keyText{text: text, json: json.Valid(text), doc: &doc, root: doc.Content[0]}
	for at := 0; at < len(text); at += lineLength(text[at:]) {
		t.lines = append(t.lines, at)
	}
	for i := 0; i+1 < len(t.root.Content); i += 2 {
		if t.root.Content[i].Value == "keys" {
			t.field, t.keys = t.root.Content[i], t.root.Content[i+1]
		}
	}
	return t
}

func (t *keyText) add(key Key) []byte {
	switch {
	case t.keys == nil && isFlow(t.root):
		return t.addFieldToFlow(key)
	case t.keys == nil:
		return t.addFieldToBlock(key)
	case isFlow(t.keys):
		return t.addToFlow(key)
	}
	return t.addToBlock(key)
}

func (t *keyText) remove(i int) []byte {
	if isFlow(t.keys) {
		return t.removeFromFlow(i)
	}
	return t.removeFromBlock(i)
}

func isFlow(n *yaml.Node) bool { return n.Style&yaml.FlowStyle != 0 }

// offset is where a node begins. The library counts lines and characters, from 1.
func (t *keyText) offset(n *yaml.Node) int {
	at := t.lines[n.Line-1]
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(t.text[at:])
		at += size
	}
	return at
}

// splice returns the text with from…to replaced.
func (t *keyText) splice(from, to int, by string) []byte {
	return append(append(bytes.Clone(t.text[:from]), by...), t.text[to:]...)
}

// indent is the white space that a line begins with.
func (t *keyText) indent(line int) string {
	rest := t.text[t.lines[line-1]:]
	return string(rest[:len(rest)-len(bytes.TrimLeft(rest, " \t"))])
}

// line returns the text of a line, with its end.
func (t *keyText) line(line int) []byte { return t.text[t.lines[line-1]:t.lineEnd(line)] }

// lineEnd is where the next line begins.
func (t *keyText) lineEnd(line int) int {
	if line == len(t.lines) {
		return len(t.text)
	}
	return t.lines[line]
}

// newline is how the text's lines end.
func (t *keyText) newline() string {
	if bytes.HasSuffix(t.line(1), []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// addFieldToBlock writes the keys below everything else.
func (t *keyText) addFieldToBlock(key Key) []byte {
	indent := strings.Repeat(" ", t.root.Column-1)
	return t.insertLines(len(t.lines), indent+"keys:", indent+"  - "+key.yamlFlow())
}

// addToBlock writes the key below the last one, in the same style.
func (t *keyText) addToBlock(key Key) []byte {
	last := t.keys.Content[len(t.keys.Content)-1]
	dash := t.text[t.lines[last.Line-1]:t.offset(last)]
	if trimmed := bytes.TrimSpace(dash); len(trimmed) != 1 || trimmed[0] != '-' {
		return nil // the dash has a line of its own
	}
	if isFlow(last) {
		return t.insertLines(t.endLine(last), string(dash)+key.yamlFlow())
	}
	var lines []string
	for i, f := range key.fields() {
		prefix := string(dash)
		if i > 0 {
			prefix = strings.Repeat(" ", len(dash))
		}
		lines = append(lines, prefix+f[0]+": "+f[1])
	}
	return t.insertLines(t.endLine(last), lines...)
}

// insertLines inserts lines below a line.
func (t *keyText) insertLines(below int, lines ...string) []byte {
	at, newline := t.lineEnd(below), t.newline()
	text := strings.Join(lines, newline) + newline
	if at > 0 && t.text[at-1] != '\n' {
		text = newline + text
	}
	return t.splice(at, at, text)
}

// removeFromBlock takes out the lines of a key, and those of the comment above it: left there, it would seem to speak
// of the next key.
func (t *keyText) removeFromBlock(i int) []byte {
	from, to := t.own(i)
	if len(t.keys.Content) > 1 {
		return t.splice(from, to, "")
	}
	colon := t.offset(t.field) + bytes.IndexByte(t.text[t.offset(t.field):], ':') + 1
	rest := append([]byte(" []"), t.text[colon:from]...)
	return append(append(bytes.Clone(t.text[:colon]), rest...), t.text[to:]...)
}

// endLine is the last line of a node.
func (t *keyText) endLine(n *yaml.Node) int {
	if isFlow(n) {
		end := flowEnd(t.text, t.offset(n))
		return n.Line + bytes.Count(t.text[t.offset(n):end], []byte("\n"))
	}
	line := n.Line
	for _, child := range n.Content {
		line = max(line, t.endLine(child))
	}
	return line
}

// addNode has the YAML library write everything, which loses empty lines.
func (t *keyText) addNode(key Key) []byte {
	var doc yaml.Node
	if t.json || yaml.Unmarshal([]byte(key.yamlFlow()), &doc) != nil {
		return nil
	}
	if t.keys == nil {
		t.keys = &yaml.Node{Kind: yaml.SequenceNode}
		t.root.Content = append(t.root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "keys"}, t.keys)
	}
	t.keys.Content = append(t.keys.Content, doc.Content[0])
	return t.encode()
}

func (t *keyText) removeNode(i int) []byte {
	if t.json {
		return nil
	}
	t.keys.Content = append(t.keys.Content[:i:i], t.keys.Content[i+1:]...)
	return t.encode()
}

func (t *keyText) encode() []byte {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if encoder.Encode(t.doc) != nil {
		return nil
	}
	return out.Bytes()
}
