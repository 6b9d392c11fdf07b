package etcd

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// Bounds of a staged change.
const (
	MaxStaged    = 512 << 10 // bytes of its JSON
	maxStagedTTL = time.Minute
)

// StagedKey returns the key, without the prefix, of the change that is staged on a node, by the key of the node's own document.
func StagedKey(node string) string { return fleet.KindStaged.Key(node) }

// isStaged reports whether a key has a staged change, and no document.
func isStaged(key string) bool { return strings.HasPrefix(key, string(fleet.KindStaged)+"/") }

// Staged is a change that one node lays over its documents while the lease of its key lasts.
type Staged struct {
	Author
	Put        []StagedDocument `json:"put,omitempty"`
	Delete     []string         `json:"delete,omitempty"`
	TTLSeconds int              `json:"ttl_seconds"` // of the lease; a node that hears nothing from etcd for that long withdraws the change
}

// StagedDocument is a version of a document that a change puts.
type StagedDocument struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// encode returns the value of a staged change.
func (c *Staged) encode() (string, error) {
	value, err := json.Marshal(c)
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot write the change as JSON: %w", err)
	case len(value) > MaxStaged:
		return "", fmt.Errorf("the change has %d KiB, and only %d KiB can be staged: apply it in parts", len(value)>>10, MaxStaged>>10)
	}
	return string(value), nil
}

// parseStaged reads the value of a staged change. With an error, it has what could be read of it.
func parseStaged(d Stored) (c Staged, err error) {
	switch {
	case len(d.Value) > MaxStaged:
		return c, fmt.Errorf("it has %d bytes, and may have %d", len(d.Value), MaxStaged)
	case !d.Leased:
		return c, errors.New("it has no lease, so it would not end with the command that has put it")
	}
	if err := json.Unmarshal(d.Value, &c); err != nil {
		return c, fmt.Errorf("it is no JSON of a staged change: %w", err)
	}
	if c.TTLSeconds < 1 || c.ttl() > maxStagedTTL {
		return c, fmt.Errorf("ttl_seconds is %d, and must be 1 to %d", c.TTLSeconds, int(maxStagedTTL.Seconds()))
	}
	for _, key := range c.keys() {
		if kind := kindOf(key); kind.OfNode() || kind == fleet.KindDeletions {
			return c, fmt.Errorf("%s cannot be staged: operators do not write it", key)
		}
	}
	return c, nil
}

func (c *Staged) ttl() time.Duration { return time.Duration(c.TTLSeconds) * time.Second }

// keys returns the keys of the documents of a change, sorted.
func (c *Staged) keys() []string {
	keys := slices.Clone(c.Delete)
	for _, d := range c.Put {
		keys = append(keys, d.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// overlay is a staged change at its node. Nothing of it is in the documents of the node, or in the file of last good documents.
type overlay struct {
	Staged
	state fleet.StagedChange
	until time.Time // the lease may have expired then, for all that the node knows
}

// newOverlay reads a staged change; reads says which documents the node reads.
func newOverlay(d Stored, reads func(key string) bool, now time.Time) *overlay {
	c, err := parseStaged(d)
	keys := c.keys()
	o := &overlay{Staged: c, state: fleet.StagedChange{Key: d.Key, Revision: d.Revision, By: c.Author.String(), Since: now.UTC(), Documents: []string{}}}
	if err != nil {
		o.state.Problem, o.Put, o.Delete = err.Error(), nil, nil
		o.TTLSeconds = int(maxStagedTTL.Seconds())
	}
	o.Put = slices.DeleteFunc(o.Put, func(d StagedDocument) bool { return !reads(d.Key) })
	o.Delete = slices.DeleteFunc(o.Delete, func(key string) bool { return !reads(key) })
	for _, key := range keys {
		if reads(key) && err == nil {
			o.state.Documents = append(o.state.Documents, key)
		} else {
			o.state.Unread = append(o.state.Unread, key)
		}
	}
	o.state.Deletions = len(o.Delete)
	o.extend(now)
	return o
}

// extend notes that the store had the change at a time.
func (o *overlay) extend(at time.Time) { o.until = at.Add(o.ttl()) }

// over returns the table of the documents of a set with the change over them. The set stays as it is.
func (o *overlay) over(docs *document.Set) *fleet.Table {
	docs = docs.Clone()
	for _, d := range o.Put {
		_ = docs.Put(d.Key, []byte(d.Value), o.state.Revision) // a bad one is among the rejections of the table, and was logged
	}
	for _, key := range o.Delete {
		docs.Delete(key, o.state.Revision)
	}
	return docs.Table()
}

// takeStaged takes a change that is staged on this node.
func (s *documentState) takeStaged(d Stored, reads func(key string) bool, now time.Time) {
	if s.staged != nil && s.staged.state.Revision == d.Revision {
		s.staged.extend(now)
		return
	}
	o := newOverlay(d, reads, now)
	s.staged, s.changed = o, true
	if o.state.Problem != "" {
		s.warn(now, "staged change not in force", d.Key, "key", d.Key, "revision", d.Revision, "by", o.state.By, "error", o.state.Problem)
		return
	}
	s.logger.Info("staged change in force; other nodes do not have it", "documents", len(o.state.Documents), "deleted", len(o.Delete),
		"keys", firstOf(o.state.Documents, len(o.state.Documents)), "not_read", len(o.state.Unread), "revision", d.Revision, "by", o.state.By)
	for _, put := range o.Put {
		if err := document.Check(put.Key, []byte(put.Value)); err != nil {
			s.logStagedRejection(err, o, now)
		}
	}
}

func (s *documentState) logStagedRejection(err error, o *overlay, now time.Time) {
	var invalid *document.InvalidError
	if errors.As(err, &invalid) {
		_, lastGood := s.known[invalid.Key]
		s.warn(now, "document rejected", invalid.Key, "key", invalid.Key, "revision", o.state.Revision, "field", invalid.Field, "value", invalid.Value,
			"error", invalid.Reason, "last_good_in_force", lastGood, "staged", true, "by", o.state.By)
	}
}

// withdrawStaged takes the staged change away, if there is one.
func (s *documentState) withdrawStaged(reason string) {
	if s.staged == nil {
		return
	}
	s.logger.Info("staged change withdrawn", "reason", reason, "revision", s.staged.state.Revision, "by", s.staged.state.By)
	s.staged, s.changed = nil, true
}

// lay returns the table of the documents with the staged change over them; t is the one without it.
func (s *documentState) lay(t *fleet.Table) *fleet.Table {
	s.withoutStaged = t
	if s.staged == nil {
		return t
	}
	state := t.StoreState
	own := s.staged.state
	state.Staged = &own
	if own.Problem == "" {
		t = s.staged.over(s.docs)
	}
	return t.WithStoreState(state)
}
