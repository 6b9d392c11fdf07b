package jwt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"colonnade/accounts"
	"colonnade/fleet"
)

const (
	maxToken = 8 << 10 // bytes
	// leeway is by how much the clocks of an issuer and of this node may differ.
	leeway = time.Minute
	// maxSubject is the longest subject that a key id has as it is, in bytes.
	maxSubject = 24
)

// Why a token is not valid. No text repeats a part of it, but for names that are in documents.
var (
	errTooLong    = errors.New("the token is longer than 8 KiB")
	errNoToken    = errors.New("the token is not a JWT")
	errIssuer     = errors.New("the token is not of an issuer and an audience that are accepted here")
	errAlgorithm  = errors.New("the algorithm of the token is not accepted: it must be one that its issuer is accepted with")
	errNoKeys     = errors.New("the keys of the token's issuer are not known yet: try again later")
	errUnknownKey = errors.New("the token is signed with a key that its issuer does not publish, as far as is known; if the key is new, try again in a minute")
	errSignature  = errors.New("the signature of the token is not valid")
	errExpired    = errors.New("the token has expired")
	errTooEarly   = errors.New("the token is not valid yet")
	errClaims     = errors.New("a claim of the token is missing or not valid: iss, aud and exp are required")
	errNoAccount  = errors.New("the token names no account")
	errAccount    = errors.New("the account that the token names is not known here: it needs a document")
	errModels     = errors.New("the claim of the token that names its models is not a list of names")
	errPriority   = errors.New("the claim of the token that names its priority is not interactive, standard or batch")
	errCritical   = errors.New("the token has a header crit, and no extension is known here")
)

// Config is what a verifier needs.
type Config struct {
	Issuers func() []*fleet.Issuer // the newest; called every second
	// Fetch returns the text of an issuer's key set; nil = it is fetched by HTTP. It is called by several goroutines at once.
	Fetch  func(context.Context, *fleet.Issuer) ([]byte, error)
	File   string // where the last good key sets are kept across restarts; empty = nowhere
	Logger *slog.Logger
}

// Verifier verifies tokens. Its methods may be called by several goroutines at once.
type Verifier struct {
	config     Config
	sources    atomic.Pointer[map[string]*source] // by name of the issuer; replaced by Run
	remembered *remembered
	file       *keyFile
}

// New returns a verifier, which knows no keys until Run has read or fetched them.
func New(c Config) *Verifier {
	if c.Fetch == nil {
		c.Fetch = newFetcher().keySetText
	}
	file, err := openKeyFile(c.File)
	if err != nil {
		c.Logger.Warn("keys of issuers of tokens are unknown until they are fetched", "error", err)
	}
	v := &Verifier{config: c, remembered: newRemembered(), file: file}
	v.sources.Store(&map[string]*source{})
	return v
}

// IsToken reports whether what follows "Bearer " is meant as a JWT, in a fleet with issuers: it begins as the encoded head of one does,
// and has three parts. No API key begins so.
func IsToken(t *fleet.Table, key string) bool {
	return strings.HasPrefix(key, "eyJ") && len(t.Issuers()) > 0 && strings.Count(key, ".") == 2
}

// Identify finds the caller by its token. In an open fleet, a caller without a valid token has the account [accounts.Open].
func (v *Verifier) Identify(t *fleet.Table, token string, open bool, now time.Time) (accounts.Caller, error) {
	caller, err := v.identify(t, token, now)
	if err == nil || !open {
		return caller, err
	}
	return accounts.Caller{Account: t.AccountOrDefault(accounts.Open)}, nil
}

func (v *Verifier) identify(t *fleet.Table, token string, now time.Time) (accounts.Caller, error) {
	if len(token) > maxToken {
		return accounts.Caller{}, errTooLong
	}
	hash := hashOf(token)
	if known, ok := v.remembered.find(hash); ok && v.holds(&known, t) {
		if !now.Before(known.expires) {
			return accounts.Caller{}, errExpired
		}
		return known.caller, nil
	}
	found, err := v.verify(t, token, now)
	if err != nil {
		return accounts.Caller{}, err
	}
	v.remembered.add(hash, found)
	return found.caller, nil
}

// hashOf returns the SHA-256 of a token, without a copy of it.
func hashOf(token string) (sum [sha256.Size]byte) {
	h := sha256.New()
	_, _ = io.WriteString(h, token)
	h.Sum(sum[:0])
	return sum
}

// holds reports whether all that a verified token depended on is as it was.
func (v *Verifier) holds(known *verified, t *fleet.Table) bool {
	source := (*v.sources.Load())[known.issuer.Name]
	account, ok := t.Account(known.account.Name)
	return ok && account == known.account && source != nil && source.keys.Load() == known.keys && slices.Contains(t.Issuers(), known.issuer)
}

func (v *Verifier) verify(t *fleet.Table, token string, now time.Time) (verified, error) {
	unverified, _, err := jwt.NewParser(jwt.WithStrictDecoding()).ParseUnverified(token, jwt.MapClaims{})
	if err != nil {
		if errors.Is(err, jwt.ErrTokenUnverifiable) { // of an algorithm that the library does not know
			return verified{}, errAlgorithm
		}
		return verified{}, errNoToken
	}
	if _, critical := unverified.Header["crit"]; critical {
		return verified{}, errCritical
	}
	issuer := issuerOf(t, unverified.Claims)
	if issuer == nil {
		return verified{}, errIssuer
	}
	if !slices.Contains(issuer.Algorithms, unverified.Method.Alg()) {
		return verified{}, errAlgorithm
	}
	keys, public, err := v.keyFor(issuer, unverified)
	if err != nil {
		return verified{}, err
	}
	claims := jwt.MapClaims{}
	parser := jwt.NewParser(jwt.WithStrictDecoding(), jwt.WithValidMethods(issuer.Algorithms), jwt.WithIssuer(issuer.Issuer), jwt.WithAudience(issuer.Audience),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(leeway), jwt.WithTimeFunc(func() time.Time { return now }))
	if _, err := parser.ParseWithClaims(token, claims, func(*jwt.Token) (any, error) { return public, nil }); err != nil {
		return verified{}, reasonOf(err)
	}
	expires, err := claims.GetExpirationTime()
	if err != nil || expires == nil {
		return verified{}, errClaims
	}
	caller, account, err := callerOf(t, issuer, claims)
	return verified{caller: caller, expires: expires.Add(leeway), issuer: issuer, keys: keys, account: account}, err
}

// issuerOf returns the issuer that a token names. Of several with one name, it is the first whose audience the token has.
func issuerOf(t *fleet.Table, claims jwt.Claims) *fleet.Issuer {
	name, err := claims.GetIssuer()
	if err != nil {
		return nil
	}
	audiences, err := claims.GetAudience()
	if err != nil {
		return nil
	}
	for _, i := range t.Issuers() {
		if i.Issuer == name && slices.Contains(audiences, i.Audience) {
			return i
		}
	}
	return nil
}

// keyFor returns the key of the issuer that a token must be signed with, and the key set that has it.
func (v *Verifier) keyFor(issuer *fleet.Issuer, token *jwt.Token) (*keySet, any, error) {
	source := (*v.sources.Load())[issuer.Name]
	if source == nil || source.keys.Load() == nil {
		return nil, nil, errNoKeys
	}
	kid, isText := token.Header["kid"].(string)
	if _, present := token.Header["kid"]; present && (!isText || kid == "") {
		return nil, nil, errUnknownKey
	}
	keys := source.keys.Load()
	k, ok := keys.find(kid, token.Method.Alg())
	if !ok {
		source.wanted.Store(true)
		return nil, nil, errUnknownKey
	}
	return keys, k.public, nil
}

// reasonOf returns the error for clients. Those of the library have parts of the token.
func reasonOf(err error) error {
	switch {
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return errSignature
	case errors.Is(err, jwt.ErrTokenExpired):
		return errExpired
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return errTooEarly
	case errors.Is(err, jwt.ErrTokenMalformed):
		return errNoToken
	}
	return errClaims
}

// keyID names a token in events: by its issuer and its subject, or if that is long or has other characters than names, by its hash.
func keyID(issuer string, claims jwt.MapClaims) string {
	subject, _ := claims.GetSubject()
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._@-", c)
	}
	if len(subject) > maxSubject || strings.ContainsFunc(subject, func(c rune) bool { return !plain(c) }) {
		sum := sha256.Sum256([]byte(subject))
		subject = hex.EncodeToString(sum[:6])
	}
	return "jwt:" + issuer + ":" + subject
}

func compareNames(a, b string) int { return strings.Compare(a, b) }
