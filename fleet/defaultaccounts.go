package fleet

import "sync/atomic"

// defaultAccounts makes the accounts without a document, which have the defaults. It keeps those that were asked for last, one for each shard of
// names, since each request asks for one.
type defaultAccounts struct {
	like Account
	last [shardCount]atomic.Pointer[Account] // by [accountShard]
}

func (d *defaultAccounts) of(name string) *Account {
	last := &d.last[accountShard(name)]
	if a := last.Load(); a != nil && a.Name == name {
		return a
	}
	a := d.like
	a.Name = name
	last.Store(&a)
	return &a
}
