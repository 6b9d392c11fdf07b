package etcd

import (
	"cmp"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// askEvery is how often watches are asked how far they are, at most, while a change waits for what the same transaction
// has changed elsewhere.
const askEvery = 5 * time.Millisecond

// horizon puts together what several watches tell. Each of them tells of its own kind in the order of the store, but
// one may be ahead of the other: so an event waits until all have come as far as it has, and every table is the store
// as it was at one revision. Otherwise a model could be seen to move to another pool before its endpoints do, which one
// transaction moved.
type horizon struct {
	most  time.Duration    // that an event waits for other watches
	heard map[string]int64 // by kind: the revision up to which its watch has told all
	early []early          // events that not all watches have come up to
	asked time.Time        // when the watches were last asked how far they are
}

type early struct {
	*clientv3.Event
	since time.Time
}

// response is what the watch of one kind says.
type response struct {
	clientv3.WatchResponse
	kind string
}

func newHorizon(kinds []string, revision int64, most time.Duration) horizon {
	h := horizon{most: most, heard: map[string]int64{}}
	for _, kind := range kinds {
		h.heard[kind] = revision
	}
	return h
}

// take returns the events that r completes, in the order of the store.
func (h *horizon) take(r response, now time.Time) []early {
	told := r.Header.Revision
	for _, event := range r.Events {
		h.early = append(h.early, early{event, now})
		told = event.Kv.ModRevision
	}
	h.heard[r.kind] = max(h.heard[r.kind], told)
	reached := told
	for _, revision := range h.heard {
		reached = min(reached, revision)
	}
	return h.upTo(reached)
}

// upTo takes out the events up to a revision.
func (h *horizon) upTo(revision int64) []early {
	slices.SortStableFunc(h.early, func(a, b early) int { return cmp.Compare(a.Kv.ModRevision, b.Kv.ModRevision) })
	n := 0
	for n < len(h.early) && h.early[n].Kv.ModRevision <= revision {
		n++
	}
	taken := h.early[:n:n]
	h.early = h.early[n:]
	return taken
}

// overdue takes out everything if the first of it has waited long enough: a watch that does not say how far it is holds
// up nobody for long.
func (h *horizon) overdue(now time.Time) []early {
	if len(h.early) == 0 || now.Sub(h.early[0].since) < h.most {
		return nil
	}
	taken := h.early
	h.early = nil
	return taken
}

// untilDue returns when to look again, if anything waits.
func (h *horizon) untilDue(now time.Time) (time.Duration, bool) {
	return askEvery - now.Sub(h.asked), len(h.early) > 0
}

// revision is that of the store as far as all of it is known, of what was heard.
func (h *horizon) revision(heard int64) int64 {
	if len(h.early) > 0 {
		return min(heard, h.early[0].Kv.ModRevision-1)
	}
	return heard
}
