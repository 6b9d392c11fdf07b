package document

import (
	"maps"
	"slices"

	"colonnade/fleet"
)

// Table builds the table of the good documents. It shares with the last table what has not changed.
func (s *Set) Table() *fleet.Table {
	r := s.resolver()
	rejected := maps.Clone(s.rejected)
	s.putAccounts(r, rejected)
	s.putEndpoints(r, rejected)
	c := fleet.Contents{
		Revision: s.revision, APIKeys: s.apiKeys.index.Index(), Accounts: s.accounts.Index(), Endpoints: s.endpoints.Index(), DefaultPool: r.plain,
	}
	for _, doc := range s.rest() {
		noun, err := r.noun(doc)
		key := doc.key
		if err != nil { // a bug: layers that are valid by themselves are valid together
			rejected[key] = err.rejection(key, s.revision, false)
			continue
		}
		if server, ok := noun.(*fleet.Server); ok && s.yielding[key] {
			c.YieldingServers = append(c.YieldingServers, server)
			continue
		}
		if m, ok := noun.(*fleet.Model); ok && ignoresSteps(doc.tree, m) {
			c.UnusedSteps = append(c.UnusedSteps, m.Name)
		}
		addTo(&c, noun)
	}
	if a, err := r.build(identity{Kind: fleet.KindAccount}, nil); err == nil {
		c.DefaultAccount = *a.(*fleet.Account)
	}
	for _, key := range slices.Sorted(maps.Keys(rejected)) {
		c.Rejected = append(c.Rejected, rejected[key])
	}
	return fleet.NewTable(c)
}

func addTo(c *fleet.Contents, noun any) {
	switch v := noun.(type) {
	case *defaults:
		c.Origins = canonicalOrigins(v.Origins)
	case *fleet.Deletions:
		c.Deletions = v
	case *fleet.FleetLimits:
		c.Limits = *v
	case *fleet.Model:
		c.Models = append(c.Models, v)
	case *fleet.Pool:
		c.Pools = append(c.Pools, v)
	case *fleet.Colo:
		c.Colos = append(c.Colos, v)
	case *fleet.Flow:
		c.Flows = append(c.Flows, v)
	case *fleet.Server:
		c.Servers = append(c.Servers, v)
	case *fleet.EntryNode:
		c.Entries = append(c.Entries, v)
	case *fleet.Worker:
		c.Workers = append(c.Workers, v)
	case *fleet.Capture:
		c.Captures = append(c.Captures, v)
	case *fleet.Sink:
		c.Sinks = append(c.Sinks, v)
	case *fleet.Issuer:
		c.Issuers = append(c.Issuers, v)
	}
}
