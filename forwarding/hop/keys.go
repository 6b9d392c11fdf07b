package hop

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"sync"
	"sync/atomic"
)

// KeySize is the length of one fleet key in bytes.
const KeySize = 32

// Keys are the keys of a fleet. The first signs and all verify, so that keys can be rotated without an interruption. The methods are
// safe for concurrent use.
type Keys struct {
	inForce atomic.Pointer[[]*signer] // never empty
	buffers sync.Pool                 // of *[]byte
}

// NewKeys returns the given keys of [KeySize] bytes each. At least one is required.
func NewKeys(keys ...[]byte) (*Keys, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("no fleet key: a key file holds one key a line, as base64 of %d bytes", KeySize)
	}
	var signers []*signer
	for i, key := range keys {
		if len(key) != KeySize {
			return nil, fmt.Errorf("fleet key %d has %d bytes: it must have %d", i+1, len(key), KeySize)
		}
		signers = append(signers, newSigner(key))
	}
	k := &Keys{}
	k.inForce.Store(&signers)
	return k, nil
}

// signers returns the keys in force, at least one.
func (k *Keys) signers() []*signer { return *k.inForce.Load() }

// Replace puts the keys of next in force, for every signature and verification that begins afterwards.
func (k *Keys) Replace(next *Keys) { k.inForce.Store(next.inForce.Load()) }

// RandomKeys returns one random key, for a fleet in one process.
func RandomKeys() *Keys {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // never fails
	k, err := NewKeys(key)
	if err != nil {
		panic("hop: " + err.Error()) // only of another length
	}
	return k
}

// Derive returns keys of [KeySize] bytes for another purpose than hop tokens, one for each key of the fleet and in the same order. They
// reveal nothing about the fleet's keys, nor about those of another purpose.
func (k *Keys) Derive(purpose string) [][]byte {
	var derived [][]byte
	for _, s := range k.signers() {
		key, err := hkdf.Key(sha256.New, s.key, nil, "colonnade "+purpose, KeySize)
		if err != nil {
			panic("hop: " + err.Error()) // only of a length that no hash allows
		}
		derived = append(derived, key)
	}
	return derived
}

// IDs returns the ids of the keys, without repetition: the first is that of the key that signs. An id is eight hexadecimal digits, the
// same on every node, and reveals nothing about the key.
func (k *Keys) IDs() (ids []string) {
	for _, s := range k.signers() {
		if !slices.Contains(ids, s.id) {
			ids = append(ids, s.id)
		}
	}
	return ids
}

// takeBuffer returns an empty buffer for what is signed.
func (k *Keys) takeBuffer() *[]byte {
	if b, ok := k.buffers.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

func (k *Keys) putBuffer(b *[]byte) {
	*b = (*b)[:0]
	k.buffers.Put(b)
}

// signer pools keyed hashes, since keying one costs more than hashing a short message.
type signer struct {
	id   string
	key  []byte
	macs sync.Pool
}

// idLabel is what a key signs for its id. No token begins with it.
const idLabel = "colonnade fleet key id"

func newSigner(key []byte) *signer {
	key = slices.Clone(key)
	s := &signer{key: key, macs: sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
	s.id = hex.EncodeToString(s.sum(nil, []byte(idLabel))[:4])
	return s
}

// sum appends the signature of a message to dst.
func (s *signer) sum(dst, message []byte) []byte {
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	mac.Write(message)
	return mac.Sum(dst)
}
