package document

import "maps"

// Clone returns a set with the same documents, which changes by itself. Tables of both share what is the same in them.
func (s *Set) Clone() *Set {
	c := *s
	c.good = make(map[string]*parsed, len(s.good))
	for key, doc := range s.good { // each has a cache that depends on the other documents of its set
		own := *doc
		c.good[key] = &own
	}
	c.apiKeys = apiKeys{byID: maps.Clone(s.apiKeys.byID), index: s.apiKeys.index.Clone()}
	c.rejected, c.yielding = maps.Clone(s.rejected), maps.Clone(s.yielding)
	c.claims.byKey = maps.Clone(s.claims.byKey)
	c.groups, c.changedAccounts = s.cloneGroups(c.good), maps.Clone(s.changedAccounts)
	c.endpoints, c.accounts = s.endpoints.Clone(), s.accounts.Clone()
	return &c
}
