package hop_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/hop"
)

var testTime = time.Unix(1_790_000_000, 0)

func testTarget() hop.Binding {
	return hop.Binding{Audience: "ams-1", Method: "POST", Path: "/v1/chat/completions", Body: []byte(`{"model":"m"}`)}
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
	token, err := k.Sign(h, to, testTime)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// verify verifies a token and its body.
func verify(k *hop.Keys, token string, t hop.Binding, now time.Time) (hop.Token, error) {
	a, err := k.VerifyHead(token, t, now)
	if err == nil {
		err = a.VerifyBody(t.Body)
	}
	if err != nil {
		return hop.Token{}, err
	}
	return a.Token, nil
}

func TestTokenRoundTrip(t *testing.T) {
	keys := hop.RandomKeys()
	want := testHop()
	got, err := verify(keys, mustSign(t, keys, want, testTarget()), testTarget(), testTime)
	want.Issued = testTime.Unix()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("Verify = %+v, %v\nwant %+v", got, err, want)
	}
}

func TestTokenIsBoundToItsTarget(t *testing.T) {
	keys := hop.RandomKeys()
	token := mustSign(t, keys, testHop(), testTarget())
	for name, change := range map[string]func(*hop.Binding){
		"server": func(to *hop.Binding) { to.Audience = "fra-1" },
		"method": func(to *hop.Binding) { to.Method = "PUT" },
		"path":   func(to *hop.Binding) { to.Path = "/v1/completions" },
		"body":   func(to *hop.Binding) { to.Body = []byte(`{"model":"n"}`) },
		"shift":  func(to *hop.Binding) { to.Method, to.Path = "POST/", "v1/chat/completions" },
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
	for _, bad := range []string{"", "v1.", "v2." + token[3:], token + "A", token + "=", token[:len(token)-1], strings.Repeat(token, 20)} {
		if _, err := verify(keys, bad, testTarget(), testTime); !errors.Is(err, hop.ErrBadToken) {
			t.Errorf("verify(%.30q…) = %v, want ErrBadToken", bad, err)
		}
	}
}

// A token without a valid signature is refused, however it looks.
func FuzzVerify(f *testing.F) {
	keys, _ := hop.NewKeys(bytes.Repeat([]byte{7}, hop.KeySize))
	good := mustSign(f, keys, testHop(), testTarget())
	f.Add(good)
	f.Add("v1.e30.e30")
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := verify(keys, token, testTarget(), testTime); err == nil && token != good {
			t.Fatalf("believed %q", token)
		}
	})
}

func BenchmarkSignVerify(b *testing.B) {
	keys, to := hop.RandomKeys(), testTarget()
	to.Body = bytes.Repeat([]byte("x"), 1024)
	b.ReportAllocs()
	for b.Loop() {
		token, _ := keys.Sign(testHop(), to, testTime)
		if _, err := verify(keys, token, to, testTime); err != nil {
			b.Fatal(err)
		}
	}
}
