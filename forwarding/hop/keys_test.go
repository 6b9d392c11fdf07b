package hop_test

import (
	"bytes"
	"encoding/hex"
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
