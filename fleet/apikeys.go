package fleet

import (
	"cmp"
	"crypto/subtle"
	"encoding/binary"
	"iter"
	"maps"
	"slices"
)

// apiKeyShards is a power of two. A change of one API key copies the shard that it is in, so of 100 000 API keys it
// copies a few hundred.
const apiKeyShards = 256

// apiKeys holds the good documents of API keys. There may be many more of these than of all other documents together, so
// they are kept apart and decoded, and tables share what has not changed from one to the next.
type apiKeys struct {
	byID   map[string]storedAPIKey
	index  apiKeyIndex
	shared [apiKeyShards]bool  // shards of index that a table has, too; they are copied before they are changed
	alike  map[uint64]struct{} // first bytes that several hashes have
}

type storedAPIKey struct {
	*APIKey
	revision int64
	yields   bool // another document with the same hash goes first
}

// apiKeyIndex finds API keys by their hashes. That of a table is immutable.
type apiKeyIndex struct {
	shards    [apiKeyShards]map[uint64][]*APIKey // by the first eight bytes of the hash; rarely more than one
	conflicts []Conflict                         // documents without effect, since another one has the same hash
}

func newAPIKeys() apiKeys {
	return apiKeys{byID: map[string]storedAPIKey{}, alike: map[uint64]struct{}{}}
}

func firstBytes(sum [32]byte) uint64 { return binary.BigEndian.Uint64(sum[:]) }

// find returns the API key with this hash. Beyond the first eight bytes, hashes are compared in constant time.
func (x *apiKeyIndex) find(sum [32]byte) (*APIKey, bool) {
	first := firstBytes(sum)
	for _, k := range x.shards[first%apiKeyShards][first] {
		if subtle.ConstantTimeCompare(sum[:], k.SHA256[:]) == 1 {
			return k, true
		}
	}
	return nil, false
}

// all returns the API keys in no particular order.
func (x *apiKeyIndex) all() iter.Seq[*APIKey] {
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

func (s *apiKeys) put(k storedAPIKey) {
	s.remove(k.ID)
	s.byID[k.ID] = k
	first := firstBytes(k.SHA256)
	s.change(first, append(slices.Clip(s.index.shards[first%apiKeyShards][first]), k.APIKey))
}

func (s *apiKeys) remove(id string) {
	k, ok := s.byID[id]
	if !ok {
		return
	}
	delete(s.byID, id)
	first := firstBytes(k.SHA256)
	rest := slices.Clone(s.index.shards[first%apiKeyShards][first])
	s.change(first, slices.DeleteFunc(rest, func(other *APIKey) bool { return other.ID == id }))
}

func (s *apiKeys) yield(id string) {
	if k, ok := s.byID[id]; ok {
		k.yields = true
		s.put(k)
	}
}

// change replaces the API keys whose hashes begin with these bytes. The first with a hash has it: those that yield come
// last, and otherwise the order is that of the IDs.
func (s *apiKeys) change(first uint64, to []*APIKey) {
	slices.SortFunc(to, func(a, b *APIKey) int {
		if s.byID[a.ID].yields == s.byID[b.ID].yields {
			return cmp.Compare(a.ID, b.ID)
		}
		if s.byID[b.ID].yields {
			return -1
		}
		return 1
	})
	shard := s.ownShard(first % apiKeyShards)
	if shard[first] = to; len(to) == 0 {
		delete(shard, first)
	}
	if delete(s.alike, first); len(to) > 1 {
		s.alike[first] = struct{}{}
	}
}

// ownShard returns a shard that no table has.
func (s *apiKeys) ownShard(i uint64) map[uint64][]*APIKey {
	switch {
	case s.index.shards[i] == nil:
		s.index.shards[i] = map[uint64][]*APIKey{}
	case s.shared[i]:
		s.index.shards[i] = maps.Clone(s.index.shards[i])
	}
	s.shared[i] = false
	return s.index.shards[i]
}

// share returns the index for a table.
func (s *apiKeys) share() apiKeyIndex {
	for i := range s.shared {
		s.shared[i] = true
	}
	x := s.index
	for first := range s.alike {
		x.conflicts = append(x.conflicts, conflictsOf(x.shards[first%apiKeyShards][first])...)
	}
	return x
}

// conflictsOf returns which of the API keys have the hash of one before them.
func conflictsOf(keys []*APIKey) (found []Conflict) {
	for i, k := range keys {
		winner := slices.IndexFunc(keys[:i], func(other *APIKey) bool { return other.SHA256 == k.SHA256 })
		if winner >= 0 {
			found = append(found, Conflict{
				What: "key", Value: k.ID, Winner: documentKey(KindAPIKey, keys[winner].ID), Loser: documentKey(KindAPIKey, k.ID),
			})
		}
	}
	return found
}

// documentKeys returns the keys of the documents, in any order.
func (s *apiKeys) documentKeys() []string {
	keys := make([]string, 0, len(s.byID))
	for id := range s.byID {
		keys = append(keys, documentKey(KindAPIKey, id))
	}
	return keys
}
