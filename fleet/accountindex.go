package fleet

import (
	"cmp"
	"maps"
	"slices"
)

// accountShards is a power of two. A change of one account copies the shard that it is in, so of 100 000 accounts it copies a few hundred.
const accountShards = 256

// AccountIndex finds accounts by their names. It is immutable; build one with [AccountIndexBuilder].
type AccountIndex struct {
	shards [accountShards]map[string]*Account // by name
	list   []*Account                         // sorted by name
}

// NewAccountIndex returns an index of these accounts.
func NewAccountIndex(accounts []*Account) AccountIndex {
	var b AccountIndexBuilder
	for _, a := range accounts {
		b.Put(a)
	}
	return b.Index()
}

func (x *AccountIndex) find(name string) (*Account, bool) {
	a, ok := x.shards[accountShard(name)][name]
	return a, ok
}

// accountShard returns the shard of a name, by the hash FNV-1a.
func accountShard(name string) uint32 {
	hash := uint32(2166136261)
	for i := range len(name) {
		hash = (hash ^ uint32(name[i])) * 16777619
	}
	return hash % accountShards
}

// AccountIndexBuilder builds one [AccountIndex] after another. They share the shards that do not change between them. The zero value is an empty
// index. It is not safe for concurrent use.
type AccountIndexBuilder struct {
	index   AccountIndex
	shared  [accountShards]bool // shards that an earlier index has, too; they are copied before they are changed
	changed map[string]*Account // since the last index, by name; nil = removed
}

// Clone returns a builder of the same accounts. The two share them until one is changed.
func (b *AccountIndexBuilder) Clone() AccountIndexBuilder {
	for i := range b.shared {
		b.shared[i] = true
	}
	c := *b
	c.changed = maps.Clone(b.changed)
	return c
}

// Put adds an account, or replaces the one of its name.
func (b *AccountIndexBuilder) Put(a *Account) {
	b.ownShard(a.Name)[a.Name] = a
	b.note(a.Name, a)
}

// Remove removes the account of a name, if there is one.
func (b *AccountIndexBuilder) Remove(name string) {
	if _, there := b.index.find(name); there {
		delete(b.ownShard(name), name)
		b.note(name, nil)
	}
}

func (b *AccountIndexBuilder) note(name string, a *Account) {
	if b.changed == nil {
		b.changed = map[string]*Account{}
	}
	b.changed[name] = a
}

// ownShard returns the shard of a name as one that no index has.
func (b *AccountIndexBuilder) ownShard(name string) map[string]*Account {
	i := accountShard(name)
	switch {
	case b.index.shards[i] == nil:
		b.index.shards[i] = map[string]*Account{}
	case b.shared[i]:
		b.index.shards[i] = maps.Clone(b.index.shards[i])
	}
	b.shared[i] = false
	return b.index.shards[i]
}

// Index returns the index as it is now.
func (b *AccountIndexBuilder) Index() AccountIndex {
	for i := range b.shared {
		b.shared[i] = true
	}
	if len(b.changed) > 0 {
		b.index.list = b.changedList()
		b.changed = nil
	}
	return b.index
}

// changedList returns the list of the last index with what has changed since. It copies what lies between two changes as a whole.
func (b *AccountIndexBuilder) changedList() []*Account {
	rest, list := b.index.list, make([]*Account, 0, len(b.index.list)+len(b.changed))
	for _, name := range slices.Sorted(maps.Keys(b.changed)) {
		at, found := slices.BinarySearchFunc(rest, name, func(a *Account, name string) int { return cmp.Compare(a.Name, name) })
		list = append(list, rest[:at]...)
		if rest = rest[at:]; found {
			rest = rest[1:]
		}
		if a := b.changed[name]; a != nil {
			list = append(list, a)
		}
	}
	return append(list, rest...)
}
