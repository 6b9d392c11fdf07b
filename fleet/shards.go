package fleet

import "maps"

// shardCount is a power of two. A change of one item copies the shard that it is in, so of 100 000 items it copies a few hundred.
const shardCount = 256

// shards are the parts of a map. The caller says in which part a key is.
type shards[K comparable, V any] [shardCount]map[K]V

// shardsBuilder builds shards of one index after another, which share those that do not change between them. The zero value is empty. It is
// not safe for concurrent use.
type shardsBuilder[K comparable, V any] struct {
	shards shards[K, V]
	shared [shardCount]bool // shards that an earlier index has, too; they are copied before they are changed
}

// share returns the shards as they are now. No shard is changed from then on.
func (b *shardsBuilder[K, V]) share() shards[K, V] {
	for i := range b.shared {
		b.shared[i] = true
	}
	return b.shards
}

// own returns a shard as one that no index has.
func (b *shardsBuilder[K, V]) own(i uint32) map[K]V {
	switch {
	case b.shards[i] == nil:
		b.shards[i] = map[K]V{}
	case b.shared[i]:
		b.shards[i] = maps.Clone(b.shards[i])
	}
	b.shared[i] = false
	return b.shards[i]
}
