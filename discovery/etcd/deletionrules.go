package etcd

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"colonnade/fleet"
)

// Deletions of a group are held back when at least minHeldBack of the operators' documents, and more than half, vanish
// within holdWindow, or when the last one vanishes, see [HoldReason].
const (
	minHeldBack = 3
	holdWindow  = time.Minute
)

// HoldReason says why nodes hold deletions back.
type HoldReason string

// The reasons.
const (
	HoldMost         HoldReason = "more than half"
	HoldLast         HoldReason = "the last"          // of the models, colos, accounts or API keys
	HoldLastPool     HoldReason = "the last pool"     // and a model names one of those that are gone
	HoldLastEndpoint HoldReason = "the last endpoint" // of a pool that a model names, in its colo
)

// message returns the line of the log.
func (r HoldReason) message() string {
	switch r {
	case HoldMost:
		return "too many documents deleted; holding the deletions back until they are confirmed"
	case HoldLastEndpoint:
		return "last endpoint of a pool in use deleted; holding the deletion back until it is confirmed"
	case HoldLastPool:
		return "last pool deleted while a model names it; holding the deletion back until it is confirmed"
	default:
		return "last document of a kind deleted; holding the deletion back until it is confirmed"
	}
}

// HeldGroup is a set of deletions that nodes hold back for one reason.
type HeldGroup struct {
	Group   string // the kind; of endpoints and servers with the colo: "endpoints of ams"
	Reason  HoldReason
	Keys    []string // sorted
	Deleted int      // documents of the group that were deleted, also those that are held back already
	Left    int      // documents of the group that the store still has
}

// HeldBack returns which deletions nodes hold back if some keys are deleted at once from the documents of a store. Nodes also
// count what was deleted within a minute before.
func HeldBack(docs []Stored, deleted []string) []HeldGroup {
	now, newest := time.Now(), int64(0)
	s := newDocumentState(slog.New(slog.DiscardHandler))
	for _, d := range InCreationOrder(docs) {
		s.put(d, now)
		newest = max(newest, d.Revision)
	}
	for _, key := range deleted {
		s.remove(key, newest+1, now)
	}
	return s.holdBack(0, now)
}

// goneGroup is deletions of one group that are not decided yet, or that were not held back within holdWindow.
type goneGroup struct {
	group string
	keys  []string // sorted
}

// goneGroups returns the documents in gone by group, models first: a pool counts as used if a model names it whose deletion is held back.
func (s *documentState) goneGroups() []goneGroup {
	byGroup := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(s.gone)) {
		byGroup[groupOf(key)] = append(byGroup[groupOf(key)], key)
	}
	var groups []goneGroup
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		groups = append(groups, goneGroup{group, byGroup[group]})
	}
	models := func(g goneGroup) bool { return g.group == string(fleet.KindModel) }
	if at := slices.IndexFunc(groups, models); at > 0 {
		groups[0], groups[at] = groups[at], groups[0]
	}
	return groups
}

// reasonToHold decides about the deletions of a group. It is a function of the documents that a node sees, and each node sees all documents
// of a group or none: a colo server sees the endpoints and servers of its colo only, so these are a group for each colo.
func (s *documentState) reasonToHold(g goneGroup, confirmed int64, now time.Time) (HeldGroup, bool) {
	h := HeldGroup{Group: g.group, Keys: g.keys, Left: s.left[g.group]}
	h.Deleted = len(g.keys) + s.recentlyHeld(g.group, confirmed, now)
	switch kind, colo := splitGroup(g.group); {
	case h.Deleted >= minHeldBack && h.Deleted > h.Left:
		h.Reason = HoldMost
	case h.Left == 0 && slices.Contains(lastMatters, kind):
		h.Reason = HoldLast
	case kind == fleet.KindAPIKey:
		h.Reason, h.Keys = HoldLast, s.lastClientKeys(g.keys)
	case h.Left == 0 && kind == fleet.KindPool && s.anyInUse(g.keys):
		h.Reason = HoldLastPool
	case kind == fleet.KindEndpoint:
		h.Reason, h.Keys = HoldLastEndpoint, s.lastEndpoints(colo, g.keys)
	}
	return h, h.Reason != "" && len(h.Keys) > 0
}

// lastMatters are the kinds of which the last document is held back: without it, every request is refused, or every account
// is without its limits.
var lastMatters = []fleet.Kind{fleet.KindModel, fleet.KindColo, fleet.KindAccount}

// lastClientKeys returns those of some deleted API keys without which there is none for requests. Keys of workers are for none, and the loss of one is
// meant to take effect at once.
func (s *documentState) lastClientKeys(gone []string) (last []string) {
	for _, key := range gone {
		if s.gone[key].client {
			last = append(last, key)
		}
	}
	if len(last) == 0 {
		return nil
	}
	for key, k := range s.known {
		if k.absence != deletionPending && s.isClientKey(key) {
			return nil
		}
	}
	return last
}

// isClientKey reports whether a document is an API key for requests.
func (s *documentState) isClientKey(key string) bool {
	k, is := s.nounOf(key, fleet.KindAPIKey).(*fleet.APIKey)
	return is && !k.ForWorkers()
}

// anyInUse reports whether a model in force names one of the pools.
func (s *documentState) anyInUse(pools []string) bool {
	named := s.namedPools()
	return slices.ContainsFunc(pools, func(key string) bool { return named[strings.TrimPrefix(key, string(fleet.KindPool)+"/")] })
}

// namedPools returns the pools that models in force name.
func (s *documentState) namedPools() map[string]bool {
	named := map[string]bool{}
	for key := range s.known {
		if m, ok := s.nounOf(key, fleet.KindModel).(*fleet.Model); ok {
			named[m.Pool] = true
		}
	}
	return named
}

// lastEndpoints returns those of some deleted endpoints of a colo without which a pool that a model names has no endpoint with slots. An
// endpoint whose URL another document has was moved or renamed. An endpoint of concurrency 0, or one that drains, was taken out of service before.
func (s *documentState) lastEndpoints(colo string, gone []string) (last []string) {
	served, urls, named := map[string]bool{}, map[string]bool{}, s.namedPools()
	for key, k := range s.known {
		if e, ok := s.nounOf(key, fleet.KindEndpoint).(*fleet.Endpoint); ok && e.Colo == colo && k.absence != deletionPending {
			urls[e.URL] = true
			served[e.Pool] = served[e.Pool] || e.Serves()
		}
	}
	for _, key := range gone {
		e := s.gone[key].endpoint
		if e != nil && e.Serves() && named[e.Pool] && !served[e.Pool] && !urls[e.URL] {
			last = append(last, key)
		}
	}
	return last
}

// nounOf returns the noun of a document if it is of a kind, else nil.
func (s *documentState) nounOf(key string, kind fleet.Kind) any {
	if kindOf(key) != kind {
		return nil
	}
	return s.docs.Noun(key)
}

// groupOf returns the group in which nodes count a document: its kind, and for endpoints and servers also the colo.
func groupOf(key string) string {
	kind, rest, _ := strings.Cut(key, "/")
	if k := fleet.Kind(kind); k != fleet.KindEndpoint && k != fleet.KindServer {
		return kind
	}
	colo, _, _ := strings.Cut(rest, "/")
	return kind + groupInfix + colo
}

const groupInfix = " of "

// splitGroup returns the kind of a group, and the colo if it is of one.
func splitGroup(group string) (kind fleet.Kind, colo string) {
	name, colo, _ := strings.Cut(group, groupInfix)
	return fleet.Kind(name), colo
}

// groupCounts has the number of documents by group.
type groupCounts map[string]int

func (c groupCounts) total() (n int) {
	for _, of := range c {
		n += of
	}
	return n
}
