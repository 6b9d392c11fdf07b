package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
)

// MaxFile is the largest file of documents that is read.
const MaxFile = 16 << 20

// Raw is a key (without the prefix) and its YAML or JSON value, unparsed.
type Raw struct {
	Key   string
	Value []byte
}

// SplitFile reads a file of YAML documents, each with its key in the field key. It returns the values without that field,
// and with their comments where possible; it does not check them: see [Check]. For documents that cannot be read, the
// error, of errors.Join, has one error each; the others are returned.
func SplitFile(data []byte) ([]Raw, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("cannot read a file of %d bytes: at most %d are accepted", len(data), MaxFile)
	}
	var out []Raw
	var failed []error
	for _, part := range splitDocuments(data) {
		if part.blank() {
			continue
		}
		doc, err := part.takeKey()
		if err != nil {
			number := len(out) + len(failed) + 1
			failed = append(failed, fmt.Errorf("cannot read document %d of the file (from line %d): %w", number, part.line, err))
			continue
		}
		out = append(out, doc)
	}
	return out, errors.Join(failed...)
}

// filePart is one document of a file, and the line at which it begins.
type filePart struct {
	line int
	text []byte
}

// splitDocuments splits at the lines that begin with "---" or "...". At the beginning of a line these end a document
// everywhere in YAML, even within a quoted text.
func splitDocuments(data []byte) []filePart {
	parts, number := []filePart{{line: 1}}, 0
	for line := range bytes.Lines(data) {
		number++
		if bytes.HasPrefix(line, []byte("---")) || bytes.HasPrefix(line, []byte("...")) {
			if rest := line[3:]; len(bytes.TrimSpace(rest)) == 0 || rest[0] == ' ' || rest[0] == '\t' {
				parts, line = append(parts, filePart{line: number}), rest
			}
		}
		last := &parts[len(parts)-1]
		last.text = append(last.text, line...)
	}
	return parts
}

// takeKey separates a document of a file from its key.
func (part filePart) takeKey() (Raw, error) {
	tree, err := parseTree(part.text)
	if err != nil {
		return Raw{}, err.invalid("", 0)
	}
	key, ok := tree["key"].(string)
	if !ok {
		return Raw{}, &InvalidError{Field: "key", Reason: "each document of a file needs its key, such as key: models/llama"}
	}
	rest := maps.Clone(tree)
	delete(rest, "key")
	value, failed := withoutKey(part.text, rest)
	return Raw{Key: key, Value: value}, failed
}

// blank reports whether a document consists of empty lines and comments.
func (part filePart) blank() bool {
	for line := range bytes.Lines(part.text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// withoutKey removes the line of the key from a document. Where that does not result in want, since the key may be
// anywhere in a flow map, the document is rewritten.
func withoutKey(text []byte, want map[string]any) ([]byte, error) {
	var kept []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte("key:")) {
			kept = append(kept, line...)
		}
	}
	if got, err := parseTree(kept); err == nil && reflect.DeepEqual(got, want) {
		return bytes.TrimLeft(kept, " \r\n"), nil
	}
	value, err := json.Marshal(want)
	if err != nil {
		return nil, fmt.Errorf("cannot write the document as JSON: %w", err)
	}
	return value, nil
}
