package openai

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"
)

// PromptText finds the text in the bodies of requests that an engine may read: all strings of JSON, decoded, and the fields of forms. Left
// out are media in base64, the names of members, and members that choose something, such as the model. Texts of neighbouring parts of one
// content come together as well, since engines join them.
type PromptText struct {
	Visit func(text []byte) // gets each text, which is valid until it returns
	Size  int               // bytes of text that were found, without those that came together

	// Tokens says that a prompt is a list of token ids, whose text is not known.
	Tokens bool
}

// Read goes through a body that has passed Peek. ok is false if the body cannot be read, after which some texts may not have been visited.
func (t *PromptText) Read(contentType string, body []byte) (ok bool) {
	if isForm(contentType) {
		return t.readForm(contentType, body)
	}
	r := textReader{scan: scan{b: body}, found: t}
	r.value("")
	return r.end()
}

func (t *PromptText) visit(text []byte) {
	t.Size += len(text)
	t.Visit(text)
}

func (t *PromptText) readForm(contentType string, body []byte) bool {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	form := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		part, err := form.NextRawPart()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return false
		}
		if part.FileName() == "" && !choosesSomething(part.FormName()) {
			t.visit(value)
		}
	}
}

// choosesSomething reports whether the strings of a member are no text of a prompt.
func choosesSomething(name string) bool {
	switch name {
	case "model", "role", "type", "object", "format", "media_type", "detail", "response_format":
		return true
	}
	return false
}

// holdsMedia reports whether the strings of a member are media in base64.
func holdsMedia(name string) bool {
	switch name {
	case "data", "file_data", "b64_json", "image", "images", "mask", "multimodal_data":
		return true
	}
	return false
}

// holdsTokens reports whether numbers in a list of this name are tokens of a prompt.
func holdsTokens(name string) bool {
	switch name {
	case "prompt", "input", "inputs", "content", "input_ids", "prompt_token_ids", "tokens", "input_extra", "context": // the last is Ollama's
		return true
	}
	return false
}

// holdsURL reports whether the strings of a member may be media as a data: URL.
func holdsURL(name string) bool {
	return strings.HasSuffix(name, "url") || strings.HasSuffix(name, "urls")
}

// isDataURL reports whether a text is a data: URL in base64, and nothing else.
func isDataURL(text []byte) bool {
	head, data, ok := bytes.Cut(text, []byte(";base64,"))
	return ok && len(head) <= 256 && bytes.HasPrefix(head, []byte("data:")) && isBase64(data)
}

// holdsArguments reports whether an object of this name has the arguments of a call: all strings in it are text, whatever their names are.
func holdsArguments(name string) bool { return name == "input" || name == "arguments" }

// textReader reads the texts of a JSON body.
type textReader struct {
	scan
	found     *PromptText
	arguments bool // inside the arguments of a call
}

// value passes the value of a member. It returns its text, if it is a string that was visited.
func (r *textReader) value(name string) (text []byte) {
	switch r.space() {
	case '{':
		before := r.arguments
		r.arguments = before || holdsArguments(name)
		r.object()
		r.arguments = before
	case '[':
		r.list(name)
	case '"':
		return r.string(name)
	default:
		r.skip()
	}
	return nil
}

func (r *textReader) string(name string) []byte {
	text := r.text()
	if !r.arguments && (choosesSomething(name) || holdsMedia(name) || holdsURL(name) && isDataURL(text)) {
		return nil
	}
	r.found.visit(text)
	return text
}

// object passes an object, and returns the texts of its member text. The member data is media, unless a type beside it says that it is text,
// as in documents of Anthropic's Messages.
func (r *textReader) object() (part []byte) {
	var data [][]byte
	isText := false
	for key, ok := r.firstMember(); ok; key, ok = r.nextMember() {
		name, start := string(key), r.start()
		value := r.value(name)
		switch name {
		case "text":
			part = value
		case "data":
			data = append(data, r.b[start:r.i])
		case "type", "media_type":
			kind := unescaped(r.b[start:r.i])
			isText = isText || string(kind) == "text" || bytes.HasPrefix(kind, []byte("text/"))
		}
	}
	if isText && !r.arguments { // else it was visited
		for _, raw := range data {
			r.visitString(raw)
		}
	}
	return part
}

func (r *textReader) visitString(raw []byte) {
	if text := unescaped(raw); text != nil {
		r.found.visit(text)
	}
}

// list passes an array. If it has several parts with text, these are visited together too: joined as they are, and by line breaks.
func (r *textReader) list(name string) {
	var parts [][]byte
	for more := r.firstElement(); more; more = r.nextElement() {
		switch c := r.space(); {
		case c == '{':
			if part := r.object(); len(part) > 0 {
				parts = append(parts, part)
			}
		case c == '-' || '0' <= c && c <= '9':
			r.found.Tokens = r.found.Tokens || !r.arguments && holdsTokens(name)
			r.skip()
		default:
			r.value(name)
		}
	}
	if len(parts) > 1 {
		r.found.Visit(bytes.Join(parts, nil))
		r.found.Visit(bytes.Join(parts, []byte("\n")))
	}
}
