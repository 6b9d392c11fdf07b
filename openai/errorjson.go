package openai

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// AppendJSON appends the body of the error in the form that clients get:
//
//	{"error":{"message","type","param","code","number","reason","retry_after_ms","request_id"}}
//
// Every field is always present; one that does not apply is null.
func (e *Error) AppendJSON(dst []byte, requestID string) []byte {
	dst = append(dst, `{"error":`...)
	dst = e.appendObject(dst, requestID)
	return append(dst, '}')
}

func (e *Error) appendObject(dst []byte, requestID string) []byte {
	dst = append(dst, `{"message":`...)
	dst = appendString(dst, e.Message)
	dst = append(dst, `,"type":`...)
	dst = appendString(dst, e.Type)
	return append(e.appendFields(dst, requestID), '}')
}

// appendFields appends the fields that errors have in every dialect, behind others.
func (e *Error) appendFields(dst []byte, requestID string) []byte {
	dst = append(dst, `,"param":`...)
	dst = appendStringOrNull(dst, e.Param)
	dst = append(dst, `,"code":`...)
	dst = appendString(dst, e.Code)
	dst = append(dst, `,"number":`...)
	dst = strconv.AppendInt(dst, int64(e.Number), 10)
	dst = append(dst, `,"reason":`...)
	dst = appendStringOrNull(dst, e.Reason)
	dst = append(dst, `,"retry_after_ms":`...)
	if ms := e.RetryAfterMS(); ms > 0 {
		dst = strconv.AppendInt(dst, ms, 10)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"request_id":`...)
	return appendStringOrNull(dst, requestID)
}

// RetryAfterMS is RetryAfter in whole milliseconds, rounded up.
func (e *Error) RetryAfterMS() int64 {
	return int64((e.RetryAfter + time.Millisecond - 1) / time.Millisecond)
}

func appendStringOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, s)
}

// appendString appends s as a JSON string; bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			dst = appendASCII(dst, c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		dst = utf8.AppendRune(dst, r)
		i += n
	}
	return append(dst, '"')
}

func appendASCII(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch {
	case c == '"' || c == '\\':
		return append(dst, '\\', c)
	case c == '\n':
		return append(dst, '\\', 'n')
	case c < 0x20 || c == 0x7f:
		return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
	return append(dst, c)
}

// Cut shortens text of a client, at a rune boundary, before an error repeats it.
func Cut(s string) string { return truncate(s, maxQuoted) }

// truncate returns at most the first n bytes of text, without a part of a rune.
func truncate[T string | []byte](text T, n int) T {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

func pathOnly(target string) string {
	path, _, _ := strings.Cut(target, "?")
	return path
}
