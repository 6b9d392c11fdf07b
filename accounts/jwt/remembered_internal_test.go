package jwt

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"time"
)

// The number of remembered tokens is bounded, and those that are used stay.
func TestRememberedAreBounded(t *testing.T) {
	t.Parallel()
	r := newRemembered()
	hash := func(n int) (h [sha256.Size]byte) {
		binary.BigEndian.PutUint64(h[:], uint64(n))
		return h
	}
	for n := range 2 * maxRemembered {
		r.add(hash(n), verified{expires: time.Unix(int64(n), 0)})
		if _, ok := r.find(hash(0)); !ok {
			t.Fatalf("a token that is used was forgotten after %d others", n)
		}
	}
	if _, ok := r.find(hash(1)); ok || len(r.byHash) != maxRemembered || r.used.Len() != maxRemembered {
		t.Errorf("%d and %d tokens are remembered, want %d", len(r.byHash), r.used.Len(), maxRemembered)
	}
	if v, ok := r.find(hash(2*maxRemembered - 1)); !ok || v.expires.Unix() != 2*maxRemembered-1 {
		t.Errorf("the newest is %v, %v", v.expires, ok)
	}
}
