package fleet

import (
	"net/netip"
	"net/url"
	"strings"
)

// IsKeySetURL reports whether keys may be fetched from a URL: by https, or by http from a loopback address. A key set that others can
// change on its way lets them sign tokens.
func IsKeySetURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	if strings.EqualFold(u.Hostname(), "localhost") {
		return u.Scheme == "http" || u.Scheme == "https"
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && err == nil && ip.IsLoopback()
}

// Issuer is an issuer of JWTs that clients send in place of an API key. An issuer that comes from a table is shared: do not modify it.
type Issuer struct {
	Name string `json:"-"`
	// Claim iss of its tokens, compared character by character.
	Issuer string `json:"issuer" is:"text" need:"yes"`
	// URL of its key set (JWKS): https, or http to a loopback address. Default: the jwks_uri that issuer and
	// /.well-known/openid-configuration lead to.
	JWKS string `json:"jwks,omitempty" is:"keyset"`
	// Audience that must be in the claim aud of a token.
	Audience string `json:"audience" is:"text" need:"yes"`
	// Algorithms that a token may be signed with.
	Algorithms []string `json:"algorithms" oneof:"RS256 ES256"`
	// Names of the claims that say what a token may do.
	Claims IssuerClaims `json:"claims"`
}

// IssuerClaims are names of claims, at the top level of a token.
type IssuerClaims struct {
	// Claim with the name of the account. The account must have a document.
	Account string `json:"account" is:"text"`
	// Claim with a list of models, or one name; the token may use those that the account may use, too. A token without the claim may use all
	// models of the account.
	Models string `json:"models" is:"text"`
	// Claim with the priority of the requests. One above that of the account has no effect. A token without the claim has the account's.
	Priority string `json:"priority" is:"text"`
}
