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
