package ascii_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"colonnade/internal/ascii"
)

// Each byte is classified as the standard library classifies its character.
func TestBytes(t *testing.T) {
	for n := range 256 {
		c, s := byte(n), string([]byte{byte(n)})
		if got, want := ascii.IsTokenByte(c), httpguts.ValidHeaderFieldName(s); got != want {
			t.Errorf("IsTokenByte(%q) = %v", s, got)
		}
		if got, want := ascii.HasControl([]byte(s)), !httpguts.ValidHeaderFieldValue(s); got != want {
			t.Errorf("HasControl(%q) = %v", s, got)
		}
		letter := strings.Contains("abcdefghijklmnopqrstuvwxyz", strings.ToLower(s)) && c < 128
		if got, want := ascii.IsAlphanumeric(c), letter || c >= '0' && c <= '9'; got != want {
			t.Errorf("IsAlphanumeric(%q) = %v", s, got)
		}
		value, err := strconv.ParseUint(s, 16, 8)
		if d, ok := ascii.HexDigit(c); ok != (err == nil) || ok && uint64(d) != value {
			t.Errorf("HexDigit(%q) = %d, %v", s, d, ok)
		}
		if got, want := ascii.IsVisible([]byte(s)), c > ' ' && c < 0x7f; got != want {
			t.Errorf("IsVisible(%q) = %v", s, got)
		}
	}
}

// A control character is found at each place of a long text.
func TestHasControl(t *testing.T) {
	for length := range 40 {
		for at := range length {
			for _, c := range []byte{0, '\n', 0x1f, 0x7f} {
				text := []byte(strings.Repeat("\t~\xff ", 10)[:length])
				if ascii.HasControl(text) {
					t.Errorf("%q has no control character but tabs", text)
				}
				if text[at] = c; !ascii.HasControl(text) {
					t.Errorf("%q has a control character", text)
				}
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	f := func(text string, decimal int, isDecimal bool, hex int64, isHex bool) {
		t.Helper()
		if n, ok := ascii.ParseUint([]byte(text)); n != decimal || ok != isDecimal {
			t.Errorf("ParseUint(%q) = %d, %v", text, n, ok)
		}
		if n, ok := ascii.ParseHex([]byte(text)); n != hex || ok != isHex {
			t.Errorf("ParseHex(%q) = %d, %v", text, n, ok)
		}
	}
	f("", 0, false, 0, false)
	f("0", 0, true, 0, true)
	f("13", 13, true, 0x13, true)
	f("00f", 0, false, 15, true)
	f("aBc", 0, false, 0xabc, true)
	f("+1", 0, false, 0, false)
	f("0x1", 0, false, 0, false)
	f("1 ", 0, false, 0, false)
	f("999999999999999", 999999999999999, true, 0x999999999999999, true)
	f("1000000000000000", 0, false, 0, false)
	f("000000000000000000001", 0, false, 1, true)
}

func TestParseDecimal(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "7": 7, "0.5": 0.5, "600.0": 600, "1.25": 1.25, "00.10": 0.1,
		"999999999999999.5": 999999999999999.5, "0.000000000000001": 1e-15} {
		if got, ok := ascii.ParseDecimal([]byte(text)); !ok || math.Abs(got-want) > 1e-18 {
			t.Errorf("ParseDecimal(%q) = %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", ".", "1.", ".5", "-1", "+1", "1e3", "1E3", "Inf", "inf", "Infinity", "NaN", "nan", "0x1p10", "0x10", "1_000", "1,5",
		" 1", "1 ", "1.2.3", "1.-2", "1.e2", "1000000000000000", "0.0000000000000001", "１", "1\x00"} {
		if got, ok := ascii.ParseDecimal([]byte(text)); ok {
			t.Errorf("ParseDecimal(%q) = %v", text, got)
		}
	}
}

func TestCompare(t *testing.T) {
	f := func(a, b string, want bool) {
		t.Helper()
		if got := ascii.EqualFold(a, []byte(b)); got != want {
			t.Errorf("EqualFold(%q, %q) = %v", a, b, got)
		}
	}
	f("Content-Length", "content-LENGTH", true)
	f("content-length", "content_length", false)
	f("k", "\u212a", false) // the Kelvin sign
	f("@", "`", false)
	f("a", "ab", false)
}

func TestTrimSpace(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := ascii.TrimSpace([]byte(text)); string(got) != want {
			t.Errorf("TrimSpace(%q) = %q", text, got)
		}
	}
	f("", "")
	f(" \t ", "")
	f("\t a\tb ", "a\tb")
	f("\u00a0a\n", "\u00a0a\n")
}
