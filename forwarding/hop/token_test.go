package hop_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/hop"
)

var testTime = time.Unix(1_790_000_000, 0)

func testTarget() hop.Binding {
	return hop.Binding{
		Audience: "ams-1", Method: "POST", Target: "/v1/chat/completions?a=b", Body: []byte(`{"model":"m"}`),
		AppendHeader: headerLines("content-type", "application/json", "accept", "*/*", "x-tenant", "a"),
	}
}

// headerLines returns the header lines with these names and values, as a binding has them.
func headerLines(pairs ...string) func([]byte, string) []byte {
	return func(dst []byte, name string) []byte {
		for i := 0; i < len(pairs); i += 2 {
			if strings.EqualFold(name, pairs[i]) {
				dst = append(dst, pairs[i+1]...)
			}
		}
		return dst
	}
}

// withHeaders returns the token of a model that has x-tenant among its forward_headers.
func withHeaders() hop.Token {
	h := testHop()
	h.Headers = &hop.MoreHeaders{Names: []string{"X-Tenant"}}
	return h
}

func testHop() hop.Token {
	return hop.Token{
		RequestID: "0123456789abcdef", Source: "entry-1", Account: "acme", Weight: 3, Priority: "standard", Model: "llama",
		Visited: []string{"fra-1"}, HopsLeft: 2, RetriesLeft: 3, Wait: hop.WaitSpill, WaitBelow: hop.Millis(40 * time.Millisecond),
		Total: hop.Millis(time.Minute),
	}
}

func mustSign(t testing.TB, k *hop.Keys, h hop.Token, to hop.Binding) string {
	t.Helper()
	token, err := k.Sign(&h, hop.NewSequence("boot"), &to, testTime)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// verify verifies a token and its body.
func verify(k *hop.Keys, token string, t hop.Binding, now time.Time) (hop.Token, error) {
	var v hop.Verified
	err := k.VerifyHead(&v, []byte(token), &t, now)
	if err == nil {
		err = v.VerifyBody(t.Body)
	}
	if err != nil {
		return hop.Token{}, err
	}
	return v.Token, nil
}

func TestTokenRoundTrip(t *testing.T) {
	keys := hop.RandomKeys()
	want := testHop()
	want.Key = "k1"
	got, err := verify(keys, mustSign(t, keys, want, testTarget()), testTarget(), testTime)
	want.Issued, want.Boot, want.Issuer, want.Number = testTime.Unix(), "boot", got.Issuer, 1
	if err != nil || !reflect.DeepEqual(got, want) || got.Issuer == "" {
		t.Fatalf("Verify = %+v, %v\nwant %+v", got, err, want)
	}
}

func TestTokenIsBoundToItsTarget(t *testing.T) {
	keys := hop.RandomKeys()
	token := mustSign(t, keys, withHeaders(), testTarget())
	if got, err := verify(keys, token, testTarget(), testTime); err != nil || !slices.Equal(got.Headers.Names, []string{"X-Tenant"}) {
		t.Fatalf("as it was signed: %+v, %v", got.Headers, err)
	}
	for name, change := range map[string]func(*hop.Binding){
		"server": func(to *hop.Binding) { to.Audience = "fra-1" },
		"method": func(to *hop.Binding) { to.Method = "PUT" },
		"path":   func(to *hop.Binding) { to.Target = "/v1/completions?a=b" },
		"query":  func(to *hop.Binding) { to.Target = "/v1/chat/completions?a=c" },
		"end":    func(to *hop.Binding) { to.Target = "/v1/chat/completions" },
		"content type": func(to *hop.Binding) {
			to.AppendHeader = headerLines("content-type", "text/plain", "accept", "*/*", "x-tenant", "a")
		},
		"accept": func(to *hop.Binding) {
			to.AppendHeader = headerLines("content-type", "application/json", "x-tenant", "a")
		},
		"user agent": func(to *hop.Binding) {
			to.AppendHeader = headerLines("content-type", "application/json", "accept", "*/*", "x-tenant", "a", "user-agent", "b")
		},
		"forwarded header": func(to *hop.Binding) {
			to.AppendHeader = headerLines("content-type", "application/json", "accept", "*/*", "x-tenant", "b")
		},
		"place of a header": func(to *hop.Binding) {
			to.AppendHeader = headerLines("accept", "application/json*/*", "x-tenant", "a")
		},
		"body":  func(to *hop.Binding) { to.Body = []byte(`{"model":"n"}`) },
		"shift": func(to *hop.Binding) { to.Method, to.Target = "POST/", "v1/chat/completions?a=b" },
	} {
		to := testTarget()
		change(&to)
		if _, err := verify(keys, token, to, testTime); !errors.Is(err, hop.ErrBadToken) {
			t.Errorf("another %s: Verify = %v, want ErrBadToken", name, err)
		}
	}
	if _, err := verify(hop.RandomKeys(), token, testTarget(), testTime); !errors.Is(err, hop.ErrBadToken) {
		t.Errorf("another key: Verify = %v, want ErrBadToken", err)
	}
}

// A header line that is neither signed nor traceparent must not be forwarded. A proxy between the nodes may rewrite traceparent.
func TestForwardedHeaders(t *testing.T) {
	keys := hop.RandomKeys()
	var v hop.Verified
	if err := keys.VerifyHead(&v, []byte(mustSign(t, keys, withHeaders(), testTarget())), new(testTarget()), testTime); err != nil {
		t.Fatal(err)
	}
	to := testTarget()
	to.AppendHeader = headerLines("content-type", "application/json", "accept", "*/*", "x-tenant", "a", "traceparent", "00-1-2-01")
	if _, err := verify(keys, mustSign(t, keys, withHeaders(), testTarget()), to, testTime); err != nil {
		t.Errorf("with another traceparent: %v", err)
	}
	for name, want := range map[string]bool{"content-type": true, "ACCEPT": true, "User-Agent": true, "traceparent": true, "x-tenant": true,
		"x-other": false, "authorization": false} {
		if got := v.Token.Forwards(name); got != want {
			t.Errorf("Forwards(%q) = %v", name, got)
		}
	}
}

// Entries that have not been updated yet sign tokens of the version before, which verify as they did then.
func TestOldToken(t *testing.T) {
	const signed = "v1.eyJpYXQiOjE3OTAwMDAwMDAsInJpZCI6IjAxMjM0NTY3ODlhYmNkZWYiLCJzcmMiOiJlbnRyeS0xIiwiYWNjIjoiYWNtZSIsInciOjMsInByaSI6InN0YW5kYXJkIiwibW9kIjoibGxhbWEiLCJ2aWEiOlsiZnJhLTEiXSwiaG9wcyI6MiwiYXR0IjowLCJyZXQiOjMsIndhaXQiOiJzcGlsbCIsImJlbG93Ijo0MCwidG90YWwiOjYwMDAwfQ.VI9Y0cNscVtE8IY0cgdKl8RI1bjRgWS5Kt9VWSsSf4bzv1cNwFqQ3xkNMiazxtHIpLmJxd46o4ja6UaX8Bj91Q"
	keys, _ := hop.NewKeys(bytes.Repeat([]byte{7}, hop.KeySize))
	var v hop.Verified
	err := keys.VerifyHead(&v, []byte(signed), new(testTarget()), testTime)
	if err != nil || !v.Old || !reflect.DeepEqual(v.Token, func() hop.Token { h := testHop(); h.Issued = testTime.Unix(); return h }()) {
		t.Errorf("VerifyHead = %+v, %v", v, err)
	}
	other := testTarget()
	other.Target = "/v1/completions"
	for name, err := range map[string]error{
		"another path": second(verify(keys, signed, other, testTime)),
		"as new":       second(verify(keys, "v2"+signed[2:], testTarget(), testTime)),
		"new as old":   second(verify(keys, "v1"+mustSign(t, keys, testHop(), testTarget())[2:], testTarget(), testTime)),
	} {
		if !errors.Is(err, hop.ErrBadToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second(_ hop.Token, err error) error { return err }

func TestTokenClocks(t *testing.T) {
	keys := hop.RandomKeys()
	token := mustSign(t, keys, testHop(), testTarget())
	f := func(apart time.Duration, want bool) {
		t.Helper()
		_, err := verify(keys, token, testTarget(), testTime.Add(apart))
		if (err == nil) != want {
			t.Errorf("clocks %s apart: Verify = %v", apart, err)
		}
	}
	f(5*time.Minute, true)
	f(-5*time.Minute, true)
	f(11*time.Minute, false)
	f(-11*time.Minute, false)
}

func TestKeyRotation(t *testing.T) {
	older, newer := bytes.Repeat([]byte{1}, hop.KeySize), bytes.Repeat([]byte{2}, hop.KeySize)
	before, _ := hop.NewKeys(older)
	during, _ := hop.NewKeys(newer, older)
	after, _ := hop.NewKeys(newer)
	f := func(signer, verifier *hop.Keys, want bool) {
		t.Helper()
		_, err := verify(verifier, mustSign(t, signer, testHop(), testTarget()), testTarget(), testTime)
		if (err == nil) != want {
			t.Errorf("Verify = %v, want success %v", err, want)
		}
	}
	f(before, during, true)
	f(during, during, true)
	f(during, after, true)
	f(before, after, false)
}

// A change of any character makes a token invalid.
func TestAlteredTokens(t *testing.T) {
	keys := hop.RandomKeys()
	token := mustSign(t, keys, testHop(), testTarget())
	random := rand.New(rand.NewPCG(1, 2))
	for i := range len(token) {
		b := []byte(token)
		for b[i] == token[i] {
			b[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.="[random.IntN(66)]
		}
		if h, err := verify(keys, string(b), testTarget(), testTime); err == nil {
			t.Fatalf("byte %d altered, and yet verified: %+v", i, h)
		}
	}
	for _, bad := range []string{"", "v1.", "v1." + token[3:], "v3." + token[3:], token + "A", token + "=", token[:len(token)-1], strings.Repeat(token, 20)} {
		if _, err := verify(keys, bad, testTarget(), testTime); !errors.Is(err, hop.ErrBadToken) {
			t.Errorf("verify(%.30q…) = %v, want ErrBadToken", bad, err)
		}
	}
}

// A token without a valid signature is refused, however it looks.
func FuzzVerify(f *testing.F) {
	keys := hop.RandomKeys() // of each process that fuzzes, as the token that is good is
	good := mustSign(f, keys, withHeaders(), testTarget())
	f.Add(good)
	f.Add("v1.e30.e30")
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := verify(keys, token, testTarget(), testTime); err == nil && token != good {
			t.Fatalf("believed %q", token)
		}
	})
}

func BenchmarkSignVerify(b *testing.B) {
	for name, protocol := range map[string]int{"json": 0, "binary": hop.BinaryTokenProtocol} {
		b.Run(name, func(b *testing.B) {
			keys, to, sequence := hop.RandomKeys(), testTarget(), hop.NewSequence("boot")
			to.Body, to.Protocol = bytes.Repeat([]byte("x"), 1024), protocol
			b.ReportAllocs()
			for b.Loop() {
				token, _ := keys.Sign(new(testHop()), sequence, &to, testTime)
				if _, err := verify(keys, token, to, testTime); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
