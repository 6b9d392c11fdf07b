package jwt

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"colonnade/fleet"
)

// A key set is fetched from its URL, or from the one that the issuer's configuration names. Redirects, other issuers, large pages and URLs
// that others could answer for are refused.
func TestFetch(t *testing.T) {
	t.Parallel()
	const keys = `{"keys":[]}`
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	page := func(path, text string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
	}
	discovered := func(name, issuer, jwks string) {
		page("/"+name+discovery, fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, issuer, jwks))
	}
	page("/keys", keys)
	page("/large", strings.Repeat("x", maxPage+1))
	mux.Handle("GET /moved", http.RedirectHandler("/keys", http.StatusFound))
	discovered("good", server.URL+"/good", server.URL+"/keys")
	discovered("slash", server.URL+"/slash/", server.URL+"/keys")
	discovered("foreign", "https://evil.example.com", server.URL+"/keys")
	discovered("plain", server.URL+"/plain", "http://keys.example.com/keys")
	page("/text"+discovery, "<html>")
	f := func(i fleet.Issuer, says string) {
		t.Helper()
		text, err := newFetcher().keySetText(t.Context(), &i)
		if says == "" && (err != nil || string(text) != keys) || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%+v: got %.40q, %v, want %q", i, text, err, says)
		}
	}
	f(fleet.Issuer{Issuer: "https://login.example.com", JWKS: server.URL + "/keys"}, "")
	f(fleet.Issuer{JWKS: server.URL + "/none"}, "status 404")
	f(fleet.Issuer{JWKS: server.URL + "/moved"}, "redirects")
	f(fleet.Issuer{JWKS: server.URL + "/large"}, "more than 256 KiB")
	f(fleet.Issuer{Issuer: server.URL + "/good"}, "")
	f(fleet.Issuer{Issuer: server.URL + "/slash/"}, "")
	f(fleet.Issuer{Issuer: server.URL + "/foreign"}, "is about the issuer")
	f(fleet.Issuer{Issuer: server.URL + "/plain"}, "must be an https URL")
	f(fleet.Issuer{Issuer: server.URL + "/text"}, "is not JSON")
	f(fleet.Issuer{Issuer: server.URL + "/none"}, "status 404")
}
