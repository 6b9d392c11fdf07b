package fleet

import (
	"cmp"
	"maps"
	"slices"
)

// Table builds the table of the good documents. What did not change since the last table is shared with it.
func (d *Documents) Table() *Table {
	r := d.resolver()
	t := &Table{
		Revision:  d.revision,
		models:    map[string]*Model{},
		aliases:   map[string]*Model{},
		pools:     map[string]*Pool{},
		colos:     map[string]*Colo{},
		servers:   map[string][]*Server{},
		endpoints: map[string]coloEndpoints{},
		accounts:  map[string]*Account{},
		apiKeys:   d.apiKeys.share(),
	}
	rejected := maps.Clone(d.rejected)
	for _, key := range d.inOrder() {
		noun, err := r.noun(d.good[key])
		if err != nil { // a bug: layers that are good alone are good together
			rejected[key] = err.rejection(key, d.revision, false)
			continue
		}
		t.add(noun)
	}
	t.Conflicts = append(t.Conflicts, t.apiKeys.conflicts...)
	t.claimAliases()
	if len(d.yielding) > 0 {
		t.sort()
	}
	t.addPools(r)
	t.plainPool = r.plain
	if a, err := r.build(identity{Kind: KindAccount}, nil); err == nil {
		t.plainAcct = *a.(*Account)
	}
	for _, key := range slices.Sorted(maps.Keys(rejected)) {
		t.Rejected = append(t.Rejected, rejected[key])
	}
	slices.SortStableFunc(t.Conflicts, func(a, b Conflict) int { return cmp.Compare(a.Loser, b.Loser) })
	return t
}

// add files one noun. They come sorted by key, and so by name within their kind; those that yield come last.
func (t *Table) add(noun any) {
	switch v := noun.(type) {
	case *defaultsDocument:
		t.origins = v.Origins
	case *Deletions:
		t.deletions = v
	case *Model:
		t.models[v.Name] = v
		t.modelList = append(t.modelList, v)
		t.maxBody = max(t.maxBody, v.MaxBody)
	case *Pool:
		t.pools[v.Name] = v
	case *Colo:
		t.colos[v.Name] = v
		t.coloList = append(t.coloList, v)
	case *Server:
		t.servers[v.Colo] = append(t.servers[v.Colo], v)
	case *EntryNode:
		t.entries = append(t.entries, v)
	case *Endpoint:
		t.addEndpoint(v)
	case *Account:
		t.accounts[v.Name] = v
		t.acctList = append(t.acctList, v)
	}
}

// sort sorts by name what was filed in the order of claims.
func (t *Table) sort() {
	slices.SortFunc(t.modelList, func(a, b *Model) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(t.coloList, func(a, b *Colo) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(t.acctList, func(a, b *Account) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(t.entries, func(a, b *EntryNode) int { return cmp.Compare(a.Node, b.Node) })
	for _, servers := range t.servers {
		slices.SortFunc(servers, func(a, b *Server) int { return cmp.Compare(a.Node, b.Node) })
	}
	byID := func(a, b *Endpoint) int { return cmp.Compare(a.ID, b.ID) }
	for _, colo := range t.endpoints {
		slices.SortFunc(colo.all, byID)
		for _, endpoints := range colo.byPool {
			slices.SortFunc(endpoints, byID)
		}
	}
}

// addEndpoint leaves out an endpoint whose URL another one of its colo has: two documents would give its slots out
// twice.
func (t *Table) addEndpoint(e *Endpoint) {
	colo := t.endpoints[e.Colo]
	if first, taken := colo.byURL[e.URL]; taken {
		t.conflict("url", e.URL, documentKey(KindEndpoint, e.Colo, first.ID), documentKey(KindEndpoint, e.Colo, e.ID))
		return
	}
	if colo.byPool == nil {
		colo.byPool, colo.byURL = map[string][]*Endpoint{}, map[string]*Endpoint{}
	}
	colo.byURL[e.URL] = e
	colo.all = append(colo.all, e)
	colo.byPool[e.Pool] = append(colo.byPool[e.Pool], e)
	t.endpoints[e.Colo] = colo
}

// claimAliases gives each alias to the first model that wants it, unless a model has it as its name.
func (t *Table) claimAliases() {
	for _, m := range t.modelList {
		for _, alias := range m.Aliases {
			winner, taken := t.Model(alias)
			if !taken {
				t.aliases[alias] = m
			} else if winner != m {
				t.conflict("alias", alias, documentKey(KindModel, winner.Name), documentKey(KindModel, m.Name))
			}
		}
	}
}

func (t *Table) conflict(what, value, winner, loser string) {
	t.Conflicts = append(t.Conflicts, Conflict{What: what, Value: value, Winner: winner, Loser: loser})
}

// addPools adds the pools that are referred to but not described.
func (t *Table) addPools(r resolver) {
	for _, m := range t.modelList {
		t.addPool(r, m.Pool)
	}
	for _, colo := range t.endpoints {
		for pool := range colo.byPool {
			t.addPool(r, pool)
		}
	}
	for name := range t.realtimeOnly() {
		t.pools[name] = r.realtime(t.pools[name])
	}
	for _, name := range slices.Sorted(maps.Keys(t.pools)) {
		t.poolList = append(t.poolList, t.pools[name])
	}
}

// realtimeOnly are the pools that have models, all of them realtime.
func (t *Table) realtimeOnly() map[string]bool {
	only := map[string]bool{}
	for _, m := range t.modelList {
		if m.Type == TypeRealtime {
			only[m.Pool] = true
		}
	}
	for _, m := range t.modelList {
		if m.Type != TypeRealtime {
			delete(only, m.Pool)
		}
	}
	return only
}

func (t *Table) addPool(r resolver, name string) {
	if _, known := t.pools[name]; !known {
		t.pools[name] = r.pool(name)
	}
}
