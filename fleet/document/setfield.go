package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
)

// RegisteredBy is the field in which a server names the API key that has registered an engine or a model.
const RegisteredBy = "registered_by"

// SetField returns the document with a text as the value of a field at its top, or without the field if the value is empty. Comments and all other
// fields stay as they are written, where the text allows it. The error is an *InvalidError.
func (d Raw) SetField(name, value string) (Raw, error) {
	tree, err := parseTree(d.Value)
	if err != nil {
		return Raw{}, err.invalid(d.Key, 0)
	}
	want := maps.Clone(tree)
	delete(want, name)
	if value != "" {
		want[name] = value
	}
	if sameTree(tree, want) {
		return d, nil
	}
	for _, text := range [][]byte{d.withLine(name, value), jsonOf(want)} {
		if read, err := parseTree(text); text != nil && err == nil && sameTree(read, want) {
			return Raw{Key: d.Key, Value: text}, nil
		}
	}
	err = &fieldError{Field: name, Reason: "the document cannot be written with this field"}
	return Raw{}, err.invalid(d.Key, 0)
}

// withLine changes the line of the field in a text that has one for each field, or adds it below all others; nil for JSON.
func (d Raw) withLine(name, value string) []byte {
	if json.Valid(d.Value) {
		return nil
	}
	line := []byte(nil)
	if value != "" {
		line = fmt.Appendf(nil, "%s: %s\n", name, value)
	}
	isField := regexp.MustCompile(`(?m)^["']?` + regexp.QuoteMeta(name) + `["']?\s*:[^\n]*(?:\n|\z)`)
	if at := isField.FindIndex(d.Value); at != nil {
		return bytes.Join([][]byte{d.Value[:at[0]], line, d.Value[at[1]:]}, nil)
	}
	if len(bytes.TrimSpace(d.Value)) == 0 {
		return line
	}
	return append(endLine(bytes.Clone(d.Value)), line...)
}

func jsonOf(tree map[string]any) []byte {
	text, err := json.MarshalIndent(tree, "", "  ")
	if err != nil {
		return nil
	}
	return endLine(text)
}
