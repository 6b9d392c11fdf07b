package accounts

import (
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"time"

	"colonnade/fleet"
)

// Open is the account of whoever has no valid key in an open fleet.
const Open = "open"

// Why a caller is not known. None of them says anything about the keys that exist, nor repeats what was sent.
var (
	ErrNoKey      = errors.New("no API key was sent: send it as \"Authorization: Bearer cn_...\"")
	ErrBadKey     = errors.New("the API key is not valid")
	ErrExpiredKey = errors.New("the API key has expired")
)

// maxKey is longer than any key, and short enough to hash without a thought.
const maxKey = 256

// Caller is who asks.
type Caller struct {
	Account *fleet.Account // never nil; shared with the table
	KeyID   string         // empty: the account Open, in an open fleet
}

// Identify finds the account of an API key, which is what follows "Bearer " (see Bearer); empty: none was sent. The
// error is ErrNoKey, ErrBadKey or ErrExpiredKey; an open fleet gives no error but the account Open.
func Identify(t *fleet.Table, key string, open bool, now time.Time) (Caller, error) {
	caller, err := identify(t, key, now)
	if err == nil || !open {
		return caller, err
	}
	if account, ok := t.Account(Open); ok {
		return Caller{Account: account}, nil
	}
	return Caller{Account: t.DefaultAccount(Open)}, nil
}

func identify(t *fleet.Table, key string, now time.Time) (Caller, error) {
	if key == "" {
		return Caller{}, ErrNoKey
	}
	if len(key) > maxKey {
		return Caller{}, ErrBadKey
	}
	var room [maxKey]byte // spares a copy on the heap
	n := copy(room[:], key)
	account, found, ok := t.AccountByKeyHash(sha256.Sum256(room[:n]))
	if !ok {
		return Caller{}, ErrBadKey
	}
	if !found.Expires.IsZero() && !now.Before(found.Expires) {
		return Caller{}, ErrExpiredKey
	}
	return Caller{Account: account, KeyID: found.ID}, nil
}

// MayUse says whether the caller may use a model, by the model's own name.
func (c Caller) MayUse(model string) bool {
	return c.Account.Models == nil || slices.Contains(c.Account.Models, model)
}

// Bearer returns the key in the value of an Authorization header; empty if it holds none.
func Bearer(authorization string) string {
	scheme, key, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.Trim(key, " ")
}
