package realtime

import (
	"errors"
	"unicode/utf8"
)

var errNotUTF8 = errors.New("text message is not UTF-8")

// utf8Checker finds in the pieces of a text message what is not UTF-8, as soon as it can be nothing else. The zero value
// is for a message's beginning.
type utf8Checker struct {
	begun [utf8.UTFMax]byte // a character whose end is to come
	n     int               // bytes of it
}

// valid takes the next piece.
func (t *utf8Checker) valid(p []byte) bool {
	for t.n > 0 && len(p) > 0 {
		t.begun[t.n] = p[0]
		t.n, p = t.n+1, p[1:]
		if !utf8.FullRune(t.begun[:t.n]) {
			continue
		}
		if !utf8.Valid(t.begun[:t.n]) {
			return false
		}
		t.n = 0
	}
	whole := len(p) - len(incompleteRune(p))
	t.n += copy(t.begun[t.n:], p[whole:])
	return utf8.Valid(p[:whole])
}

// whole reports whether the last piece ended with a character.
func (t *utf8Checker) whole() bool { return t.n == 0 }

// incompleteRune is the character at the end of p that may be a good one once the rest of it has come, or nothing.
func incompleteRune(p []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if last := p[len(p)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return last
			}
			return nil
		}
	}
	return nil
}
