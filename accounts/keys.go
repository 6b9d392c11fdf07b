package accounts

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"time"

	"colonnade/fleet"
)

const (
	keyPrefix = "cn_"
	idLength  = 10 // 50 bits
)

// NewKey makes an API key of an account, and what its document says. The key itself is stored nowhere: show it once.
// An empty id is replaced by a random one; a zero expires means never.
func NewKey(account, id string, created, expires time.Time) (key string, doc fleet.APIKey) {
	if id == "" {
		id = strings.ToLower(rand.Text()[:idLength])
	}
	key = keyPrefix + id + "_" + rand.Text()
	return key, fleet.APIKey{ID: id, Account: account, SHA256: sha256.Sum256([]byte(key)), Created: created, Expires: expires}
}

// NewWorkerKey makes an API key that registers engines, and belongs to no account. See [NewKey] for the rest.
func NewWorkerKey(id string, created, expires time.Time) (key string, doc fleet.APIKey) {
	key, doc = NewKey("", id, created, expires)
	doc.Role = fleet.RoleWorker
	return key, doc
}

// KeyID returns the id in an API key; empty if it is not one.
func KeyID(key string) string {
	rest, is := strings.CutPrefix(key, keyPrefix)
	at := strings.LastIndexByte(rest, '_')
	if !is || at < 0 || len(key) > maxKey {
		return ""
	}
	return rest[:at]
}
