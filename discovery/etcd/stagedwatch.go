package etcd

import (
	"context"
	"math"
	"time"
)

// While a change is staged, etcd is asked for a sign of life each fifth of its TTL, and its watch is dead after two thirds of it, so that there
// is time for a list before the node has to withdraw the change by its own clock.
const (
	stagedRequests = 5
	stagedSilence  = 2.0 / 3
)

// stagedWatch returns the watch that reports the change staged on this node.
func (w *Watcher) stagedWatch() string {
	if len(w.config.Kinds) == 0 {
		return ""
	}
	return w.config.Staged
}

// applyStaged takes an event of a staged change, if that is the one of this node.
func (w *Watcher) applyStaged(d Stored, deleted bool, now time.Time) {
	switch {
	case d.Key != w.config.Staged:
	case deleted:
		w.documents.withdrawStaged("its command has ended, or has lost its lease")
	default:
		w.documents.takeStaged(d, w.Watches, now)
	}
}

// takeListedStaged takes the staged change of a list that began at a time, or withdraws the one that the list lacks.
func (w *Watcher) takeListedStaged(listed []Stored, began time.Time) {
	for _, d := range listed {
		if d.Key == w.config.Staged {
			w.documents.takeStaged(d, w.Watches, began)
			return
		}
	}
	w.documents.withdrawStaged("etcd does not have it any more")
}

// extendStaged notes that a watch has sent something.
func (w *Watcher) extendStaged(watch string, now time.Time) {
	if w.documents.staged != nil && watch == w.stagedWatch() {
		w.documents.staged.extend(now)
	}
}

// listWhileStaged lists, but no longer than a staged change may stay in force without a sign of life of etcd.
func (w *Watcher) listWhileStaged(ctx context.Context) (int64, error) {
	if w.documents.staged != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, w.documents.staged.until)
		defer cancel()
	}
	return w.list(ctx)
}

// withdrawLapsed withdraws a staged change whose lease may have expired, since etcd has not sent anything for that long. The table is the last
// one without it: documents may be in a list that has failed in the middle.
func (w *Watcher) withdrawLapsed(now time.Time) bool {
	if w.documents.staged == nil || now.Before(w.documents.staged.until) {
		return false
	}
	w.documents.withdrawStaged("etcd has been silent for as long as its lease lasts")
	t := *w.documents.withoutStaged
	w.swap(&t, w.Table().Revision, now)
	return true
}

// untilStagedSilent returns how long it takes until the watch of the staged change has been silent for too long.
func (f *follower) untilStagedSilent(now time.Time) time.Duration {
	o := f.watcher.documents.staged
	if o == nil {
		return math.MaxInt64
	}
	limit := time.Duration(float64(o.ttl()) * stagedSilence)
	return limit - now.Sub(f.heard[f.watcher.stagedWatch()])
}

// nextStagedRequest returns how long to wait before the watch of a staged change is asked for a sign of life; ok is false without one.
func (f *follower) nextStagedRequest(now time.Time) (wait time.Duration, ok bool) {
	o := f.watcher.documents.staged
	if o == nil {
		return 0, false
	}
	last := f.buffer.lastRequest
	if heard := f.heard[f.watcher.stagedWatch()]; heard.After(last) {
		last = heard
	}
	return o.ttl()/stagedRequests - now.Sub(last), true
}
