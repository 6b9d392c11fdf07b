package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"

	"go.yaml.in/yaml/v2"
)

// JoinFile is the reverse of [SplitFile]: it writes documents as one file of YAML. The text of a document is kept where
// possible, with its comments; other documents, such as JSON, are rewritten with the same meaning. Documents that no file
// can hold are left out, and the error, of errors.Join, has an *InvalidError for each.
func JoinFile(docs []Raw) ([]byte, error) {
	var out bytes.Buffer
	var failed []error
	for _, d := range docs {
		text, err := d.withKey(d.asItIs, d.asYAML, d.asJSON)
		if err != nil {
			failed = append(failed, err.invalid(d.Key, 0))
			continue
		}
		if out.Len() > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return out.Bytes(), errors.Join(failed...)
}

// JoinJSON returns the text of a file that holds one document, as JSON. The error is an *InvalidError.
func JoinJSON(d Raw) ([]byte, error) {
	text, err := d.withKey(d.asJSON)
	return text, err.invalid(d.Key, 0)
}

// withKey returns the text of the document in a file: the first of several ways to write it that reads back the same.
func (d Raw) withKey(ways ...func(map[string]any) []byte) ([]byte, *fieldError) {
	tree, err := parseTree(d.Value)
	if err != nil {
		return nil, err
	}
	if _, taken := tree["key"]; taken {
		return nil, &fieldError{Field: "key", Reason: "a document with a field of this name cannot stand in a file, where it is the document's key"}
	}
	for _, write := range ways {
		text := write(tree)
		docs, err := SplitFile(text)
		if err != nil || len(docs) != 1 || docs[0].Key != d.Key {
			continue
		}
		if read, err := parseTree(docs[0].Value); err == nil && sameTree(read, tree) {
			return text, nil
		}
	}
	return nil, &fieldError{Reason: "the document cannot be written into a file"}
}

// asItIs puts the key before the text, and removes marks that would end the document.
func (d Raw) asItIs(map[string]any) []byte {
	text := d.keyLine()
	if json.Valid(d.Value) {
		return nil
	}
	for _, part := range splitDocuments(d.Value) {
		text = append(text, bytes.TrimLeft(part.text, " \t\r\n")...)
	}
	return endLine(text)
}

// asYAML rewrites the fields in their order, below the comments that have lines of their own.
func (d Raw) asYAML(map[string]any) []byte {
	parse, text := parseYAML, []byte(nil)
	if json.Valid(d.Value) {
		parse = parseJSON
	} else {
		text = commentLines(d.Value)
	}
	raw, _ := parse(d.Value)
	fields, _ := raw.(yaml.MapSlice)
	body, err := yaml.Marshal(fields)
	if err != nil {
		return nil
	}
	if len(fields) == 0 {
		body = nil
	}
	return append(append(d.keyLine(), text...), body...)
}

// asJSON is for documents that the YAML library writes in a form that it does not read.
func (d Raw) asJSON(tree map[string]any) []byte {
	text, err := json.MarshalIndent(merge(tree, map[string]any{"key": d.Key}), "", "  ")
	if err != nil {
		return nil
	}
	return endLine(text)
}

func (d Raw) keyLine() []byte { return []byte("key: " + d.Key + "\n") }

func endLine(text []byte) []byte {
	return append(bytes.TrimRight(text, " \t\r\n"), '\n')
}

func commentLines(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] == '#' {
			out = append(append(out, line...), '\n')
		}
	}
	return out
}

// sameTree reports whether two trees are equal; 1e3 and 1000 are one number.
func sameTree(a, b any) bool {
	switch v := a.(type) {
	case map[string]any:
		w, ok := b.(map[string]any)
		if !ok || len(v) != len(w) {
			return false
		}
		for name := range v {
			if other, there := w[name]; !there || !sameTree(v[name], other) {
				return false
			}
		}
		return true
	case []any:
		w, ok := b.([]any)
		if !ok || len(v) != len(w) {
			return false
		}
		for i := range v {
			if !sameTree(v[i], w[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(wholeNumber(a), wholeNumber(b))
}

func wholeNumber(v any) any {
	if f, ok := v.(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return int64(f)
	}
	return v
}
