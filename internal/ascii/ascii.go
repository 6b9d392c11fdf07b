// Package ascii classifies, compares and parses ASCII bytes, for parsers of ASCII protocols. Unlike package strings it does not
// know Unicode, whose letter cases and spaces a protocol does not mean.
package ascii

import (
	"bytes"
	"encoding/binary"
)

// IsTokenByte reports whether c may stand in a token (RFC 9110, section 5.6.2).
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

// IsAlphanumeric reports whether c is a letter or a digit.
func IsAlphanumeric(c byte) bool {
	return c-'0' <= 9 || c|0x20-'a' <= 25
}

// IsToken reports whether s is a token (RFC 9110, section 5.6.2).
func IsToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if !IsTokenByte(s[i]) {
			return false
		}
	}
	return len(s) > 0
}

// TrimSpace returns b without the spaces and tabs around it, as RFC 9110, section 5.5, has it for the value of a header.
func TrimSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// IsVisible reports whether b consists of visible characters, of which it needs one.
func IsVisible(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return len(b) > 0
}

// HasControl reports whether b contains a control character other than a tab.
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

// EqualFold reports whether a and b are equal but for letter case.
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

// ToLower returns the lower case of a letter, and any other byte as it is.
func ToLower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// maxDigits bounds numbers, so that they fit into an int64, decimal or hexadecimal.
const maxDigits = 15

// ParseUint parses a decimal number of at most 15 digits, without a sign.
func ParseUint(raw []byte) (int, bool) {
	if len(raw) == 0 || len(raw) > maxDigits {
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

// ParseDecimal parses a decimal number of at most 15 digits before its point and 15 after it, without a sign, an exponent or anything
// else that [strconv.ParseFloat] accepts. A point needs digits on both sides.
func ParseDecimal(raw []byte) (float64, bool) {
	whole, fraction, hasPoint := bytes.Cut(raw, []byte("."))
	n, ok := ParseUint(whole)
	if !ok || !hasPoint {
		return float64(n), ok
	}
	part, ok := ParseUint(fraction)
	value := float64(part)
	for range fraction {
		value /= 10
	}
	return float64(n) + value, ok
}

// ParseHex parses a hexadecimal number of at most 15 digits after leading zeros, without a sign or a prefix.
func ParseHex(raw []byte) (n int64, ok bool) {
	if len(raw) == 0 {
		return 0, false
	}
	for _, c := range raw {
		d, ok := HexDigit(c)
		if !ok || n >= 1<<(4*(maxDigits-1)) {
			return 0, false
		}
		n = n<<4 | int64(d)
	}
	return n, true
}

// HexDigit returns the value of a hexadecimal digit.
func HexDigit(c byte) (value byte, ok bool) {
	switch {
	case c-'0' <= 9:
		return c - '0', true
	case (c|0x20)-'a' <= 5:
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)
