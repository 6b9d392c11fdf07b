package openai

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"

	"colonnade/internal/ascii"
)

const (
	maxParts      = 256
	maxPartHeader = 4 << 10
)

// form passes over a multipart body. It accepts only the form that every parser reads alike: no text before the first
// boundary or after the last, boundaries only on lines of their own, CRLF, no folded lines, no transfer encodings, no
// escapes in names. Real clients send this form.
type form struct {
	body      []byte
	delimiter []byte // "--" and the boundary
	i         int    // just after a delimiter
	last      bool   // that delimiter is the closing one
	out       Body
	seen      fieldSet
}

func peekForm(contentType string, body []byte) (Body, *Error) {
	boundary, err := formBoundary(contentType)
	if err != nil {
		return Body{}, err
	}
	f := form{body: body, delimiter: []byte("--" + boundary), out: Body{form: true}}
	if !bytes.HasPrefix(body, f.delimiter) {
		return Body{}, InvalidRequest("", "the form does not begin with its boundary")
	}
	if err := f.delimited(len(f.delimiter)); err != nil {
		return Body{}, err
	}
	for parts := 0; !f.last; parts++ {
		if parts == maxParts {
			return Body{}, InvalidRequest("", "the form has more than %d parts", maxParts)
		}
		if err := f.part(); err != nil {
			return Body{}, err
		}
	}
	if !f.seen.has(fieldModel) {
		return Body{}, InvalidRequest("model", "the form has no \"model\": name the model to use")
	}
	return f.out, nil
}

// formBoundary accepts only the plain spellings of a boundary.
func formBoundary(contentType string) (string, *Error) {
	bad := InvalidRequest("", "the content type of the form has no usable boundary")
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || strings.Contains(contentType, "*") || strings.Contains(contentType, "\\") {
		return "", bad
	}
	if _, all := splitMediaType(contentType); !inUTF8(all) {
		return "", InvalidRequest("", "the content type of the form has a charset: forms must be UTF-8")
	}
	boundary := params["boundary"]
	if boundary == "" || len(boundary) > 70 {
		return "", bad
	}
	for i := range len(boundary) {
		if !ascii.IsTokenByte(boundary[i]) && strings.IndexByte("'()+_,-./:=?", boundary[i]) < 0 {
			return "", bad
		}
	}
	return boundary, nil
}

// delimited checks the bytes after the delimiter that ends at i, and passes them.
func (f *form) delimited(i int) *Error {
	rest := f.body[i:]
	switch {
	case bytes.HasPrefix(rest, []byte("\r\n")):
		f.i = i + 2
		return nil
	case string(rest) == "--" || string(rest) == "--\r\n":
		f.last = true
		return nil
	}
	return InvalidRequest("", "the form has its boundary in a wrong place, or text after its end")
}

// part passes one part and the delimiter after it.
func (f *form) part() *Error {
	headers, ok := f.headers()
	if !ok {
		return InvalidRequest("", "the headers of a part of the form are malformed or longer than %d bytes", maxPartHeader)
	}
	part, err := parsePart(headers)
	if err != nil {
		return err
	}
	n := bytes.Index(f.body[f.i:], f.delimiter)
	if n < 2 || string(f.body[f.i+n-2:f.i+n]) != "\r\n" {
		return InvalidRequest("", "the form is cut off, or has its boundary inside a part")
	}
	content := span{f.i, f.i + n - 2}
	if !part.file && part.plain && !isText(f.body[content.from:content.to]) {
		return InvalidRequest(part.name, "the form field %q has a NUL or is not UTF-8", part.name)
	}
	if err := f.take(part, content); err != nil {
		return err
	}
	return f.delimited(f.i + n + len(f.delimiter))
}

func isText(b []byte) bool { return bytes.IndexByte(b, 0) < 0 && utf8.Valid(b) }

// headers passes a part's header lines and the blank line after them.
func (f *form) headers() ([]byte, bool) {
	rest := f.body[f.i:]
	if len(rest) > maxPartHeader {
		rest = rest[:maxPartHeader]
	}
	n := bytes.Index(rest, []byte("\r\n\r\n"))
	if n < 0 {
		return nil, false
	}
	f.i += n + len("\r\n\r\n")
	return rest[:n], true
}

// take reads a part, if its name matters here.
func (f *form) take(p formPart, content span) *Error {
	if ascii.EqualFold(p.name, "_charset_") && !isUTF8(string(f.body[content.from:content.to])) { // RFC 7578, section 4.6
		return InvalidRequest(p.name, "the form field %q must be UTF-8", p.name)
	}
	is := formFieldOf([]byte(p.name))
	if is == 0 {
		folded := appendFolded(nil, []byte(p.name))
		base, _, indexed := strings.Cut(string(folded), "[")
		if value := f.body[content.from:content.to]; !p.file && namesFile(base, value) {
			f.out.EngineFields |= EngineFieldsNamed([]string{FileURLs})
		}
		folds := formFieldOf([]byte(base))
		if folds >= firstEngineField {
			f.out.EngineFields |= folds.engine()
			return nil
		}
		if folds != 0 && (!indexed || folds == fieldModel) {
			return InvalidRequest("", "the form field %q must be written %q", p.name, base)
		}
		return nil
	}
	if f.seen.has(is) {
		return InvalidRequest(p.name, "the form field %q occurs twice", p.name)
	}
	f.seen.add(is)
	if is >= firstEngineField {
		f.out.EngineFields |= is.engine()
		return nil
	}
	value := f.body[content.from:content.to]
	switch is {
	case fieldModel:
		return f.model(p, content, value)
	case fieldStream:
		return f.stream(value)
	case fieldN:
		return f.out.addChoices(p.name, value)
	}
	return nil
}

// formFieldOf is fieldOf for forms, whose APIs are all OpenAI's.
func formFieldOf(name []byte) field {
	if f := fieldOf(name); !f.isNative() {
		return f
	}
	return 0
}

func (f *form) model(p formPart, content span, value []byte) *Error {
	if p.file || !p.plain {
		return InvalidRequest("model", "the form field \"model\" must be plain text in UTF-8")
	}
	if err := checkModel(value); err != nil {
		return err
	}
	f.out.model, f.out.Model = content, string(value)
	return nil
}

func (f *form) stream(value []byte) *Error {
	f.out.Stream = ascii.EqualFold(value, "true")
	if !f.out.Stream && !ascii.EqualFold(value, "false") {
		return InvalidRequest("stream", "the form field \"stream\" must be true or false")
	}
	return nil
}
