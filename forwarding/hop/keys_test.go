package hop_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"colonnade/forwarding/hop"
)

// Derived keys stand in the order of the fleet's, differ by purpose and from the fleet's, and are the same on every node and in every
// version: the value was computed by RFC 5869 with Python's hmac.
func TestDerivedKeys(t *testing.T) {
	t.Parallel()
	one, two := bytes.Repeat([]byte{1}, hop.KeySize), bytes.Repeat([]byte{2}, hop.KeySize)
	derive := func(purpose string, keys ...[]byte) [][]byte {
		t.Helper()
		k, err := hop.NewKeys(keys...)
		if err != nil {
			t.Fatal(err)
		}
		return k.Derive(purpose)
	}
	got := derive("gossip ams", one, two)
	if len(got) != 2 || !bytes.Equal(got[0], derive("gossip ams", one)[0]) || !bytes.Equal(got[1], derive("gossip ams", two)[0]) {
		t.Errorf("%x: not in the order of the keys", got)
	}
	if bytes.Equal(got[0], one) || bytes.Equal(got[0], derive("gossip fra", one)[0]) {
		t.Error("a derived key serves two purposes")
	}
	if hex.EncodeToString(got[0]) != derivedKey {
		t.Errorf("derived %x, want %s", got[0], derivedKey)
	}
}

const derivedKey = "648aa09a1c70fd2d46ad1eba6f4fef4aae0d6bba3d1a44e3b507d100afc985af"

// Keys that replace others are in force at once, with the order of the new ones. Ids name keys, and reveal none: the value was computed with
// Python's hmac.
func TestReplacedKeys(t *testing.T) {
	t.Parallel()
	one, two := bytes.Repeat([]byte{1}, hop.KeySize), bytes.Repeat([]byte{2}, hop.KeySize)
	keys := func(all ...[]byte) *hop.Keys {
		k, err := hop.NewKeys(all...)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	ids := keys(one, two, one).IDs()
	if len(ids) != 2 || ids[0] != "22448cbb" || ids[1] == ids[0] || ids[0] != keys(one).IDs()[0] {
		t.Errorf("ids %q", ids)
	}
	k := keys(one)
	before := mustSign(t, k, testHop(), testTarget())
	k.Replace(keys(two, one))
	if _, err := verify(k, before, testTarget(), testTime); err != nil {
		t.Errorf("a token of a key that is accepted still: %v", err)
	}
	after := mustSign(t, k, testHop(), testTarget())
	if _, err := verify(keys(two), after, testTarget(), testTime); err != nil {
		t.Errorf("the first of the new keys does not sign: %v", err)
	}
	k.Replace(keys(two))
	if _, err := verify(k, before, testTarget(), testTime); err == nil {
		t.Error("a key that was removed is accepted")
	}
}

// A key file made of keys holds those of the ids, in their order.
func TestKeyFileOfKeys(t *testing.T) {
	t.Parallel()
	both := hop.RandomKeys().With(hop.RandomKeys())
	ids := both.IDs()
	for _, want := range [][]string{ids, {ids[1], ids[0]}, {ids[1]}} {
		content, err := both.FileContent(want)
		if err != nil {
			t.Fatal(err)
		}
		k, err := hop.ParseKeys("file", content)
		if err != nil || !slices.Equal(k.IDs(), want) {
			t.Errorf("want %q, got %q, %v", want, k.IDs(), err)
		}
	}
	if _, err := both.FileContent([]string{"00000000"}); err == nil {
		t.Error("a key that is not there was written")
	}
}

// A key file that is too long, or has a line without an end, has no keys.
func TestBadKeyFiles(t *testing.T) {
	t.Parallel()
	good := "dGhpcyBpcyBhIGtleSBvZiB0aGlydHktdHdvIGJ5dGU=\n"
	path := filepath.Join(t.TempDir(), "fleet.key")
	for text, want := range map[string]string{
		good: "", "# comment\n\n" + good: "",
		"":                                       "no fleet key",
		good + "short":                           "line 2: not base64",
		good + "#" + strings.Repeat("x", 70_000): "more than 64 KiB",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := hop.ReadKeys(path)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), good[:8])) {
			t.Errorf("%.60q: got %v, want %q", text, err, want)
		}
	}
}
