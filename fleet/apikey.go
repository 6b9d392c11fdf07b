package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// RoleWorker is the role of an API key that registers engines. It is for no requests.
const RoleWorker = "worker"

// APIKey is the document keys/<ID>: one API key, known by its hash, and the account that its requests belong to. An API
// key that comes from a table is shared: do not modify it.
type APIKey struct {
	ID string `json:"-"`
	// Account that requests with the key belong to. One without a document has the defaults. Required, unless the key has a role.
	Account string `json:"account,omitempty" is:"name" secret:"yes"`
	// worker is a key by which colonnade register registers engines at colo servers and at colonnade serve. It is for nothing else,
	// and has neither an account nor limits. Default: a key for requests.
	Role string `json:"role,omitempty" oneof:"worker"`
	// SHA-256 of the whole key.
	SHA256 KeyHash `json:"sha256" need:"yes" secret:"yes"`
	// Time at which the key was made; for people.
	Created time.Time `json:"created,omitzero" secret:"yes"`
	// Time from which the key is refused. Default: never.
	Expires time.Time `json:"expires,omitzero" secret:"yes"`
	// Limits of the requests with this key, beside those of its account.
	Limits RateLimits `json:"limits,omitzero" secret:"yes"`
}

// ExpiredAt reports whether k is not valid any more at that time.
func (k *APIKey) ExpiredAt(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// ForWorkers reports whether k registers engines, and is for no requests.
func (k *APIKey) ForWorkers() bool { return k.Role == RoleWorker }

// Mark names the key in the documents of what it has registered: its ID, and a digest by which a key that was made anew under that ID is another.
func (k *APIKey) Mark() string {
	sum := sha256.Sum256(k.SHA256[:])
	return k.ID + " " + hex.EncodeToString(sum[:8])
}

// MarkedKeyID returns the ID of the key in a mark.
func MarkedKeyID(mark string) string {
	id, _, _ := strings.Cut(mark, " ")
	return id
}

// shownAPIKey is what debug pages show of an API key: everything but the hash.
type shownAPIKey struct {
	Account string     `json:"account,omitempty"`
	Role    string     `json:"role,omitempty"`
	Created time.Time  `json:"created,omitzero"`
	Expires time.Time  `json:"expires,omitzero"`
	Limits  RateLimits `json:"limits,omitzero"`
}

func (k *APIKey) shown() shownAPIKey {
	return shownAPIKey{k.Account, k.Role, k.Created, k.Expires, k.Limits}
}

// KeyHash is the SHA-256 of a whole API key, in hex in documents.
type KeyHash [32]byte

// MarshalJSON writes h in hex.
func (h KeyHash) MarshalJSON() ([]byte, error) { return json.Marshal(hex.EncodeToString(h[:])) }

// UnmarshalJSON reads 64 hex digits.
func (h *KeyHash) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) != nil || len(s) != 2*len(h) {
		return errKeyHash
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return errKeyHash
	}
	return nil
}

var errKeyHash = errors.New("must be the SHA-256 of the key as 64 hex digits, quoted; never the key itself")
