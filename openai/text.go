package openai

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"

	"colonnade/internal/ascii"
)

// appendUnescaped appends the text of a JSON string's inside; its escapes must be valid. It reports whether every
// surrogate was one of a pair: parsers differ in how they read a single one (here as U+FFFD).
func appendUnescaped(dst, raw []byte) (out []byte, paired bool) {
	paired = true
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(dst, raw...), paired
		}
		dst = append(dst, raw[:i]...)
		raw = raw[i:]
		if raw[1] != 'u' {
			dst = append(dst, unescape(raw[1]))
			raw = raw[2:]
			continue
		}
		r, n := unescapeRune(raw)
		paired = paired && n > 0
		dst = utf8.AppendRune(dst, r)
		raw = raw[max(n, 6):]
	}
}

// unescapeRune reads a \uXXXX or a pair of them and returns its length; a single surrogate has length 0.
func unescapeRune(raw []byte) (rune, int) {
	r, _ := hex4(raw[2:])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
		second, _ := hex4(raw[8:])
		if pair := utf16.DecodeRune(r, second); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 0
}

func unescape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		d, ok := ascii.HexDigit(c)
		if !ok {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

// appendFolded appends key as a parser reads it that ignores letter case: lower ASCII, with the two letters beyond
// ASCII that fold into it.
func appendFolded(dst, key []byte) []byte {
	for i := 0; i < len(key); {
		r, n := utf8.DecodeRune(key[i:])
		switch {
		case r == 'ſ':
			dst = append(dst, 's')
		case r == '\u212a': // the Kelvin sign
			dst = append(dst, 'k')
		case 'A' <= r && r <= 'Z':
			dst = append(dst, byte(r)|0x20)
		default:
			dst = append(dst, key[i:i+n]...)
		}
		i += n
	}
	return dst
}

// plainKey reports whether a key has only the bytes of field names, so that it is one of them or none.
func plainKey(key []byte) bool {
	for _, c := range key {
		if (c < 'a' || c > 'z') && c != '_' {
			return false
		}
	}
	return true
}

// hasNUL reports whether a key has a NUL in it; a very long key is still escaped.
func hasNUL(key []byte) bool {
	return bytes.IndexByte(key, 0) >= 0 || len(key) > maxKey && bytes.Contains(key, []byte(`\u0000`))
}
