package fleet

import (
	"maps"
	"slices"
)

// Table builds the table of the good documents. It shares with the last table what has not changed.
func (d *Set) Table() *Table {
	r := d.resolver()
	c := Contents{Revision: d.revision, APIKeys: d.apiKeys.index.Index(), DefaultPool: r.plain}
	rejected := maps.Clone(d.rejected)
	for _, key := range d.inOrder() {
		noun, err := r.noun(d.good[key])
		if err != nil { // a bug: layers that are valid by themselves are valid together
			rejected[key] = err.rejection(key, d.revision, false)
			continue
		}
		addTo(&c, noun)
	}
	if a, err := r.build(identity{Kind: KindAccount}, nil); err == nil {
		c.DefaultAccount = *a.(*Account)
	}
	for _, key := range slices.Sorted(maps.Keys(rejected)) {
		c.Rejected = append(c.Rejected, rejected[key])
	}
	return NewTable(c)
}

func addTo(c *Contents, noun any) {
	switch v := noun.(type) {
	case *defaults:
		c.Origins = v.Origins
	case *Deletions:
		c.Deletions = v
	case *Model:
		c.Models = append(c.Models, v)
	case *Pool:
		c.Pools = append(c.Pools, v)
	case *Colo:
		c.Colos = append(c.Colos, v)
	case *Server:
		c.Servers = append(c.Servers, v)
	case *EntryNode:
		c.Entries = append(c.Entries, v)
	case *Endpoint:
		c.Endpoints = append(c.Endpoints, v)
	case *Account:
		c.Accounts = append(c.Accounts, v)
	}
}
