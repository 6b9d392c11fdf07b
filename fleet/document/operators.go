package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"colonnade/fleet"
)

// KindInfo describes a kind of documents.
type KindInfo struct {
	Kind  fleet.Kind
	Form  string // of the keys, such as endpoints/<colo>/<endpoint>
	About string // one or two sentences
	// Slashes says that the last name in a key may have slashes.
	Slashes bool
}

// OperatorKinds returns the kinds of documents that operators write, in the order of the schema.
func OperatorKinds() (all []KindInfo) {
	for _, k := range kinds {
		switch {
		case k.OfNode(), k.Kind == fleet.KindDeletions:
		default:
			names := k.placeholders()
			all = append(all, KindInfo{k.Kind, k.form, k.about, len(names) > 0 && !isPlain(names[len(names)-1])})
		}
	}
	return all
}

// Schemas returns the parts of the [Schema] by name: that of each kind of documents that operators write has the name of the kind, and
// accepts a document with or without its key. Their references to each other begin with refs.
func Schemas(refs string) (map[string]json.RawMessage, error) {
	root, err := documentSchema()
	if err != nil {
		return nil, err
	}
	parts := map[string]json.RawMessage{}
	for name, part := range root.Defs {
		_, isKind := kindOf(fleet.Kind(name))
		if isKind && !slices.ContainsFunc(OperatorKinds(), func(k KindInfo) bool { return string(k.Kind) == name }) {
			continue
		}
		text, err := readableJSON(part)
		if err != nil {
			return nil, fmt.Errorf("cannot write the schema of %s: %w", name, err)
		}
		parts[name] = bytes.ReplaceAll(text, []byte(`"#/$defs/`), []byte(`"`+refs))
	}
	return parts, nil
}

// Fields returns the fields of a document as they are written, without defaults: texts, numbers, bools, lists and maps. The error is an
// *InvalidError: the document cannot be read. Fields does not check them; see [Check].
func Fields(key string, value []byte) (map[string]any, error) {
	tree, err := parseTree(value)
	return tree, err.invalid(key, 0)
}

// OwnKey returns a document without the field key, which a file has, and that key; it is empty if there is no such field.
func OwnKey(value []byte) (Raw, error) {
	tree, invalid := parseTree(value)
	if invalid != nil {
		return Raw{}, invalid.invalid("", 0)
	}
	if _, has := tree["key"]; !has {
		return Raw{Value: value}, nil
	}
	var found []filePart
	for _, p := range splitDocuments(value) {
		if !p.blank() {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		return Raw{}, &InvalidError{Reason: `there must be one document; take out the lines "---"`}
	}
	return found[0].takeKey()
}

// Placeholders returns the names in the form of the keys, such as colo and endpoint.
func (k KindInfo) Placeholders() (names []string) {
	for _, placeholder := range strings.Split(k.Form, "/")[1:] {
		names = append(names, strings.Trim(placeholder, "<>"))
	}
	return names
}
