package files

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"

	"colonnade/fleet/document"
)

// sheet is a file, and the pieces of its text.
type sheet struct {
	source
	parts []document.Part
}

const separator = "---\n"

// emptied is the text of a file whose last document was removed: an empty file would look half written.
const emptied = "# no documents\n"

// rewrite returns the text of the sheet with some documents. Pieces whose document is among them are kept as they are.
func (s *sheet) rewrite(docs []Located) ([]byte, error) {
	byLine := make(map[int]document.Raw, len(docs))
	for _, d := range docs {
		byLine[d.Line] = d.Raw
	}
	var out []byte
	for _, p := range s.parts {
		piece := s.data[p.Begin:p.End]
		switch d, stays := byLine[p.Line]; {
		case p.Key == "" || stays && sameDocument(d, p.Raw):
			out = append(out, piece...)
		case !stays:
			out = append(out, headOf(p, piece)...)
		default:
			text, err := s.replaced(p, piece, d)
			if err != nil {
				return nil, err
			}
			out = append(out, text...)
		}
	}
	for _, d := range docs {
		if d.Line != 0 {
			continue
		}
		text, err := s.text(d.Raw)
		if err != nil {
			return nil, err
		}
		if out, err = s.add(out, text); err != nil {
			return nil, err
		}
	}
	if len(bytes.TrimSpace(out)) == 0 {
		out = []byte(emptied)
	}
	return out, nil
}

// sameDocument reports whether two versions of a document are the same text, where one of them may lack the head of a file.
func sameDocument(a, b document.Raw) bool {
	x, y := bytes.TrimSpace(a.Value), bytes.TrimSpace(b.Value)
	return a.Key == b.Key && (bytes.Equal(x, y) || bytes.Equal(x[len(head(x)):], y) || bytes.Equal(x, y[len(head(y)):]))
}

// text returns a document as it stands in the file.
func (s *sheet) text(d document.Raw) ([]byte, error) {
	if filepath.Ext(s.file) == jsonFile {
		return document.JoinJSON(d)
	}
	return document.JoinFile([]document.Raw{d})
}

// replaced returns the piece for a document in place of another one. The head of a file stays there.
func (s *sheet) replaced(p document.Part, piece []byte, d document.Raw) ([]byte, error) {
	above := headOf(p, piece)
	if rest, ok := bytes.CutPrefix(d.Value, bytes.TrimLeft(above, " \r\n")); ok && len(above) > 0 {
		d.Value = rest // it was read from this file
	}
	text, err := s.text(d)
	if err != nil {
		return nil, err
	}
	if p.Begin > 0 || bytes.HasPrefix(piece, []byte("---")) {
		above = append([]byte(separator), above...)
	}
	return append(slices.Clip(above), text...), nil
}

// add appends a document to the text of a file.
func (s *sheet) add(file, text []byte) ([]byte, error) {
	if bytes.Equal(file, []byte(emptied)) {
		file = nil
	}
	if len(bytes.TrimSpace(file)) == 0 {
		return text, nil
	}
	if filepath.Ext(s.file) == jsonFile {
		return nil, errors.New("a JSON file holds one document; use a YAML file, or a directory")
	}
	if !bytes.HasSuffix(file, []byte("\n")) {
		file = append(slices.Clip(file), '\n')
	}
	return append(append(slices.Clip(file), separator...), text...), nil
}

// headOf returns the head of the first document of a file. Other documents have none.
func headOf(p document.Part, piece []byte) []byte {
	if p.Begin > 0 || bytes.HasPrefix(piece, []byte("---")) {
		return nil
	}
	return head(piece)
}

// head returns the comments at the beginning of a text that are about the file, and not about its first document: those that an empty
// line follows, and the line that names the schema to editors.
func head(text []byte) []byte {
	end, at := 0, 0
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) > 0 && trimmed[0] != '#' {
			break
		}
		at += len(line)
		if len(trimmed) == 0 || bytes.HasPrefix(trimmed, []byte("# yaml-language-server:")) {
			end = at
		}
	}
	return text[:end]
}
