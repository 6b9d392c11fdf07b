package fleet

import (
	"crypto/subtle"
	"encoding/binary"
	"iter"
	"maps"
	"slices"
)

// APIKeyIndex finds API keys by their hashes. It is immutable; build one with [APIKeyIndexBuilder].
type APIKeyIndex struct {
	shards    shards[uint64, []*APIKey] // by the first eight bytes of the hash; rarely more than one
	conflicts []Conflict                // documents without effect, since another one has the same hash
}

func (h KeyHash) prefix() uint64 { return binary.BigEndian.Uint64(h[:]) }

// apiKeyShard returns the shard of the first eight bytes of a hash.
func apiKeyShard(prefix uint64) uint32 { return uint32(prefix % shardCount) }

func (x *APIKeyIndex) alike(prefix uint64) []*APIKey { return x.shards[apiKeyShard(prefix)][prefix] }

// find returns the API key with this hash. Beyond the first eight bytes, hashes are compared in constant time.
func (x *APIKeyIndex) find(sum KeyHash) (*APIKey, bool) {
	for _, k := range x.alike(sum.prefix()) {
		if subtle.ConstantTimeCompare(sum[:], k.SHA256[:]) == 1 {
			return k, true
		}
	}
	return nil, false
}

// all returns the API keys in no particular order.
func (x *APIKeyIndex) all() iter.Seq[*APIKey] {
	return func(yield func(*APIKey) bool) {
		for _, shard := range x.shards {
			for _, alike := range shard {
				for _, k := range alike {
					if !yield(k) {
						return
					}
				}
			}
		}
	}
}

// APIKeyIndexBuilder builds one [APIKeyIndex] after another. They share what does not change between them. The zero value
// is an empty index. It is not safe for concurrent use.
type APIKeyIndexBuilder struct {
	shards shardsBuilder[uint64, []*APIKey]
	alike  map[uint64]struct{} // first bytes that several hashes have
}

// Clone returns a builder of the same API keys. The two share them until one is changed.
func (b *APIKeyIndexBuilder) Clone() APIKeyIndexBuilder {
	b.shards.share()
	c := *b
	c.alike = maps.Clone(b.alike)
	return c
}

// Alike returns the API keys whose hashes begin with the same eight bytes. Do not modify the list.
func (b *APIKeyIndexBuilder) Alike(hash KeyHash) []*APIKey {
	prefix := hash.prefix()
	return b.shards.shards[apiKeyShard(prefix)][prefix]
}

// Replace replaces the API keys whose hashes begin with the same eight bytes. Of several with one hash, the first has it.
func (b *APIKeyIndexBuilder) Replace(hash KeyHash, keys []*APIKey) {
	prefix := hash.prefix()
	shard := b.shards.own(apiKeyShard(prefix))
	if shard[prefix] = keys; len(keys) == 0 {
		delete(shard, prefix)
	}
	if b.alike == nil {
		b.alike = map[uint64]struct{}{}
	}
	if delete(b.alike, prefix); len(keys) > 1 {
		b.alike[prefix] = struct{}{}
	}
}

// Index returns the index as it is now.
func (b *APIKeyIndexBuilder) Index() APIKeyIndex {
	x := APIKeyIndex{shards: b.shards.share()}
	for prefix := range b.alike {
		x.conflicts = append(x.conflicts, conflictsOf(x.alike(prefix))...)
	}
	return x
}

// conflictsOf returns which of the API keys have the hash of one before them.
func conflictsOf(keys []*APIKey) (found []Conflict) {
	for i, k := range keys {
		winner := slices.IndexFunc(keys[:i], func(other *APIKey) bool { return other.SHA256 == k.SHA256 })
		if winner >= 0 {
			found = append(found, Conflict{
				What: ConflictKey, Value: k.ID, Winner: KindAPIKey.Key(keys[winner].ID), Loser: KindAPIKey.Key(k.ID),
			})
		}
	}
	return found
}
