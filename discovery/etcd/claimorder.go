package etcd

import (
	"cmp"
	"slices"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// InCreationOrder returns documents in the order in which their keys were created, those of one transaction by key. A set
// into which they are put in this order gives a URL that two endpoints claim to the same one as nodes do that know nothing
// but the store.
func InCreationOrder(docs []Stored) []Stored {
	return slices.SortedStableFunc(slices.Values(docs), func(a, b Stored) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Key, b.Key))
	})
}

// inClaimOrder returns listed documents in the order in which other nodes, which followed the store meanwhile, have seen them
// claim what they claim: when the key was created, or when a known document was changed. Only of a document that was created
// and then changed to claim something else, a list does not say when that was.
func (s *documentState) inClaimOrder(listed []Stored) []Stored {
	claimed := func(d Stored) int64 {
		if k, known := s.known[d.Key]; known && k.created > 0 && !k.deletedBefore(d) {
			return d.Revision
		}
		return d.Created
	}
	return slices.SortedStableFunc(slices.Values(listed), func(a, b Stored) int {
		return cmp.Or(cmp.Compare(claimed(a), claimed(b)), cmp.Compare(a.Key, b.Key))
	})
}

// PutInto puts a document into a set. A server without a lease was put by hand, and yields its colo to a registered one.
func (d Stored) PutInto(set *document.Set) error {
	err := set.Put(d.Key, d.Value, d.Revision)
	if !d.Leased && kindOf(d.Key) == fleet.KindServer {
		set.Yield(d.Key)
	}
	return err
}
