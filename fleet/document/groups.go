package document

import (
	"cmp"
	"maps"
	"slices"

	"colonnade/fleet"
)

// group has documents that are put into a table together: the endpoints of one colo, or all documents that are neither endpoints, accounts nor
// API keys. A change of one leaves the order and the nouns of the other groups as they are.
type group struct {
	docs    map[string]*parsed // by key
	order   []*parsed          // what inOrder returns; nil = to be computed anew
	changed bool               // since the last table
}

// groupName names the group of a document: the colo of an endpoint, else "". Accounts are in none.
func groupName(id identity) string {
	if id.Kind == fleet.KindEndpoint {
		return id.Colo
	}
	return ""
}

// change notes that a document was put, has another place in the order, or is built on a layer that was put.
func (s *Set) change(doc *parsed, sameOrder bool) {
	if doc.id.Kind == fleet.KindAccount {
		s.changedAccounts[doc.id.Name] = true
		return
	}
	g := s.groups[groupName(doc.id)]
	if g == nil {
		g = &group{docs: map[string]*parsed{}}
		s.groups[groupName(doc.id)] = g
	}
	if g.changed = true; !sameOrder {
		g.order = nil
	} else if g.order != nil && g.docs[doc.key] != doc {
		g.order[slices.Index(g.order, g.docs[doc.key])] = doc
	}
	g.docs[doc.key] = doc
}

// drop notes that a document was deleted.
func (s *Set) drop(doc *parsed) {
	if doc.id.Kind == fleet.KindAccount {
		s.changedAccounts[doc.id.Name] = true
		return
	}
	g := s.groups[groupName(doc.id)]
	delete(g.docs, doc.key)
	g.order, g.changed = nil, true
}

// reorder notes that a document has another place in the order.
func (s *Set) reorder(key string) {
	if doc, ok := s.good[key]; ok {
		s.change(doc, false)
	}
}

// inOrder returns the documents of a group in the order in which they claim: by name, or in the order of their claims, and in both
// cases those that yield last.
func (s *Set) inOrder(g *group) []*parsed {
	if g.order != nil {
		return g.order
	}
	type place struct {
		yields bool
		claim  uint64 // 0 = none
		doc    *parsed
	}
	places := make([]place, 0, len(g.docs))
	for key, doc := range g.docs {
		places = append(places, place{s.yielding[key], s.Claim(key), doc})
	}
	slices.SortFunc(places, func(a, b place) int {
		switch {
		case a.yields != b.yields && a.yields:
			return 1
		case a.yields != b.yields:
			return -1
		}
		return cmp.Or(cmp.Compare(a.claim, b.claim), cmp.Compare(a.doc.key, b.doc.key))
	})
	g.order = make([]*parsed, 0, len(places))
	for _, p := range places {
		g.order = append(g.order, p.doc)
	}
	return g.order
}

// rest returns the documents that are neither endpoints, accounts nor API keys, in order.
func (s *Set) rest() []*parsed {
	if g := s.groups[""]; g != nil {
		return s.inOrder(g)
	}
	return nil
}

// cloneGroups returns the groups of other documents with the same keys.
func (s *Set) cloneGroups(good map[string]*parsed) map[string]*group {
	groups := make(map[string]*group, len(s.groups))
	for name, g := range s.groups {
		docs := make(map[string]*parsed, len(g.docs))
		for key := range g.docs {
			docs[key] = good[key]
		}
		groups[name] = &group{docs: docs, changed: g.changed}
	}
	return groups
}

// forget drops the nouns that were built on a layer that has changed, from one version of a document to another; nil = there is none.
func (s *Set) forget(before, after *parsed) {
	switch id := cmp.Or(after, before).id; {
	case id.Kind == fleet.KindDefaults:
		for _, doc := range s.good {
			if k := doc.id.Kind; k == fleet.KindModel || k == fleet.KindPool || k == fleet.KindEndpoint {
				doc.built = nil
				s.change(doc, true)
			}
		}
	case id.Kind == fleet.KindPool && perEndpoint(before) != perEndpoint(after):
		s.forgetEndpoints(id.Name)
	}
}

// forgetEndpoints drops the nouns of the endpoints of a pool.
func (s *Set) forgetEndpoints(pool string) {
	for name, g := range s.groups {
		if name == "" {
			continue
		}
		for _, doc := range g.docs {
			if doc.tree["pool"] == pool {
				doc.built, g.changed = nil, true
			}
		}
	}
}

// perEndpoint returns what a version of a pool's document says that its endpoints are built on; 0 = nothing.
func perEndpoint(pool *parsed) int64 {
	if pool == nil {
		return 0
	}
	permits, _ := pool.tree["permits"].(map[string]any)
	n, _ := permits["per_endpoint"].(int64)
	return n
}

// putAccounts brings the accounts of the index to their newest versions. Those that cannot be built are tried again for the next table.
func (s *Set) putAccounts(r resolver, rejected map[string]fleet.Rejection) {
	for _, name := range slices.Collect(maps.Keys(s.changedAccounts)) {
		key := fleet.KindAccount.Key(name)
		doc, ok := s.good[key]
		if !ok {
			s.accounts.Remove(name)
			delete(s.changedAccounts, name)
			continue
		}
		noun, err := r.noun(doc)
		if err != nil {
			rejected[key] = err.rejection(key, s.revision, false)
			s.accounts.Remove(name)
			continue
		}
		s.accounts.Put(noun.(*fleet.Account))
		delete(s.changedAccounts, name)
	}
}

// putEndpoints brings the endpoints of the colos that have changed to their newest versions.
func (s *Set) putEndpoints(r resolver, rejected map[string]fleet.Rejection) {
	for colo, g := range s.groups {
		if colo == "" || !g.changed {
			continue
		}
		g.changed = false
		endpoints := make([]*fleet.Endpoint, 0, len(g.docs))
		for _, doc := range s.inOrder(g) {
			noun, err := r.noun(doc)
			if err != nil {
				rejected[doc.key], g.changed = err.rejection(doc.key, s.revision, false), true
				continue
			}
			endpoints = append(endpoints, noun.(*fleet.Endpoint))
		}
		s.endpoints.Replace(colo, endpoints)
		if len(g.docs) == 0 {
			delete(s.groups, colo)
		}
	}
}
