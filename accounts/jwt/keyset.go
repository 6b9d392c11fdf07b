package jwt

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
)

const (
	algorithmRS256 = "RS256"
	algorithmES256 = "ES256"

	maxKeys = 64 // of one key set
	// Sizes of RSA moduli, in bits. Verification with a larger one costs an attacker's issuer nothing and us milliseconds.
	minRSA, maxRSA = 2048, 8192
)

// keySet is the usable keys of an issuer. It is immutable.
type keySet struct {
	keys []key
}

// key is one public key, an *rsa.PublicKey or an *ecdsa.PublicKey.
type key struct {
	id        string // kid; empty = it has none
	algorithm string
	public    any
}

// find returns the key for a token: the one with its kid, or if the token has none, the only one for its algorithm.
func (s *keySet) find(kid, algorithm string) (found key, ok bool) {
	for _, k := range s.keys {
		if k.algorithm != algorithm || kid != "" && k.id != kid {
			continue
		}
		if ok { // two keys: which one is meant cannot be known
			return key{}, false
		}
		found, ok = k, true
	}
	return found, ok
}

// jwk is the part of a JSON Web Key (RFC 7517) that is used.
type jwk struct {
	Type      string `json:"kty"`
	Use       string `json:"use"`
	ID        string `json:"kid"`
	Algorithm string `json:"alg"`
	Curve     string `json:"crv"`
	N, E      string
	X, Y      string
}

// parseKeySet reads a key set. Keys for other purposes and of other kinds are left out; a key set without a usable key is an error.
func parseKeySet(text []byte) (*keySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("is no key set: not JSON with a list of keys")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("has %d keys: at most %d are read", len(set.Keys), maxKeys)
	}
	s := &keySet{}
	var last error
	for _, raw := range set.Keys {
		var k jwk
		if err := json.Unmarshal(raw, &k); err != nil {
			last = errors.New("a key is not in the form of RFC 7517")
			continue
		}
		usable, err := k.public()
		if err != nil {
			last = err
			continue
		}
		s.keys = append(s.keys, usable)
	}
	if len(s.keys) == 0 {
		return nil, errors.Join(errors.New("has no key for signatures with RS256 or ES256"), last)
	}
	return s, nil
}

func (k *jwk) public() (key, error) {
	if k.Use != "" && k.Use != "sig" {
		return key{}, fmt.Errorf("key %.40q is for %.10q", k.ID, k.Use)
	}
	out := key{id: k.ID}
	var err error
	switch k.Type {
	case "RSA":
		out.algorithm = algorithmRS256
		out.public, err = rsaKey(k.N, k.E)
	case "EC":
		out.algorithm = algorithmES256
		out.public, err = ecKey(k.Curve, k.X, k.Y)
	default:
		return key{}, fmt.Errorf("key %.40q is of the type %.10q", k.ID, k.Type)
	}
	if err == nil && k.Algorithm != "" && k.Algorithm != out.algorithm {
		err = fmt.Errorf("is for the algorithm %.10q", k.Algorithm)
	}
	if err != nil {
		return key{}, fmt.Errorf("key %.40q: %w", k.ID, err)
	}
	return out, nil
}

func rsaKey(n, e string) (*rsa.PublicKey, error) {
	modulus, err := base64.RawURLEncoding.DecodeString(n)
	if err != nil {
		return nil, errors.New("n is not base64url")
	}
	exponent, err := base64.RawURLEncoding.DecodeString(e)
	if err != nil || len(exponent) == 0 || len(exponent) > 4 {
		return nil, errors.New("e is not a number of at most 32 bits in base64url")
	}
	public := &rsa.PublicKey{N: new(big.Int).SetBytes(modulus), E: int(new(big.Int).SetBytes(exponent).Int64())}
	if bits := public.N.BitLen(); bits < minRSA || bits > maxRSA {
		return nil, fmt.Errorf("has %d bits: it must have %d to %d", bits, minRSA, maxRSA)
	}
	if public.E < 3 || public.E%2 == 0 || public.N.Bit(0) == 0 {
		return nil, errors.New("is no RSA key")
	}
	return public, nil
}

func ecKey(curve, x, y string) (*ecdsa.PublicKey, error) {
	if curve != "P-256" {
		return nil, fmt.Errorf("has the curve %.10q: it must be P-256", curve)
	}
	const size = 32
	point := []byte{4} // uncompressed
	for _, coordinate := range []string{x, y} {
		b, err := base64.RawURLEncoding.DecodeString(coordinate)
		if err != nil || len(b) != size {
			return nil, errors.New("x and y must have 32 bytes each in base64url")
		}
		point = append(point, b...)
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return nil, errors.New("is not a point of its curve")
	}
	return public, nil
}
