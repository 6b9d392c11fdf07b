package fleet

import (
	"cmp"
	"maps"
	"slices"
)

// Contents is the content of a table. All nouns are resolved. Of two that claim one alias or URL, the first in its list
// has it.
type Contents struct {
	Revision int64
	Rejected []Rejection // sorted by key

	Models  []*Model
	Pools   []*Pool // those with a document
	Colos   []*Colo
	Servers []*Server
	// YieldingServers were put by hand, or are about to go: each is left out if its colo has another server.
	YieldingServers []*Server
	Entries         []*EntryNode
	Workers         []*Worker
	Endpoints       EndpointIndex
	Flows           []*Flow
	Accounts        AccountIndex
	APIKeys         APIKeyIndex
	Issuers         []*Issuer
	Captures        []*Capture
	Sinks           []*Sink
	Origins         []string
	Deletions       *Deletions // nil = no document
	Limits          FleetLimits

	// UnusedSteps are the names of models whose documents have steps, and an algorithm that has no use for them.
	UnusedSteps []string

	DefaultPool    Pool    // for pools without a document
	DefaultAccount Account // for accounts without a document
}

// NewTable returns the table of c. It takes over the lists, and sorts them.
func NewTable(c Contents) *Table {
	t := &Table{
		Revision: c.Revision, Rejected: c.Rejected, Conflicts: slices.Clone(c.APIKeys.conflicts),
		models: make(map[string]*Model, len(c.Models)), aliases: map[string]*Model{}, pools: map[string]*Pool{},
		colos: make(map[string]*Colo, len(c.Colos)), servers: make(map[string][]*Server, len(c.Servers)),
		endpoints: c.Endpoints, accounts: c.Accounts,
		flows:       make(map[string]*Flow, len(c.Flows)),
		unusedSteps: c.UnusedSteps, modelList: c.Models, coloList: c.Colos, entries: c.Entries, workers: c.Workers,
		apiKeys: c.APIKeys, issuers: c.Issuers, captures: c.Captures, sinks: c.Sinks, origins: c.Origins, deletions: c.Deletions, limits: c.Limits.rates(),
		defaultPool: c.DefaultPool, defaultAccounts: &defaultAccounts{like: c.DefaultAccount},
	}
	for _, m := range c.Models {
		t.models[m.Name] = m
		t.maxBody = max(t.maxBody, m.MaxBody)
	}
	for _, colo := range c.Colos {
		t.colos[colo.Name] = colo
	}
	for _, s := range c.Servers {
		t.servers[s.Colo] = append(t.servers[s.Colo], s)
	}
	for _, s := range c.YieldingServers {
		t.addYielding(s)
	}
	for _, f := range c.Flows {
		t.flows[f.Model] = f
	}
	for _, colo := range c.Endpoints.colos {
		t.Conflicts = append(t.Conflicts, colo.conflicts...)
	}
	t.claimAliases()
	t.sort()
	t.addPools(c.Pools)
	slices.SortStableFunc(t.Conflicts, func(a, b Conflict) int { return cmp.Compare(a.Loser, b.Loser) })
	return t
}

// sort sorts the lists by name. Most are sorted already.
func (t *Table) sort() {
	slices.SortFunc(t.modelList, func(a, b *Model) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(t.coloList, func(a, b *Colo) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(t.workers, func(a, b *Worker) int { return cmp.Compare(a.Node, b.Node) })
	slices.SortFunc(t.captures, func(a, b *Capture) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(t.sinks, func(a, b *Sink) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(t.issuers, func(a, b *Issuer) int { return cmp.Compare(a.Name, b.Name) })
	for _, servers := range t.servers {
		slices.SortFunc(servers, func(a, b *Server) int { return cmp.Compare(a.Node, b.Node) })
	}
	t.registered = t.servers
}

// addYielding leaves out a server whose colo has another one: a document that a server has not put there itself would get a part of its
// requests.
func (t *Table) addYielding(s *Server) {
	if others := t.servers[s.Colo]; len(others) > 0 {
		t.conflict(ConflictColo, s.Colo, KindServer.Key(s.Colo, others[0].Node), KindServer.Key(s.Colo, s.Node))
		return
	}
	t.servers[s.Colo] = []*Server{s}
}

// WithStoreState returns the table with what is known of the store. Servers whose leases expired are not registered.
func (t *Table) WithStoreState(s StoreState) *Table {
	next := *t
	next.StoreState = s
	next.registered = maps.Clone(t.registered)
	for colo, servers := range next.registered {
		next.registered[colo] = slices.DeleteFunc(slices.Clone(servers), func(server *Server) bool {
			_, expired := slices.BinarySearch(s.ExpiredLeases, KindServer.Key(server.Colo, server.Node))
			return expired
		})
	}
	return &next
}

// WithRejected returns the table with more rejections.
func (t *Table) WithRejected(more []Rejection) *Table {
	next := *t
	next.Rejected = slices.Concat(t.Rejected, more)
	slices.SortStableFunc(next.Rejected, func(a, b Rejection) int { return cmp.Compare(a.Key, b.Key) })
	return &next
}

// claimAliases gives each alias to the first model that claims it, unless it is the name of a model.
func (t *Table) claimAliases() {
	for _, m := range t.modelList {
		for _, alias := range m.Aliases {
			winner, taken := t.Model(alias)
			if !taken {
				t.aliases[alias] = m
			} else if winner != m {
				t.conflict(ConflictAlias, alias, KindModel.Key(winner.Name), KindModel.Key(m.Name))
			}
		}
	}
}

func (t *Table) conflict(what, value, winner, loser string) {
	t.Conflicts = append(t.Conflicts, Conflict{What: what, Value: value, Winner: winner, Loser: loser})
}

// addPools adds the pools with a document, and those that models and endpoints refer to.
func (t *Table) addPools(documented []*Pool) {
	for _, p := range documented {
		t.pools[p.Name] = p
	}
	for _, m := range t.modelList {
		t.pools[m.Pool] = t.Pool(m.Pool)
	}
	for _, colo := range t.endpoints.colos {
		for name := range colo.byPool {
			t.pools[name] = t.Pool(name)
		}
	}
	for name := range t.realtimeOnly() {
		own := *t.pools[name] // documents share pools between tables, and other tables may have other models
		own.Permits.MaxShare = own.Permits.RealtimeShare
		t.pools[name] = &own
	}
	for _, name := range slices.Sorted(maps.Keys(t.pools)) {
		t.poolList = append(t.poolList, t.pools[name])
	}
}

// realtimeOnly returns the pools that have models, all of them of type realtime.
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
