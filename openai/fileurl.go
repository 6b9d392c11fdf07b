package openai

import (
	"bytes"

	"colonnade/internal/ascii"
)

// mayBeFileURL tells most strings apart from those for which isFileURL must be asked.
func mayBeFileURL(raw []byte) bool {
	return len(raw) >= len("file:") && (raw[0]|0x20 == 'f' || raw[0] == '\\' || raw[0] == ' ')
}

// isFileURL reports whether a string, as written between its quotes, is a URL of the scheme file where a body has URLs of images, audio
// or video: engines open it on their own machine. Text of a prompt may begin in the same way.
func (s *scan) isFileURL(raw []byte) bool {
	var buf [maxKey]byte
	return isMediaName(s.passedName(buf[:0])) && hasFileScheme(raw)
}

// passedName returns the name of the member passed last, unescaped if it can be one that matters.
func (s *scan) passedName(buf []byte) []byte {
	name := s.b[s.name.from:s.name.to]
	if len(name) <= 6*maxKey && bytes.IndexByte(name, '\\') >= 0 {
		name, _ = appendUnescaped(buf, name)
	}
	return name
}

// hasFileScheme reads a URL as the most lenient parsers do, which pass over white space (WHATWG URL, section 4.4).
func hasFileScheme(raw []byte) bool {
	const scheme = "file:"
	matched := 0
	for len(raw) > 0 && matched < len(scheme) {
		c, n := rune(raw[0]), 1
		if c == '\\' && raw[1] == 'u' {
			c, n = unescapeRune(raw)
			n = max(n, 6)
		} else if c == '\\' {
			c, n = rune(unescape(raw[1])), 2
		}
		raw = raw[n:]
		switch {
		case c == '\t' || c == '\n' || c == '\r' || c <= ' ' && matched == 0:
		case c < 0x80 && ascii.ToLower(byte(c)) == scheme[matched]:
			matched++
		default:
			return false
		}
	}
	return matched == len(scheme)
}

// isMediaName reports whether engines read a URL of a file in a member with this name.
func isMediaName(name []byte) bool {
	switch string(name) {
	case "image", "audio", "video", "file":
		return true
	}
	return bytes.HasSuffix(name, []byte("url"))
}
