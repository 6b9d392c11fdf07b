package jwt_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	library "github.com/golang-jwt/jwt/v5"

	"colonnade/accounts"
	"colonnade/accounts/jwt"
	"colonnade/fleet"
)

// A token is good for an account with a document, narrowed to what its claims say, and never more than the account.
func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ec := newEC(t)
		p := newPlace(t, map[string]string{"issuers/login": ours}, map[string][]byte{"login": keySetOf(rsaJWK("r", oneRSA()), ecJWK(t, "e", ec))})
		f := func(c library.MapClaims, want fleet.Account, keyID, says string) {
			t.Helper()
			for range 2 { // the second one is remembered
				account, id, err := p.identify(sign(t, library.SigningMethodES256, ec, c, "kid", "e"))
				if says != "" {
					if err == nil || !strings.Contains(err.Error(), says) {
						t.Errorf("%v: got %v, want %q", c, err, says)
					}
					continue
				}
				if err != nil {
					t.Fatalf("%v: %v", c, err)
				}
				if account.Name != want.Name || account.Priority != want.Priority || account.Admin || (account.Models == nil) != (want.Models == nil) ||
					!slices.Equal(account.Models, want.Models) || id != keyID {
					t.Errorf("%v: got %+v by %q, want %+v by %q", c, *account, id, want, keyID)
				}
			}
		}
		acme := fleet.Account{Name: "acme", Priority: "standard"}
		with := func(a fleet.Account, priority string, models []string) fleet.Account {
			a.Priority, a.Models = priority, models
			return a
		}
		f(claims(), acme, "jwt:login:alice", "")
		f(claims("sub", "auth0|5f7c8ec7c33c6c004bbafe82"), acme, "jwt:login:41aa487887e3", "")
		f(claims("sub", strings.Repeat("a", 24)), acme, "jwt:login:"+strings.Repeat("a", 24), "")
		f(claims("sub", strings.Repeat("a", 25)), acme, "jwt:login:2f521e2a7d0b", "")
		f(claims("sub", nil), acme, "jwt:login:", "")
		f(claims("models", []string{"b", "c"}), with(acme, "standard", []string{"b", "c"}), "jwt:login:alice", "")
		f(claims("models", "b"), with(acme, "standard", []string{"b"}), "jwt:login:alice", "")
		f(claims("models", []string{}), with(acme, "standard", []string{}), "jwt:login:alice", "")
		f(claims("account", "few", "models", []string{"b", "c"}), fleet.Account{Name: "few", Priority: "batch", Models: []string{"b"}}, "jwt:login:alice", "")
		f(claims("account", "few"), fleet.Account{Name: "few", Priority: "batch", Models: []string{"a", "b"}}, "jwt:login:alice", "")
		f(claims("priority", "interactive"), acme, "jwt:login:alice", "")
		f(claims("priority", "batch"), with(acme, "batch", nil), "jwt:login:alice", "")
		f(claims("account", "fast", "priority", "standard"), fleet.Account{Name: "fast", Priority: "standard"}, "jwt:login:alice", "")
		f(claims("account", nil), acme, "", "names no account")
		f(claims("account", 7), acme, "", "names no account")
		f(claims("account", "none"), acme, "", "needs a document")
		f(claims("models", 7), acme, "", "not a list of names")
		f(claims("models", []any{"a", 7}), acme, "", "not a list of names")
		f(claims("priority", "first"), acme, "", "not interactive, standard or batch")
	})
}

// Every known attack is refused, by an error that has no part of the token.
func TestAttacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ec := newEC(t)
		rs, es := library.SigningMethodRS256, library.SigningMethodES256
		p := newPlace(t, map[string]string{
			"issuers/login": ours + "algorithms: [RS256]\n", "issuers/other": "issuer: https://other.example.com\naudience: colonnade\n",
		}, map[string][]byte{
			"login": keySetOf(rsaJWK("r", oneRSA()), ecJWK(t, "e", ec), map[string]any{"kty": "oct", "kid": "h", "k": "c2VjcmV0"}),
			"other": keySetOf(rsaJWK("r", otherRSA())),
		})
		f := func(says, token string) {
			t.Helper()
			_, _, err := p.identify(token)
			if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "alice") {
				t.Errorf("got %v, want %q", err, says)
			}
		}
		good := sign(t, rs, oneRSA(), claims(), "kid", "r")
		if _, _, err := p.identify(good); err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.identify(sign(t, rs, oneRSA(), claims())); err != nil {
			t.Errorf("without kid, of the only key for its algorithm: %v", err)
		}
		der, err := x509.MarshalPKIXPublicKey(&oneRSA().PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})

		f("algorithm", sign(t, library.SigningMethodNone, library.UnsafeAllowNoneSignatureType, claims(), "kid", "r")+"AA")
		f("algorithm", sign(t, library.SigningMethodHS256, public, claims(), "kid", "r"))
		f("algorithm", sign(t, library.SigningMethodHS256, []byte("secret"), claims(), "kid", "h"))
		f("algorithm", sign(t, library.SigningMethodRS512, oneRSA(), claims(), "kid", "r"))
		f("algorithm", sign(t, library.SigningMethodPS256, oneRSA(), claims(), "kid", "r"))
		f("algorithm", sign(t, es, ec, claims(), "kid", "e")) // the document accepts RS256 only
		f("signature", sign(t, rs, otherRSA(), claims(), "kid", "r"))
		f("signature", sign(t, rs, otherRSA(), claims(), "kid", "r", "jwk", rsaJWK("r", otherRSA()), "jku", "https://evil.example.com"))
		f("signature", good[:len(good)-8]+"AAAAAAAA")
		f("not publish", sign(t, rs, otherRSA(), claims(), "kid", "x"))
		f("not publish", sign(t, rs, oneRSA(), claims(), "kid", "e")) // a key for another algorithm
		f("not publish", sign(t, rs, oneRSA(), claims(), "kid", 7))   // no text
		f("not publish", sign(t, rs, oneRSA(), claims(), "kid", ""))  // no id
		f("signature", sign(t, rs, otherRSA(), claims("iss", ourIssuer), "kid", "r"))
		f("signature", sign(t, rs, oneRSA(), claims("iss", "https://other.example.com"), "kid", "r"))
		f("issuer and an audience", sign(t, rs, oneRSA(), claims("iss", "https://evil.example.com"), "kid", "r"))
		f("issuer and an audience", sign(t, rs, oneRSA(), claims("iss", "https://login.example.com"), "kid", "r"))
		f("issuer and an audience", sign(t, rs, oneRSA(), claims("iss", nil), "kid", "r"))
		f("issuer and an audience", sign(t, rs, oneRSA(), claims("aud", "another"), "kid", "r"))
		f("issuer and an audience", sign(t, rs, oneRSA(), claims("aud", []string{"a", "b"}), "kid", "r"))
		f("issuer and an audience", sign(t, rs, oneRSA(), claims("aud", nil), "kid", "r"))
		f("issuer and an audience", sign(t, rs, oneRSA(), claims("aud", 7), "kid", "r"))
		f("a claim", sign(t, rs, oneRSA(), claims("exp", nil), "kid", "r"))
		f("a claim", sign(t, rs, oneRSA(), claims("exp", "tomorrow"), "kid", "r"))
		f("expired", sign(t, rs, oneRSA(), claims("exp", time.Now().Add(-61*time.Second).Unix()), "kid", "r"))
		f("not valid yet", sign(t, rs, oneRSA(), claims("nbf", time.Now().Add(61*time.Second).Unix()), "kid", "r"))
		f("not valid yet", sign(t, rs, oneRSA(), claims("iat", time.Now().Add(61*time.Second).Unix()), "kid", "r"))
		f("crit", sign(t, rs, oneRSA(), claims(), "kid", "r", "crit", []string{"exp"}))
		if _, err := p.Identify(p.table(), sign(t, rs, oneRSA(), claims("sub", "bob"), "kid", "r"), false, time.Now().Add(2*time.Hour)); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("two hours later: %v", err)
		}
		f("longer than 8 KiB", sign(t, rs, oneRSA(), claims("more", strings.Repeat("x", 8<<10)), "kid", "r"))
		f("issuer and an audience", "eyJhbGciOiJSUzI1NiJ9.e30.")
		f("not a JWT", "eyJhbGciOiJSUzI1NiJ9.bm8ganNvbg.AA")
		f("not a JWT", "eyJ.."+strings.Repeat("A", 100))
		f("not a JWT", strings.Replace(good, ".", "=.", 1))

		for _, c := range []library.MapClaims{
			claims("exp", time.Now().Add(-59*time.Second).Unix()), claims("nbf", time.Now().Add(59*time.Second).Unix()),
			claims("aud", []string{"a", "colonnade"}), claims("iat", nil),
		} {
			if _, _, err := p.identify(sign(t, rs, oneRSA(), c, "kid", "r")); err != nil {
				t.Errorf("%v: %v", c, err)
			}
		}
		if caller, err := p.Identify(p.table(), good[:len(good)-8]+"AAAAAAAA", true, time.Now()); err != nil || caller.Account.Name != accounts.Open || caller.KeyID != "" {
			t.Errorf("in an open fleet: %+v, %v", caller, err)
		}
	})
}

// With several keys for its algorithm, a token must name one.
func TestTokenWithoutKeyID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, map[string]string{"issuers/login": ours}, map[string][]byte{"login": keySetOf(rsaJWK("a", oneRSA()), rsaJWK("b", otherRSA()))})
		if _, _, err := p.identify(sign(t, library.SigningMethodRS256, oneRSA(), claims())); err == nil || !strings.Contains(err.Error(), "not publish") {
			t.Errorf("got %v", err)
		}
		if _, _, err := p.identify(sign(t, library.SigningMethodRS256, oneRSA(), claims(), "kid", "a")); err != nil {
			t.Error(err)
		}
	})
}

// A text that is no token of a fleet with issuers goes the way of API keys.
func TestIsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, map[string]string{"issuers/login": ours}, nil)
		for key, want := range map[string]bool{"cn_a_B": false, "": false, "eyJ.a.b": true, "eyJ.a": false, "eyJ.a.b.c": false, "a.b.c": false} {
			if jwt.IsToken(p.table(), key) != want {
				t.Errorf("%q: not %v", key, want)
			}
		}
		p.apply(nil)
		if jwt.IsToken(p.table(), "eyJ.a.b") {
			t.Error("a token in a fleet without issuers")
		}
	})
}

// A remembered token is refused once it has expired, its key, its issuer or its account is gone, or the account may do less.
func TestRememberedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		documents := map[string]string{"issuers/login": ours}
		p := newPlace(t, documents, map[string][]byte{"login": keySetOf(rsaJWK("a", oneRSA()))})
		token := sign(t, library.SigningMethodRS256, oneRSA(), claims("exp", time.Now().Add(3*time.Hour).Unix()), "kid", "a")
		f := func(says string) {
			t.Helper()
			for range 2 {
				if _, _, err := p.identify(token); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
					t.Errorf("got %v, want %q", err, says)
				}
			}
		}
		f("")
		p.apply(map[string]string{"issuers/login": ours, "accounts/acme": "models: [a]\npriority: batch\n"})
		if a, _, err := p.identify(token); err != nil || a.Priority != "batch" || !slices.Equal(a.Models, []string{"a"}) {
			t.Errorf("%+v, %v: not the account of the new document", a, err)
		}
		p.apply(map[string]string{"issuers/login": "issuer: https://login.example.com/\naudience: another\n"})
		f("issuer and an audience")
		p.apply(map[string]string{"issuers/login": ours + "algorithms: [ES256]\n"})
		f("algorithm")
		p.apply(documents)
		f("")
		p.apply(map[string]string{"issuers/login": ours + "algorithms: [ES256]\n"}) // and nothing else changes
		f("algorithm")
		p.apply(documents)
		f("")
		p.issuers.set("login", keySetOf(rsaJWK("b", otherRSA())))
		time.Sleep(time.Hour + 2*time.Second)
		f("not publish")
		p.issuers.set("login", keySetOf(rsaJWK("a", oneRSA())))
		time.Sleep(time.Hour + 2*time.Second)
		f("")
		at := func(exp int) {
			t.Helper()
			left := time.Duration(exp) * time.Second
			token = sign(t, library.SigningMethodRS256, oneRSA(), claims("exp", time.Now().Add(left).Unix()), "kid", "a")
			f("")
			time.Sleep(left + 59*time.Second)
			f("")
			time.Sleep(2 * time.Second)
			f("expired")
		}
		at(60) // the clocks may differ by a minute, also for a token that is remembered
		at(0)
	})
}

// Key sets are fetched every hour, and for an unknown key at most once a minute; while the issuer is away, the last good one stays in force,
// and the state says why.
func TestKeySetsAreFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, map[string]string{"issuers/login": ours}, map[string][]byte{})
		token := func(kid string) string {
			return sign(t, library.SigningMethodRS256, oneRSA(), claims(), "kid", kid)
		}
		f := func(kid, says string) {
			t.Helper()
			if _, _, err := p.identify(token(kid)); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("key %s: got %v, want %q", kid, err, says)
			}
		}
		fetched := func(within time.Duration, least, most int) {
			t.Helper()
			before, unknown := p.issuers.count(), token("unknown")
			for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(time.Second) {
				_, _, _ = p.identify(unknown)
			}
			if n := p.issuers.count() - before; n < least || n > most {
				t.Errorf("fetched %d times in %v, want %d to %d", n, within, least, most)
			}
		}
		f("a", "are not known yet")
		if s := p.States(); len(s) != 1 || s[0].Issuer != "login" || s[0].Keys != 0 || !strings.Contains(s[0].Problem, "away") {
			t.Errorf("%+v", s)
		}
		p.issuers.set("login", keySetOf(rsaJWK("a", oneRSA())))
		time.Sleep(2 * time.Second)
		f("a", "")
		fetched(10*time.Minute, 9, 11)
		p.issuers.set("login", nil)
		fetched(10*time.Minute, 9, 11)
		f("a", "")
		if s := p.States(); s[0].Keys != 1 || !strings.Contains(s[0].Problem, "away") {
			t.Errorf("%+v", s)
		}
		p.issuers.set("login", []byte("<html>"))
		time.Sleep(2 * time.Minute)
		f("a", "")
		if s := p.States(); !strings.Contains(s[0].Problem, "is no key set") {
			t.Errorf("%+v", s)
		}
		p.issuers.set("login", keySetOf(rsaJWK("a", oneRSA()), rsaJWK("b", oneRSA())))
		time.Sleep(2 * time.Minute)
		f("b", "")
		if s := p.States(); s[0].Problem != "" || s[0].Keys != 2 {
			t.Errorf("%+v", s)
		}
		before := p.issuers.count()
		time.Sleep(5 * time.Hour)
		if n := p.issuers.count() - before; n < 4 || n > 6 {
			t.Errorf("fetched %d times in five hours", n)
		}
		p.apply(nil)
		time.Sleep(2 * time.Second)
		if s := p.States(); len(s) != 0 {
			t.Errorf("an issuer without a document: %+v", s)
		}
	})
}

// An issuer that is away from the start is asked each second at first, and each minute later.
func TestIssuerThatWasNeverReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, map[string]string{"issuers/login": ours}, map[string][]byte{})
		for _, c := range []struct {
			passes      time.Duration
			least, most int
		}{{8 * time.Second, 7, 10}, {time.Hour, 58, 64}} {
			before := p.issuers.count()
			time.Sleep(c.passes)
			if n := p.issuers.count() - before; n < c.least || n > c.most {
				t.Errorf("fetched %d times in %v, want %d to %d", n, c.passes, c.least, c.most)
			}
		}
	})
}

// Any text is answered, and never by a panic.
func FuzzIdentify(f *testing.F) {
	f.Add("eyJhbGciOiJSUzI1NiJ9.e30.AA")
	f.Add("eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://login.example.com/","aud":"colonnade","exp":1e300}`)) + ".AA")
	f.Fuzz(func(t *testing.T, token string) {
		p := &place{t: t}
		p.apply(map[string]string{"issuers/login": ours})
		v := jwt.New(jwt.Config{Issuers: p.table().Issuers})
		if _, err := v.Identify(p.table(), token, false, time.Now()); err == nil {
			t.Errorf("%q is accepted", token)
		}
	})
}

// A verifier that starts while the issuer is away uses the key set that an earlier one has kept, of the same place and less than a day old.
func TestKeysAreKeptAcrossRestarts(t *testing.T) {
	file, ec := filepath.Join(t.TempDir(), "issuers.json"), newEC(t)
	documents := map[string]string{"issuers/login": ours}
	f := func(later time.Duration, documents map[string]string, sets map[string][]byte, says string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) { // each begins at the same time
			time.Sleep(later)
			p := newPlaceWithFile(t, documents, sets, file)
			_, _, err := p.identify(sign(t, library.SigningMethodES256, ec, claims(), "kid", "e"))
			if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
				t.Errorf("%v later: %v, want %q", later, err, says)
			}
			if s := p.States(); says == "" && (len(s) != 1 || s[0].Keys != 1 || time.Since(s[0].Fetched) != later) {
				t.Errorf("%v later: %+v", later, s)
			}
		})
	}
	const unknown = "the keys of the token's issuer are not known yet"
	f(0, documents, nil, unknown)
	f(0, documents, map[string][]byte{"login": keySetOf(ecJWK(t, "e", ec))}, "")
	f(23*time.Hour, documents, nil, "")
	f(23*time.Hour, map[string]string{"issuers/login": ours + "jwks: https://elsewhere.example.com/keys\n"}, nil, unknown)
	f(25*time.Hour, documents, nil, unknown)
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	f(0, documents, nil, unknown)
}
