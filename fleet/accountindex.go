package fleet

import (
	"cmp"
	"maps"
	"slices"
)

// AccountIndex finds accounts by their names. It is immutable; build one with [AccountIndexBuilder].
type AccountIndex struct {
	shards shards[string, *Account] // by name
	list   []*Account               // sorted by name
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
	return hash % shardCount
}

// AccountIndexBuilder builds one [AccountIndex] after another. They share the shards that do not change between them. The zero value is an empty
// index. It is not safe for concurrent use.
type AccountIndexBuilder struct {
	shards  shardsBuilder[string, *Account]
	list    []*Account          // of the last index
	changed map[string]*Account // since the last index, by name; nil = removed
}

// Clone returns a builder of the same accounts. The two share them until one is changed.
func (b *AccountIndexBuilder) Clone() AccountIndexBuilder {
	b.shards.share()
	c := *b
	c.changed = maps.Clone(b.changed)
	return c
}

// Put adds an account, or replaces the one of its name.
func (b *AccountIndexBuilder) Put(a *Account) {
	b.shards.own(accountShard(a.Name))[a.Name] = a
	b.note(a.Name, a)
}

// Remove removes the account of a name, if there is one.
func (b *AccountIndexBuilder) Remove(name string) {
	i := accountShard(name)
	if _, there := b.shards.shards[i][name]; there {
		delete(b.shards.own(i), name)
		b.note(name, nil)
	}
}

func (b *AccountIndexBuilder) note(name string, a *Account) {
	if b.changed == nil {
		b.changed = map[string]*Account{}
	}
	b.changed[name] = a
}

// Index returns the index as it is now.
func (b *AccountIndexBuilder) Index() AccountIndex {
	if len(b.changed) > 0 {
		b.list, b.changed = b.changedList(), nil
	}
	return AccountIndex{shards: b.shards.share(), list: b.list}
}

// changedList returns the list of the last index with what has changed since. It copies what lies between two changes as a whole.
func (b *AccountIndexBuilder) changedList() []*Account {
	rest, list := b.list, make([]*Account, 0, len(b.list)+len(b.changed))
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
