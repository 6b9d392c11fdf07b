package main

import (
	"fmt"
	"maps"
	"slices"

	"colonnade/fleet"
)

// deletionWays says at which revisions documents were deleted, and by whom, if that is known.
type deletionWays struct{ byRevision map[int64]string }

func (w *deletionWays) add(held []fleet.HeldDeletion) {
	if w.byRevision == nil {
		w.byRevision = map[int64]string{}
	}
	for _, h := range held {
		if w.byRevision[h.Revision] == "" { // a node that was away does not know the author
			w.byRevision[h.Revision] = h.By
		}
	}
}

// String returns the end of a sentence about the deletions; empty if nothing is known.
func (w deletionWays) String() string {
	var ways []string
	for _, revision := range slices.Sorted(maps.Keys(w.byRevision)) {
		by := w.byRevision[revision]
		if by == "" {
			by = "an unknown program"
		}
		ways = append(ways, fmt.Sprintf("at revision %d by %s", revision, by))
	}
	if len(ways) == 0 {
		return ""
	}
	return "; deleted " + firstOf(ways)
}
