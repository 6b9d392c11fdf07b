package etcd

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"colonnade/fleet"
)

// AuthorKey is the key, without the prefix, of the author of the newest change that a [Writer] has made. Where its revision
// is that of a document, or that of a deletion, this author made the change: both are of one transaction.
const AuthorKey = string(fleet.KindHistory) + "/by"

// isHistory reports whether a key belongs to the history, and to no document.
func isHistory(key string) bool { return strings.HasPrefix(key, string(fleet.KindHistory)+"/") }

// Author says who changes documents. It never has secrets.
type Author struct {
	User    string    `json:"user,omitempty"`
	Host    string    `json:"host,omitempty"`
	Command string    `json:"command,omitempty"` // as it was typed, shortened and without secrets
	Time    time.Time `json:"time,omitzero"`
}

// ParseAuthor reads the value of AuthorKey.
func ParseAuthor(value []byte) (a Author, err error) {
	if err := json.Unmarshal(value, &a); err != nil {
		return Author{}, fmt.Errorf("cannot read the author in %s: %w", AuthorKey, err)
	}
	return a, nil
}

// String returns the author for a log line, such as "alice@laptop: colonnade config apply fleet.yaml".
func (a Author) String() string {
	text := a.User
	if text == "" {
		text = "unknown"
	}
	if a.Host != "" {
		text += "@" + a.Host
	}
	if a.Command != "" {
		text += ": " + a.Command
	}
	return text
}
