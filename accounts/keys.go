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
	idLength  = 10 // 50 bits: enough that nobody's ids meet
)

// NewKey makes an API key and its entry for the account's document. The key itself is kept nowhere: show it once.
// An empty id is chosen at random; a zero expires means never.
func NewKey(id string, created, expires time.Time) (key string, doc fleet.Key) {
	if id == "" {
		id = strings.ToLower(rand.Text()[:idLength])
	}
	key = keyPrefix + id + "_" + rand.Text()
	return key, fleet.Key{ID: id, SHA256: sha256.Sum256([]byte(key)), Created: created, Expires: expires}
}
