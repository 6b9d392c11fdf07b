package jwt_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	library "github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"colonnade/accounts/jwt"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Keys of the tests: making one of RSA takes a while.
var (
	oneRSA   = sync.OnceValue(newRSA)
	otherRSA = sync.OnceValue(newRSA)
)

func newRSA() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
}

func newEC(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func encoded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// rsaJWK returns the public half of a key for a key set.
func rsaJWK(kid string, k *rsa.PrivateKey) map[string]any {
	return map[string]any{"kty": "RSA", "kid": kid, "use": "sig", "alg": "RS256", "n": encoded(k.N.Bytes()), "e": encoded(big.NewInt(int64(k.E)).Bytes())}
}

func ecJWK(t testing.TB, kid string, k *ecdsa.PrivateKey) map[string]any {
	t.Helper()
	point, err := k.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"kty": "EC", "kid": kid, "crv": "P-256", "x": encoded(point[1:33]), "y": encoded(point[33:])}
}

func keySetOf(keys ...map[string]any) []byte {
	text, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		panic(err)
	}
	return text
}

// issuerServer answers for issuers, by the names of their documents. Its fields are set by the test's goroutine between calls.
type issuerServer struct {
	mu      sync.Mutex
	sets    map[string][]byte // nil = away
	fetches int
}

func (s *issuerServer) fetch(_ context.Context, i *fleet.Issuer) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetches++
	if text := s.sets[i.Name]; text != nil {
		return text, nil
	}
	return nil, errors.New("the issuer is away")
}

func (s *issuerServer) set(name string, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets[name] = text
}

func (s *issuerServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetches
}

// place is a verifier with the documents of a fleet.
type place struct {
	*jwt.Verifier

	t         *testing.T
	documents *document.Set // with those of apply; a document that stays the same is the same in the next table
	texts     map[string]string
	inForce   atomic.Pointer[fleet.Table]
	issuers   *issuerServer
}

const (
	ourIssuer = "https://login.example.com/"
	ours      = "issuer: https://login.example.com/\naudience: colonnade\n"
)

// newPlace runs a verifier until the end of the test's bubble. Its documents are an account acme, others, and those of the issuers.
func newPlace(t *testing.T, documents map[string]string, sets map[string][]byte) *place {
	t.Helper()
	return newPlaceWithFile(t, documents, sets, "")
}

// newPlaceWithFile is newPlace for a verifier that keeps key sets in a file.
func newPlaceWithFile(t *testing.T, documents map[string]string, sets map[string][]byte, file string) *place {
	t.Helper()
	p := &place{t: t, issuers: &issuerServer{sets: sets}}
	p.apply(documents)
	p.Verifier = jwt.New(jwt.Config{Issuers: func() []*fleet.Issuer { return p.table().Issuers() }, Fetch: p.issuers.fetch, File: file, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { p.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	synctest.Wait()
	return p
}

func (p *place) apply(documents map[string]string) {
	p.t.Helper()
	if p.documents == nil {
		p.documents, p.texts = document.NewSet(), map[string]string{}
	}
	all := map[string]string{"accounts/acme": "weight: 4\npriority: standard\nadmin: true\n", "accounts/few": "models: [a, b]\npriority: batch\n", "accounts/fast": "priority: interactive\n"}
	for key, text := range documents {
		all[key] = text
	}
	for key := range p.texts {
		if _, there := all[key]; !there {
			p.documents.Delete(key, 1)
		}
	}
	for key, text := range all {
		if p.texts[key] == text {
			continue
		}
		if err := p.documents.Put(key, []byte(text), 1); err != nil {
			p.t.Fatal(err)
		}
	}
	p.texts = all
	p.inForce.Store(p.documents.Table())
}

// claims are good ones of the account acme, with changes; nil takes a claim away.
func claims(changes ...any) library.MapClaims {
	c := library.MapClaims{
		"iss": ourIssuer, "aud": "colonnade", "sub": "alice", "account": "acme", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
	}
	for i := 0; i < len(changes); i += 2 {
		if c[changes[i].(string)] = changes[i+1]; changes[i+1] == nil {
			delete(c, changes[i].(string))
		}
	}
	return c
}

// sign returns a token. head has further fields of its head.
func sign(t testing.TB, method library.SigningMethod, key any, c library.MapClaims, head ...any) string {
	t.Helper()
	token := library.NewWithClaims(method, c)
	for i := 0; i < len(head); i += 2 {
		token.Header[head[i].(string)] = head[i+1]
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (p *place) table() *fleet.Table { return p.inForce.Load() }

// identify returns what the verifier says about a token now.
func (p *place) identify(token string) (account *fleet.Account, keyID string, err error) {
	p.t.Helper()
	if !jwt.IsToken(p.table(), token) {
		return nil, "", errors.New("no token")
	}
	caller, err := p.Identify(p.table(), token, false, time.Now())
	return caller.Account, caller.KeyID, err
}
