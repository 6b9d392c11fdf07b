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
	parts, err := SplitParts(data)
	if err != nil {
		return nil, err
	}
	var out []Raw
	var failed []error
	for _, part := range parts {
		if part.Err != nil {
			number := len(out) + len(failed) + 1
			failed = append(failed, fmt.Errorf("cannot read document %d of the file (from line %d): %w", number, part.first, part.Err))
		} else if part.Key != "" {
			out = append(out, part.Raw)
		}
	}
	return out, errors.Join(failed...)
}

// Part is a piece of a file of documents, between two of the lines that separate documents.
type Part struct {
	Raw              // its document; without a key if it has none
	Line       int   // of the file, counted from 1: the first with text that is no comment, or the first of all
	Begin, End int   // its bytes in the file, with the line that separates it from the part before
	Err        error // why its document cannot be read; nil also for a part of comments alone

	first int // the line at which it begins
}

// SplitParts is SplitFile for programs that change a file, or name its lines: the parts cover the file, in its order. The
// error says that the file is too large.
func SplitParts(data []byte) ([]Part, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("cannot read a file of %d bytes: at most %d are accepted", len(data), MaxFile)
	}
	var parts []Part
	begin := 0
	for _, p := range splitDocuments(data) {
		part := Part{Line: p.firstText(), Begin: begin, End: p.end, first: p.line}
		begin = p.end
		if !p.blank() {
			part.Raw, part.Err = p.takeKey()
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// filePart is one document of a file, the line at which it begins, and the offset at which it ends.
type filePart struct {
	line, end int
	text      []byte
}

// splitDocuments splits at the lines that begin with "---" or "...". At the beginning of a line these end a document
// everywhere in YAML, even within a quoted text.
func splitDocuments(data []byte) []filePart {
	parts, number := []filePart{{line: 1}}, 0
	end := 0
	for line := range bytes.Lines(data) {
		number++
		end += len(line)
		if bytes.HasPrefix(line, []byte("---")) || bytes.HasPrefix(line, []byte("...")) {
			if rest := line[3:]; len(bytes.TrimSpace(rest)) == 0 || rest[0] == ' ' || rest[0] == '\t' {
				parts, line = append(parts, filePart{line: number}), rest
			}
		}
		last := &parts[len(parts)-1]
		last.text, last.end = append(last.text, line...), end
	}
	return parts
}

// firstText returns the line of the file at which the text begins, after comments and empty lines.
func (part filePart) firstText() int {
	number := part.line
	for line := range bytes.Lines(part.text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return number
		}
		number++
	}
	return part.line
}

// takeKey separates a document of a file from its key.
func (part filePart) takeKey() (Raw, error) {
	tree, err := parseTree(part.text)
	if err != nil {
		return Raw{}, err.invalid("", 0)
	}
	key, ok := tree["key"].(string)
	if !ok || key == "" {
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
