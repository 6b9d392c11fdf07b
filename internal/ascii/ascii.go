// Package ascii has what parsers of ASCII protocols share: tokens, white space, control characters, letters of either case.
package ascii

import (
	"encoding/binary"
)

// IsTokenByte says whether RFC 9110, section 5.6.2, has c in a token.
func IsTokenByte(c byte) bool {
	const (
		first = uint64(1)<<'!' | 1<<'#' | 1<<'$' | 1<<'%' | 1<<'&' | 1<<'\'' | 1<<'*' | 1<<'+' | 1<<'-' | 1<<'.' |
			(1<<10-1)<<'0'
		second = uint64(1)<<('^'-64) | 1<<('_'-64) | 1<<('`'-64) | 1<<('|'-64) | 1<<('~'-64) |
			(1<<26-1)<<('A'-64) | (1<<26-1)<<('a'-64)
	)
	if c < 64 {
		return first>>c&1 != 0
	}
	return c < 128 && second>>(c-64)&1 != 0
}

func IsAlphanumeric(c byte) bool {
	return c-'0' <= 9 || c|0x20-'a' <= 25
}

func IsToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if !IsTokenByte(s[i]) {
			return false
		}
	}
	return len(s) > 0
}

// TrimSpace takes the white space off that may stand around a header's value.
func TrimSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// IsVisible says whether all bytes are visible ASCII, and there are any.
func IsVisible(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return len(b) > 0
}

// HasControl says whether b has control characters other than tabs.
func HasControl(b []byte) bool {
	for len(b) >= 8 {
		w := binary.LittleEndian.Uint64(b)
		del := w ^ lowBits*0x7f
		if ((w-lowBits*' ')&^w|(del-lowBits)&^del)&highBits != 0 && slowHasControl(b[:8]) {
			return true
		}
		b = b[8:]
	}
	return slowHasControl(b)
}

func slowHasControl(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return true
		}
	}
	return false
}

// EqualFold compares ASCII without letter case.
func EqualFold[T, U string | []byte](a T, b U) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if ToLower(a[i]) != ToLower(b[i]) {
			return false
		}
	}
	return true
}

func ToLower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// ParseUint reads a number that counts something; fractions, negative and absurd
// ones do not.
func ParseUint(raw []byte) (int, bool) {
	if len(raw) == 0 || len(raw) > 15 {
		return 0, false
	}
	n := 0
	for _, c := range raw {
		if c-'0' > 9 {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)
