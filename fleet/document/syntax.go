package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"
)

// parseTree reads a document. Text that is valid JSON is read as JSON, anything else as YAML.
func parseTree(value []byte) (map[string]any, *fieldError) {
	if len(value) > MaxSize {
		return nil, &fieldError{Reason: fmt.Sprintf("the document has %d bytes; at most %d are accepted", len(value), MaxSize)}
	}
	if !utf8.Valid(value) {
		return nil, &fieldError{Reason: "the document is not valid UTF-8"}
	}
	parse := parseYAML
	if json.Valid(value) {
		parse = parseJSON
	}
	raw, err := parse(value)
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, &fieldError{Reason: "the document is empty; write {} to have all defaults"}
	}
	tree, err := plain(raw, 1)
	if err != nil {
		return nil, err
	}
	root, ok := tree.(map[string]any)
	if !ok {
		return nil, &fieldError{Reason: "the document must be a map of fields"}
	}
	return root, nil
}

// parseYAML returns a document as yaml.MapSlice, which keeps duplicate keys and the types of keys, so that both can be
// refused.
func parseYAML(value []byte) (raw any, ferr *fieldError) {
	if yamlAnchor.Match(value) && yamlAlias.Match(value) || bytes.Contains(value, []byte("<<")) {
		// They are refused before they are parsed, since a few lines of aliases expand to gigabytes. A text that only
		// looks like one can be written in JSON.
		return nil, &fieldError{Reason: "YAML anchors, aliases and merge keys are not accepted; write the fields out"}
	}
	// No panic of the library is known, but a document that caused one would end every node of the fleet.
	defer func() {
		if r := recover(); r != nil {
			raw, ferr = nil, &fieldError{Reason: "the document is not YAML that can be read"}
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(value))
	var root *yaml.MapSlice // nil for null and for nothing; an empty map is a nil slice
	if err := decoder.Decode(&root); err != nil && !errors.Is(err, io.EOF) {
		return nil, yamlError(err)
	}
	var second any
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, &fieldError{Reason: `more than one document under one key; take out the line "---"`}
	}
	if root == nil {
		return nil, nil
	}
	return *root, nil
}

var (
	yamlAnchor = regexp.MustCompile(`&[A-Za-z0-9_-]`)
	yamlAlias  = regexp.MustCompile(`\*[A-Za-z0-9_-]`)
	yamlLine   = regexp.MustCompile(`\bline ([0-9]+)`) // in an error of the YAML library
)

// yamlError keeps the line number of a YAML error, and nothing of the document.
func yamlError(err error) *fieldError {
	var types *yaml.TypeError
	if errors.As(err, &types) {
		return &fieldError{Reason: "the document must be a map of fields"}
	}
	out := &fieldError{Reason: "the document is not valid YAML"}
	if found := yamlLine.FindStringSubmatch(err.Error()); found != nil {
		out.Line, _ = strconv.Atoi(found[1])
		out.Reason += fmt.Sprintf(" (line %d)", out.Line)
	}
	return out
}

// parseJSON returns a valid JSON document in the same shape as parseYAML does.
func parseJSON(value []byte) (any, *fieldError) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	return jsonValue(decoder, 1)
}

func jsonValue(decoder *json.Decoder, depth int) (any, *fieldError) {
	token, err := decoder.Token()
	if err != nil {
		return nil, &fieldError{Reason: "the document is not valid JSON"}
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth > MaxDepth {
		return nil, tooDeep()
	}
	if delim == '[' {
		return jsonList(decoder, depth)
	}
	return jsonMap(decoder, depth)
}

func jsonList(decoder *json.Decoder, depth int) (any, *fieldError) {
	list := []any{}
	for decoder.More() {
		element, err := jsonValue(decoder, depth+1)
		if err != nil {
			return nil, err.at(len(list))
		}
		list = append(list, element)
	}
	_, _ = decoder.Token() // the bracket: the document is known to be valid
	return list, nil
}

func jsonMap(decoder *json.Decoder, depth int) (any, *fieldError) {
	items := yaml.MapSlice{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, &fieldError{Reason: "the document is not valid JSON"}
		}
		element, ferr := jsonValue(decoder, depth+1)
		if ferr != nil {
			return nil, ferr.in(fieldName(fmt.Sprint(key)))
		}
		items = append(items, yaml.MapItem{Key: key, Value: element})
	}
	_, _ = decoder.Token()
	return items, nil
}
