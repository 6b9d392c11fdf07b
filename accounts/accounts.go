package accounts

import (
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"time"

	"colonnade/fleet"
)

// Open is the account of requests without a valid key, in an open fleet.
const Open = "open"

// Why a caller is not known. No text repeats what was sent, or says anything about the keys that exist.
var (
	ErrNoKey      = errors.New("no API key was sent: send it as \"Authorization: Bearer cn_...\", or in the header api-key or x-api-key")
	ErrBadKey     = errors.New("the API key is not valid")
	ErrExpiredKey = errors.New("the API key has expired")
	ErrWorkerKey  = errors.New("the API key has the role worker: it registers engines (colonnade register -server), and is for no requests; send the key of an account")
	ErrTwoKeys    = errors.New("two API keys were sent that differ: Authorization, api-key, x-api-key and the subprotocol of a WebSocket must have the same one, or none")
)

// maxKey is longer than any key, in bytes.
const maxKey = 256

// Caller is the sender of a request.
type Caller struct {
	Account *fleet.Account // never nil; shared with the table
	KeyID   string         // empty: the account Open, in an open fleet
	// KeyLimits are the limits of the key itself, beside those of the account; nil = none. They are shared with the table.
	KeyLimits *fleet.RateLimits
}

// Identify finds the caller by its API key, which is empty if none was sent (see [Key]). The
// error is ErrNoKey, ErrBadKey, ErrExpiredKey or ErrWorkerKey; in an open fleet there is none, and the account is Open.
func Identify(t *fleet.Table, key string, open bool, now time.Time) (Caller, error) {
	caller, err := identify(t, key, now)
	if err == nil || !open {
		return caller, err
	}
	return Caller{Account: t.AccountOrDefault(Open)}, nil
}

func identify(t *fleet.Table, key string, now time.Time) (Caller, error) {
	found, err := FindKey(t, key, now)
	if err != nil {
		return Caller{}, err
	}
	if found.ForWorkers() {
		return Caller{}, ErrWorkerKey
	}
	caller := Caller{Account: t.AccountOrDefault(found.Account), KeyID: found.ID}
	if found.Limits.Bounds() || found.Limits.OutputTokens > 0 {
		caller.KeyLimits = &found.Limits
	}
	return caller, nil
}

// FindKey finds an API key, whatever its role. The error is ErrNoKey, ErrBadKey or ErrExpiredKey.
func FindKey(t *fleet.Table, key string, now time.Time) (*fleet.APIKey, error) {
	if key == "" {
		return nil, ErrNoKey
	}
	if len(key) > maxKey {
		return nil, ErrBadKey
	}
	var buffer [maxKey]byte // on the stack, unlike []byte(key)
	n := copy(buffer[:], key)
	found, ok := t.APIKeyByHash(sha256.Sum256(buffer[:n]))
	if !ok {
		return nil, ErrBadKey
	}
	if found.ExpiredAt(now) {
		return nil, ErrExpiredKey
	}
	return found, nil
}

// MayUse reports whether the caller may use a model, by the model's own name.
func (c Caller) MayUse(model string) bool {
	return c.Account.Models == nil || slices.Contains(c.Account.Models, model)
}

// Key returns the API key of a request, or an empty one if it has none: what follows "Bearer " in its header Authorization, or what another
// place has where clients send keys. The same key may be in several places. Keys that differ are ErrTwoKeys, whatever they are worth: a choice
// could bill another account than the sender means.
func Key(authorization string, others ...string) (string, error) {
	key := bearer(authorization)
	for _, other := range others {
		switch other = strings.Trim(other, " "); {
		case other == "" || other == key:
		case key != "":
			return "", ErrTwoKeys
		default:
			key = other
		}
	}
	return key, nil
}

// bearer returns the key in the value of an Authorization header; empty if there is none.
func bearer(authorization string) string {
	scheme, key, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.Trim(key, " ")
}
