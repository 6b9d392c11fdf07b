package realtime

import (
	"errors"
	"unicode/utf8"
)

var errNotUTF8 = errors.New("text message is not UTF-8")

// utf8Checker checks the pieces of a text message, and finds invalid UTF-8 at the first byte that makes it so. The zero value is for
// the begin of a message.
type utf8Checker struct {
	begun [utf8.UTFMax]byte // the bytes of an unfinished rune
	n     int               // how many there are
}

// valid takes the next piece, and reports whether the message may still be valid.
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

// whole reports whether the last piece has ended with a whole rune.
func (t *utf8Checker) whole() bool { return t.n == 0 }

// incompleteRune returns the end of p that begins an unfinished rune, or nothing.
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
