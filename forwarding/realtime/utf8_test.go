package realtime

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// Invalid UTF-8 is found at the first byte that makes it so, in any pieces.
func TestUTF8Checker(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	bits := []string{
		"a", "\u00e9", "\u20ac", "\U0001f600", "\x80", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xed\xa0\x80", "\xf4\x90", "\xff", "\xc0\xaf",
	}
	for range 20_000 {
		var text strings.Builder
		for range random.IntN(8) {
			text.WriteString(bits[min(random.IntN(2*len(bits)), len(bits)-1)/(1+random.IntN(3))])
		}
		s := text.String()
		var check utf8Checker
		good := true
		for rest := s; good && len(rest) > 0; {
			n := 1 + random.IntN(len(rest))
			good = check.valid([]byte(rest[:n]))
			if read := s[:len(s)-len(rest)+n]; good == hopeless(read) {
				t.Fatalf("after %q of %q: good is %v", read, s, good)
			}
			rest = rest[n:]
		}
		if got, want := good && check.whole(), utf8.ValidString(s); got != want {
			t.Fatalf("%q: %v, want %v", s, got, want)
		}
	}
}

// hopeless reports, in another way than utf8Checker, whether no continuation of s is valid.
func hopeless(s string) bool {
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			return utf8.FullRuneInString(s)
		}
		s = s[n:]
	}
	return false
}
