package etcd

import (
	"cmp"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// progressInterval is how often watches are asked how far they are, at most, while a change waits for what the same transaction
// has changed elsewhere.
const progressInterval = 5 * time.Millisecond

// reorderBuffer puts together what several watches tell. Each of them tells of its own kind in the order of the store, but
// one may be ahead of the other: so an event waits until all have come as far as it has, and every table is the store
// as it was at one revision. Otherwise a model could be seen to move to another pool before its endpoints do, which one
// transaction moved.
type reorderBuffer struct {
	maxWait     time.Duration    // that an event waits for other watches
	progress    map[string]int64 // by kind: the revision up to which its watch has told all
	events      []bufferedEvent  // events that not all watches have come up to
	lastRequest time.Time        // when the watches were last asked how far they are
}

type bufferedEvent struct {
	*clientv3.Event
	since time.Time
}

// kindResponse is what the watch of one kind says.
type kindResponse struct {
	clientv3.WatchResponse
	kind string
}

func newReorderBuffer(kinds []string, revision int64, most time.Duration) reorderBuffer {
	h := reorderBuffer{maxWait: most, progress: map[string]int64{}}
	for _, kind := range kinds {
		h.progress[kind] = revision
	}
	return h
}

// add returns the events that r completes, in the order of the store.
func (h *reorderBuffer) add(r kindResponse, now time.Time) []bufferedEvent {
	told := r.Header.Revision
	for _, event := range r.Events {
		h.events = append(h.events, bufferedEvent{event, now})
		told = event.Kv.ModRevision
	}
	h.progress[r.kind] = max(h.progress[r.kind], told)
	reached := told
	for _, revision := range h.progress {
		reached = min(reached, revision)
	}
	return h.releaseUpTo(reached)
}

// releaseUpTo takes out the events up to a revision.
func (h *reorderBuffer) releaseUpTo(revision int64) []bufferedEvent {
	slices.SortStableFunc(h.events, func(a, b bufferedEvent) int { return cmp.Compare(a.Kv.ModRevision, b.Kv.ModRevision) })
	n := 0
	for n < len(h.events) && h.events[n].Kv.ModRevision <= revision {
		n++
	}
	taken := h.events[:n:n]
	h.events = h.events[n:]
	return taken
}

// releaseOverdue takes out everything if the first of it has waited long enough: a watch that does not say how far it is holds
// up nobody for long.
func (h *reorderBuffer) releaseOverdue(now time.Time) []bufferedEvent {
	if len(h.events) == 0 || now.Sub(h.events[0].since) < h.maxWait {
		return nil
	}
	taken := h.events
	h.events = nil
	return taken
}

// nextRequest returns when to look again, if anything waits.
func (h *reorderBuffer) nextRequest(now time.Time) (time.Duration, bool) {
	return progressInterval - now.Sub(h.lastRequest), len(h.events) > 0
}

// completeRevision is that of the store as far as all of it is known, of what was heard.
func (h *reorderBuffer) completeRevision(heard int64) int64 {
	if len(h.events) > 0 {
		return min(heard, h.events[0].Kv.ModRevision-1)
	}
	return heard
}
