package acmetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"slices"
)

// account is the key of the client.
type account struct {
	key        *ecdsa.PublicKey
	thumbprint string // RFC 7638
}

// jwk is a key on the curve P-256.
type jwk struct {
	Crv string `json:"crv"`
	Kty string `json:"kty"`
	X   string `json:"x"`
	Y   string `json:"y"`
}

func (a *Authority) newNonce() string {
	nonce := rand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nonces[nonce] = true
	return nonce
}

// verify returns the payload of a request, whose signature and nonce it verifies. A request that names its key has the key of
// the account from then on.
func (a *Authority) verify(r *http.Request) (payload []byte, p *Problem) {
	var message struct{ Protected, Payload, Signature string }
	if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
		return nil, malformed("not a JWS: %v", err)
	}
	var head struct {
		Nonce, URL string
		JWK        *jwk
	}
	protected, err := base64.RawURLEncoding.DecodeString(message.Protected)
	if err == nil {
		err = json.Unmarshal(protected, &head)
	}
	if err != nil {
		return nil, malformed("protected header: %v", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.nonces[head.Nonce] {
		return nil, &Problem{Status: http.StatusBadRequest, Type: "badNonce", Detail: "unknown nonce"}
	}
	delete(a.nonces, head.Nonce)
	if head.URL != a.url+r.URL.Path {
		return nil, malformed("signed for %s", head.URL)
	}
	if head.JWK != nil {
		if a.account, err = head.JWK.account(); err != nil {
			return nil, malformed("key: %v", err)
		}
	}
	if a.account == nil || !a.account.signed(message.Protected+"."+message.Payload, message.Signature) {
		return nil, malformed("the signature is not that of the account")
	}
	payload, err = base64.RawURLEncoding.DecodeString(message.Payload)
	if err != nil {
		return nil, malformed("payload: %v", err)
	}
	return payload, nil
}

func (k *jwk) account() (*account, error) {
	x, errX := base64.RawURLEncoding.DecodeString(k.X)
	y, errY := base64.RawURLEncoding.DecodeString(k.Y)
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
	if err := errors.Join(errX, errY, err); err != nil {
		return nil, err
	}
	canonical, err := json.Marshal(k) // its fields are in the order of RFC 7638
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(canonical)
	return &account{key: key, thumbprint: base64.RawURLEncoding.EncodeToString(digest[:])}, nil
}

func (c *account) signed(text, signature string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || len(raw) != 64 {
		return false
	}
	digest := sha256.Sum256([]byte(text))
	return ecdsa.Verify(c.key, digest[:], new(big.Int).SetBytes(raw[:32]), new(big.Int).SetBytes(raw[32:]))
}
