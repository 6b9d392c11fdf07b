package trust_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	library "github.com/golang-jwt/jwt/v5"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// signer is a key of an issuer of tokens.
type signer struct {
	id  string
	key *ecdsa.PrivateKey
}

func newSigner(t *testing.T, id string) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{id, key}
}

// keySet returns the key set of the issuer.
func (s signer) keySet(t *testing.T) string {
	t.Helper()
	point, err := s.key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return fmt.Sprintf(`{"keys":[{"kty":"EC","kid":%q,"crv":"P-256","x":%q,"y":%q}]}`, s.id, encode(point[1:33]), encode(point[33:]))
}

// token returns a token for an account, with a model if it is not empty.
func (s signer) token(t *testing.T, issuer, account, model string, lifetime time.Duration) string {
	t.Helper()
	claims := library.MapClaims{"iss": issuer, "aud": "colonnade", "sub": "alice", "account": account, "exp": time.Now().Add(lifetime).Unix()}
	if model != "" {
		claims["models"] = []string{model}
	}
	unsigned := library.NewWithClaims(library.SigningMethodES256, claims)
	unsigned.Header["kid"] = s.id
	text, err := unsigned.SignedString(s.key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Tokens of an issuer are served as keys of the account that they name. A key of the issuer that is new is soon known, one that it has
// withdrawn is refused, and while the issuer is away, the keys that are known stay in force and its problem is reported.
func TestTokensOfAnIssuer(t *testing.T) {
	t.Parallel()
	first, second := newSigner(t, "first"), newSigner(t, "second")
	var keys atomic.Pointer[string] // nil = the issuer is away
	publish := func(text string) { keys.Store(&text) }
	publish(first.keySet(t))
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if text := keys.Load(); text != nil {
			fmt.Fprint(w, *text)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer issuer.Close()
	f := fleettest.StartClosed(t, onebox.Config{Engine: fleettest.QuickEngine(4)},
		fmt.Sprintf("key: issuers/login\nissuer: %s\njwks: %[1]s/keys\naudience: colonnade\n---\nkey: accounts/acme\nweight: 2\n", issuer.URL))
	operator := f.Operator()
	body := fleettest.ChatBody(2, false)
	ask := func(token string) (status int, text string) {
		r := f.Chat(body, "Authorization", "Bearer "+token)
		return r.Status, string(r.Body)
	}
	refused := func(says, token string) {
		t.Helper()
		if status, text := ask(token); status != http.StatusUnauthorized || !strings.Contains(text, says) || strings.Contains(text, token) {
			t.Errorf("%d %s; want 401, %q", status, text, says)
		}
	}
	good := first.token(t, issuer.URL, "acme", "", time.Hour)
	testkit.WaitFor(t, "a token to be served", func() bool { status, _ := ask(good); return status == http.StatusOK })
	for _, admin := range f.Admins() {
		testkit.WaitFor(t, "all nodes to be ready", func() bool { return f.IsReady(admin) })
	}
	f.Key = good
	f.WatchShared(1)
	refused("needs a document", first.token(t, issuer.URL, "unknown", "", time.Hour))
	refused("has expired", first.token(t, issuer.URL, "acme", "", -time.Hour))
	refused("not of an issuer", first.token(t, "http://other", "acme", "", time.Hour))
	if status, text := ask(first.token(t, issuer.URL, "acme", "another-model", time.Hour)); status != http.StatusNotFound {
		t.Errorf("a model that the token does not allow: %d %s", status, text)
	}

	publish(second.keySet(t))
	later := second.token(t, issuer.URL, "acme", "", time.Hour)
	testkit.WaitFor(t, "a token of a new key to be served", func() bool { status, _ := ask(later); return status == http.StatusOK })
	refused("not publish", good)

	keys.Store(nil)
	operator.Put("key: issuers/another\nissuer: " + issuer.URL + "/another\naudience: colonnade\n")
	testkit.WaitFor(t, "the issuer that does not answer to be reported", func() bool {
		return strings.Contains(string(f.Page(f.Entry.Admin, "/debug/config")), `"kind": "issuer_without_keys"`)
	})
	if status, text := ask(later); status != http.StatusOK {
		t.Errorf("with an issuer away: %d %s", status, text)
	}
}
