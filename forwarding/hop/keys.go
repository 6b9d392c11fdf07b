package hop

import (
	"bufio"
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"os"
	"slices"
	"strings"
	"sync"
)

// KeySize is the length of one fleet key in bytes.
const KeySize = 32

// Keys are the keys of a fleet. The first signs and all verify, so that keys can be rotated without an interruption.
type Keys struct {
	signers []*signer
	buffers sync.Pool // of *[]byte
}

// NewKeys returns the given keys of [KeySize] bytes each. At least one is required.
func NewKeys(keys ...[]byte) (*Keys, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("no fleet key: a key file holds one key a line, as base64 of %d bytes", KeySize)
	}
	k := &Keys{}
	for i, key := range keys {
		if len(key) != KeySize {
			return nil, fmt.Errorf("fleet key %d has %d bytes: it must have %d", i+1, len(key), KeySize)
		}
		k.signers = append(k.signers, newSigner(key))
	}
	return k, nil
}

// RandomKeys returns one random key, for a fleet in one process.
func RandomKeys() *Keys {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // never fails
	return &Keys{signers: []*signer{newSigner(key)}}
}

// ReadKeys reads a key file, which holds one key a line as base64 of 32 bytes, and which only its owner may read.
func ReadKeys(path string) (*Keys, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read key file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("key file %s is not a regular file", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("key file %s has mode %04o: others can read it; run chmod 0600 on it", path, mode)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read key file: %w", err)
	}
	var keys [][]byte
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(key) != KeySize {
			return nil, fmt.Errorf("key file %s, line %d: not base64 of %d bytes; make one with: head -c 32 /dev/urandom | base64", path, n, KeySize)
		}
		keys = append(keys, key)
	}
	k, err := NewKeys(keys...)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return k, nil
}

// Derive returns keys of [KeySize] bytes for another purpose than hop tokens, one for each key of the fleet and in the same order. They
// reveal nothing about the fleet's keys, nor about those of another purpose.
func (k *Keys) Derive(purpose string) [][]byte {
	var derived [][]byte
	for _, s := range k.signers {
		key, err := hkdf.Key(sha256.New, s.key, nil, "colonnade "+purpose, KeySize)
		if err != nil {
			panic("hop: " + err.Error()) // only of a length that no hash allows
		}
		derived = append(derived, key)
	}
	return derived
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
	key  []byte
	macs sync.Pool
}

func newSigner(key []byte) *signer {
	key = slices.Clone(key)
	return &signer{key: key, macs: sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// sum appends the signature of a message to dst.
func (s *signer) sum(dst, message []byte) []byte {
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	mac.Write(message)
	return mac.Sum(dst)
}
