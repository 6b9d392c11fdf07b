package etcd

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// progressInterval is the least time between two progress requests, while a change waits for the other watches.
const progressInterval = 5 * time.Millisecond

// reorderBuffer puts the events of several watches into the order of the store. Each watch reports its own kind in that
// order, but one may be ahead of another. An event waits until all watches have reached its revision, so that every table is
// the store as it was at one revision. Otherwise a table could show a model in its new pool before the pool's endpoints,
// although one transaction moved both.
type reorderBuffer struct {
	maxWait     time.Duration    // of an event for other watches
	progress    map[string]int64 // by kind: the revision up to which its watch has reported everything
	events      []bufferedEvent  // those that not all watches have reached
	lastRequest time.Time        // for progress
}

type bufferedEvent struct {
	*clientv3.Event
	since time.Time
}

// kindResponse is a response of the watch of one kind.
type kindResponse struct {
	clientv3.WatchResponse
	kind string
}

func newReorderBuffer(kinds []string, revision int64, maxWait time.Duration) reorderBuffer {
	b := reorderBuffer{maxWait: maxWait, progress: map[string]int64{}}
	for _, kind := range kinds {
		b.progress[kind] = revision
	}
	return b
}

// add takes a response, and returns the events that are complete by it, in the order of the store.
func (b *reorderBuffer) add(r kindResponse, now time.Time) []bufferedEvent {
	newest := r.Header.Revision
	for _, event := range r.Events {
		b.events = append(b.events, bufferedEvent{event, now})
		newest = event.Kv.ModRevision
	}
	b.progress[r.kind] = max(b.progress[r.kind], newest)
	reached := newest
	for _, revision := range b.progress {
		reached = min(reached, revision)
	}
	return b.releaseUpTo(reached)
}

// releaseUpTo takes out the events up to a revision.
func (b *reorderBuffer) releaseUpTo(revision int64) []bufferedEvent {
	slices.SortStableFunc(b.events, func(x, y bufferedEvent) int { // within a transaction as in a list
		return cmp.Or(cmp.Compare(x.Kv.ModRevision, y.Kv.ModRevision), bytes.Compare(x.Kv.Key, y.Kv.Key))
	})
	n := 0
	for n < len(b.events) && b.events[n].Kv.ModRevision <= revision {
		n++
	}
	released := b.events[:n:n]
	b.events = b.events[n:]
	return released
}

// releaseOverdue takes out all events if the first has waited for maxWait: a watch that does not report its progress delays
// the others no longer than that.
func (b *reorderBuffer) releaseOverdue(now time.Time) []bufferedEvent {
	if len(b.events) == 0 || now.Sub(b.events[0].since) < b.maxWait {
		return nil
	}
	released := b.events
	b.events = nil
	return released
}

// nextRequest returns how long to wait before progress is requested again; ok is false if no event waits.
func (b *reorderBuffer) nextRequest(now time.Time) (wait time.Duration, ok bool) {
	return progressInterval - now.Sub(b.lastRequest), len(b.events) > 0
}

// completeRevision returns the revision up to which all events were released, of the newest that was seen.
func (b *reorderBuffer) completeRevision(newest int64) int64 {
	if len(b.events) > 0 {
		return min(newest, b.events[0].Kv.ModRevision-1)
	}
	return newest
}
