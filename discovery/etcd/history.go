package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/fleet"
)

// Bounds of the history.
const (
	MaxHistory      = 200       // changes that are kept
	maxHistoryBytes = 8 << 20   // of all changes together; the newest one is kept in any case
	maxKeptBytes    = 256 << 10 // of one change with values; a larger one has keys and revisions only
)

// changesFolder begins the keys of changes. Each goes on with 20 digits, so that the keys are in the order of the changes, a random number,
// and the size of the value, so that a writer knows how large the history is without reading it. Keys of earlier versions have no size.
const changesFolder = string(fleet.KindHistory) + "/changes/"

// Actions of a change on a document.
const (
	ActionCreated = "created"
	ActionChanged = "changed"
	ActionDeleted = "deleted"
)

// Change is one transaction in which a [Writer] has changed documents.
type Change struct {
	Revision int64 `json:"revision,omitempty"` // of the store, with this change; not in the store itself
	Author
	Documents []ChangedDocument `json:"documents"`
	Omitted   bool              `json:"omitted,omitempty"` // there are no values, since they are too large or no text

	key string // with the prefix
}

// ChangedDocument is what a change did to one document.
type ChangedDocument struct {
	Key         string `json:"key"`
	Action      string `json:"action"`
	Old         string `json:"old,omitempty"`
	New         string `json:"new,omitempty"`
	OldRevision int64  `json:"old_revision,omitempty"` // 0: there was no document
}

// History returns the changes that are kept, the newest first.
func History(ctx context.Context, client *clientv3.Client, prefix string) ([]Change, error) {
	stored, _, err := List(ctx, client, prefix, changesFolder)
	if err != nil {
		return nil, err
	}
	var all []Change
	for i := len(stored) - 1; i >= 0; i-- {
		var c Change
		if err := json.Unmarshal(stored[i].Value, &c); err != nil {
			return nil, fmt.Errorf("cannot read the change %s: %w", stored[i].Key, err)
		}
		c.Revision = stored[i].Revision
		all = append(all, c)
	}
	return all, nil
}

// encode returns the value of a change, without the values of documents if they are too large or no text.
func (c Change) encode() (string, error) {
	for _, d := range c.Documents {
		c.Omitted = c.Omitted || !utf8.ValidString(d.Old) || !utf8.ValidString(d.New)
	}
	value, err := json.Marshal(c)
	if err == nil && (c.Omitted || len(value) > maxKeptBytes) {
		without := make([]ChangedDocument, len(c.Documents))
		for i, d := range c.Documents {
			without[i] = ChangedDocument{Key: d.Key, Action: d.Action, OldRevision: d.OldRevision}
		}
		c.Documents, c.Omitted = without, true
		value, err = json.Marshal(c)
	}
	if err != nil {
		return "", fmt.Errorf("cannot write the change as JSON: %w", err)
	}
	return string(value), nil
}

// changeKeys are the keys of the changes that are kept, with the prefix, the oldest first.
type changeKeys []string

// next returns the key for a change of some size that follows them, also if the clock is behind that of another author.
func (k changeKeys) next(prefix string, now time.Time, size int) string {
	at := max(now.UnixNano(), 0)
	if len(k) > 0 {
		digits, _, _ := strings.Cut(strings.TrimPrefix(k[len(k)-1], prefix+changesFolder), "-")
		if last, err := strconv.ParseInt(digits, 10, 64); err == nil {
			at = max(at, last+1)
		}
	}
	return fmt.Sprintf("%s%s%020d-%08x-%d", prefix, changesFolder, at, rand.Uint32(), size)
}

// sizeOf returns the size of a change by its key; 0 if the key does not say it.
func sizeOf(key string) int {
	parts := strings.Split(key[strings.LastIndexByte(key, '/')+1:], "-")
	size, err := strconv.Atoi(parts[len(parts)-1])
	if len(parts) != 3 || err != nil {
		return 0
	}
	return size
}

// prune returns the operation that deletes the oldest, so that there is room for another change of some size.
func (k changeKeys) prune(prefix string, size int) []clientv3.Op {
	first := len(k) // of those that stay
	for first > 0 && len(k)-first < MaxHistory-1 && size+sizeOf(k[first-1]) <= maxHistoryBytes {
		first--
		size += sizeOf(k[first])
	}
	if first == 0 {
		return nil
	}
	return []clientv3.Op{clientv3.OpDelete(prefix+changesFolder, clientv3.WithRange(k[first-1]+"\x00"))}
}
