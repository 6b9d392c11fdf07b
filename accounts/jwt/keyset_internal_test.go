package jwt

import (
	"strings"
	"testing"
)

// An odd key is left out, and never makes the others unusable; without a usable one, there is no key set.
func TestParseKeySet(t *testing.T) {
	t.Parallel()
	const (
		// Appendix A.3 of RFC 7515, and A.1 of RFC 7517.
		ec  = `{"kty":"EC","kid":"e","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}`
		mod = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
		rsa = `{"kty":"RSA","kid":"r","n":"` + mod + `","e":"AQAB"}`
	)
	f := func(want int, says string, keys ...string) {
		t.Helper()
		s, err := parseKeySet([]byte(`{"keys":[` + strings.Join(keys, ",") + `]}`))
		switch {
		case says != "":
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%.80q: got %v, want %q", keys, err, says)
			}
		case err != nil || len(s.keys) != want:
			t.Errorf("%.80q: got %+v, %v, want %d keys", keys, s, err, want)
		}
	}
	with := func(key, old, changed string) string { return strings.Replace(key, old, changed, 1) }
	f(2, "", ec, rsa)
	f(1, "", ec, `{"kty":"oct","k":"AA"}`, `7`, `{"kty":"OKP","crv":"Ed25519","x":"AA"}`)
	f(0, "no key for signatures")
	f(0, `is for "enc"`, with(ec, `"kid"`, `"use":"enc","kid"`))
	f(0, "algorithm", with(rsa, `"kid"`, `"alg":"RS512","kid"`))
	f(0, "P-256", with(ec, "P-256", "P-384"))
	f(0, "not a point", with(ec, `"x":"f83O`, `"x":"f83P`))
	f(0, "32 bytes", with(ec, `"x":"f83O`, `"x":"f8`))
	f(0, "must have 2048", with(rsa, mod, "0vx7agoebGcQSuuPiLJXZptN9nndrQmb"))
	f(0, "must have 2048", with(rsa, mod, strings.Repeat(mod, 5)))
	f(0, "no RSA key", with(rsa, "AQAB", "AQ"))
	f(0, "no RSA key", with(rsa, "AQAB", "Ag"))
	f(0, "no RSA key", with(rsa, "DKgw", "DKgg")) // of an even modulus
	f(0, "32 bytes", with(ec, `"x":"f83OJ3D2`, `"x":"f83O`))
	f(0, "32 bits", with(rsa, "AQAB", "AQABAQAB"))
	f(0, "not base64url", with(rsa, mod, "+"))
	f(0, "at most 64", strings.Split(strings.TrimSuffix(strings.Repeat(rsa+"\n", 65), "\n"), "\n")...)
	for _, text := range []string{"", "[]", "<html>", `{"keys":7}`} {
		if _, err := parseKeySet([]byte(text)); err == nil {
			t.Errorf("%q is a key set", text)
		}
	}
}
