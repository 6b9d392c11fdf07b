package openai

import (
	"bytes"
	"strings"

	"colonnade/internal/ascii"
)

// formPart is the content of a part's headers.
type formPart struct {
	name  string
	file  bool // it has a file name
	plain bool // it is text, as far as the headers say
}

// parsePart reads the header lines of a part, without the last line's CRLF.
func parsePart(headers []byte) (formPart, *Error) {
	part := formPart{plain: true}
	disposed := false
	for len(headers) > 0 {
		var line []byte
		line, headers, _ = bytes.Cut(headers, []byte("\r\n"))
		name, value, ok := splitHeader(line)
		switch {
		case !ok:
			return part, InvalidRequest("", "the headers of a part of the form are malformed")
		case ascii.EqualFold(name, "content-disposition"):
			if disposed {
				return part, InvalidRequest("", "a part of the form has two content-disposition headers")
			}
			disposed = true
			if !part.disposition(string(value)) {
				return part, InvalidRequest("", "a part of the form needs: content-disposition: form-data; name=\"…\", the name of letters, digits and . _ - [ ]")
			}
		case ascii.EqualFold(name, "content-type") && isNested(string(value)):
			return part, InvalidRequest("", "a part of the form has parts of its own")
		case ascii.EqualFold(name, "content-encoding"):
			return part, InvalidRequest("", "the content-encoding of a part of the form is not supported: send it as it is")
		case ascii.EqualFold(name, "content-type"):
			part.plain = part.plain && isPlainText(string(value))
		case ascii.EqualFold(name, "content-transfer-encoding"):
			if !ascii.EqualFold(value, "binary") && !ascii.EqualFold(value, "8bit") && !ascii.EqualFold(value, "7bit") {
				return part, InvalidRequest("", "the content-transfer-encoding of a part of the form is not supported: leave it out")
			}
		}
	}
	if !disposed {
		return part, InvalidRequest("", "a part of the form has no content-disposition header")
	}
	return part, nil
}

// splitHeader splits a header line; ok means that no parser reads it differently.
func splitHeader(line []byte) (name, value []byte, ok bool) {
	name, value, ok = bytes.Cut(line, []byte(":"))
	if !ok || len(name) == 0 || ascii.HasControl(value) {
		return nil, nil, false
	}
	for _, c := range name {
		if !ascii.IsTokenByte(c) {
			return nil, nil, false
		}
	}
	return name, ascii.TrimSpace(value), true
}

func isPlainText(contentType string) bool {
	media, params := splitMediaType(contentType)
	return ascii.EqualFold(media, "text/plain") && inUTF8(params)
}

// disposition reads form-data; name="…"; filename="…", in any order. A backslash is refused: half of the parsers take
// it for an escape and half do not.
func (p *formPart) disposition(value string) bool {
	if strings.Contains(value, "\\") {
		return false
	}
	kind, rest, _ := strings.Cut(value, ";")
	if !ascii.EqualFold(strings.Trim(kind, " \t"), "form-data") {
		return false
	}
	named := false
	for strings.Trim(rest, " \t") != "" {
		key, text, after, ok := parameter(rest)
		if !ok {
			return false
		}
		rest = after
		switch {
		case ascii.EqualFold(key, "name"):
			if named || !plainName(text) {
				return false
			}
			named, p.name = true, text
		case ascii.EqualFold(key, "filename"), ascii.EqualFold(key, "filename*"):
			p.file = true
		default:
			return false
		}
	}
	return named
}

// parameter splits off the first key=value or key="value", and the semicolon after it.
func parameter(s string) (key, value, rest string, ok bool) {
	key, s, ok = strings.Cut(s, "=")
	key = strings.Trim(key, " \t")
	if !ok {
		return "", "", "", false
	}
	if !strings.HasPrefix(s, `"`) {
		value, rest, _ = strings.Cut(s, ";")
		value = strings.TrimRight(value, " \t")
		return key, value, rest, ascii.IsToken(value)
	}
	value, rest, ok = strings.Cut(s[1:], `"`)
	rest = strings.TrimLeft(rest, " \t")
	if !ok || rest != "" && rest[0] != ';' {
		return "", "", "", false
	}
	return key, value, strings.TrimPrefix(rest, ";"), true
}

// plainName accepts names that need no decoding.
func plainName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !ascii.IsAlphanumeric(c) && strings.IndexByte("._-[]", c) < 0 {
			return false
		}
	}
	return s != ""
}
