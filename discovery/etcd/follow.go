package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

const (
	relistInterval = 10 * time.Minute
	maxBatch       = 256 // responses that are taken before the clock is read
)

var (
	errWatchTimeout = errors.New("no message within the watch timeout")
	errClosed       = errors.New("the watch was closed")
)

// follower is one round of watching.
type follower struct {
	watcher   *Watcher
	cache     *cache
	streams   []clientv3.Watcher   // one for each kind
	heard     map[string]time.Time // by kind: when its watch last sent anything
	responses chan kindResponse
	buffer    reorderBuffer
}

// follow applies changes after revision until a watch fails, or for relistInterval; then it returns nil.
//
// Each watch has a stream of its own to etcd. The failure of another stream does not end it, and a stream that hangs is left
// behind. And a progress report of etcd covers all watches of a stream. One that was made before a watch was created can arrive
// before that watch's first events, and would wrongly say that they were sent.
func (w *Watcher) follow(ctx context.Context, revision int64, cache *cache) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	f := &follower{
		watcher:   w,
		cache:     cache,
		heard:     map[string]time.Time{},
		responses: make(chan kindResponse, maxBatch),
		buffer:    newReorderBuffer(w.followed(), revision, w.reorderTimeout()),
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, kind := range w.followed() {
		stream := clientv3.NewWatcher(w.config.Client)
		f.streams, f.heard[kind] = append(f.streams, stream), time.Now()
		// Not from revision+1: etcd does not report progress of a watch that begins in the future. Documents of that
		// revision are seen twice, which changes nothing.
		group.Go(func() error { return f.receive(groupCtx, stream, kind, revision) })
	}
	err := f.loop(groupCtx)
	cancel()
	for _, stream := range f.streams {
		_ = stream.Close()
	}
	if failed := group.Wait(); errors.Is(err, context.Canceled) {
		return failed // a receiver ended the round, not the loop
	}
	return err
}

// receive passes the responses of one kind's watch to the loop.
func (f *follower) receive(ctx context.Context, stream clientv3.Watcher, kind string, from int64) error {
	return receive(ctx, watchOf{stream, f.watcher.config.Prefix, kind, from}, func(r clientv3.WatchResponse) {
		select {
		case f.responses <- kindResponse{r, kind}:
		case <-ctx.Done():
		}
	})
}

// watchOf is a watch of a key, or of all below it, from a revision on.
type watchOf struct {
	stream        clientv3.Watcher
	prefix, under string
	from          int64
}

// receive passes the responses of a watch on until it fails, or ctx ends. Events of one revision are in one response: the
// library puts fragments together.
func receive(ctx context.Context, w watchOf, pass func(clientv3.WatchResponse)) error {
	options := append(rangeOptions(w.prefix, w.under), clientv3.WithRev(w.from), clientv3.WithFragment())
	for r := range w.stream.Watch(ctx, w.prefix+w.under, options...) {
		if err := r.Err(); err != nil {
			return fmt.Errorf("the watch of %s failed: %w", w.prefix+w.under, err)
		}
		pass(r)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errClosed
}

func (f *follower) loop(ctx context.Context) error {
	ask := time.NewTicker(f.watcher.callTimeout())
	defer ask.Stop()
	relist := time.NewTimer(relistInterval)
	defer relist.Stop()
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		due.Reset(f.nextWakeup())
		select {
		case r := <-f.responses:
			f.takeBatch(r)
		case <-f.watcher.deadMarked:
			f.publish()
		case <-due.C:
			if f.untilTimeout(time.Now()) <= 0 {
				return errWatchTimeout
			}
			f.requestMissing(ctx)
			if wait, some := f.untilPublish(time.Now()); some && wait <= 0 {
				f.publish()
			}
			f.watcher.documents.logChanges(time.Now())
		case <-ask.C:
			f.requestProgress(ctx)
		case <-relist.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *follower) publish() {
	f.watcher.publish(f.buffer.completeRevision(f.watcher.currentRevision()), f.cache)
}

// requestMissing requests the progress of all watches if an event waits for it, or a staged change.
func (f *follower) requestMissing(ctx context.Context) {
	select {
	case r := <-f.responses: // however late it is, a response that is here counts
		f.takeBatch(r)
	default:
	}
	now := time.Now()
	f.apply(f.buffer.releaseOverdue(now))
	wait, some := f.buffer.nextRequest(now)
	staged, isStaged := f.nextStagedRequest(now)
	if some && wait <= 0 || isStaged && staged <= 0 {
		f.buffer.lastRequest = now
		f.requestProgress(ctx)
	}
}

// untilTimeout returns how long it takes until the first of the watches has been silent for too long.
func (f *follower) untilTimeout(now time.Time) time.Duration {
	first := now
	for _, heard := range f.heard {
		if heard.Before(first) {
			first = heard
		}
	}
	return min(f.watcher.config.WatchTimeout-now.Sub(first), f.untilStagedSilent(now))
}

// nextWakeup returns how long the loop may sleep: until the next table or file is due, or a watch has timed out.
func (f *follower) nextWakeup() time.Duration {
	now := time.Now()
	wait := f.untilTimeout(now)
	if due, some := f.buffer.nextRequest(now); some {
		wait = min(wait, due)
	}
	if due, some := f.untilPublish(now); some {
		wait = min(wait, due)
	}
	if due, some := f.watcher.documents.changes.due(now); some {
		wait = min(wait, due.Sub(now))
	}
	if due, some := f.nextStagedRequest(now); some {
		wait = min(wait, due)
	}
	return max(wait, 0)
}

// untilPublish returns how long to wait before the next table or file is due; some is false if nothing is to be published.
func (f *follower) untilPublish(now time.Time) (wait time.Duration, some bool) {
	w := f.watcher
	if w.documents.changed {
		return w.pacer.due().Sub(now), true
	}
	return f.cache.untilDue(now)
}

// requestProgress makes live watches send something. A failure of its own does not matter: the watch times out then.
func (f *follower) requestProgress(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, f.watcher.callTimeout())
	defer cancel()
	for _, stream := range f.streams {
		_ = stream.RequestProgress(ctx)
	}
}

// takeBatch takes a response, and those behind it in the channel.
func (f *follower) takeBatch(r kindResponse) {
	for range maxBatch {
		f.take(r)
		select {
		case r = <-f.responses:
			continue
		default:
		}
		break
	}
}

func (f *follower) take(r kindResponse) {
	now := time.Now()
	f.heard[r.kind] = now
	f.watcher.extendStaged(r.kind, now)
	f.apply(f.buffer.add(r, now))
	f.watcher.noteContact(max(f.watcher.currentRevision(), r.Header.Revision))
}

func (f *follower) apply(events []bufferedEvent) {
	now, documents := time.Now(), f.watcher.documents
	for _, event := range events {
		documents.beginRevision(event.Kv.ModRevision, now)
		switch key := strings.TrimPrefix(string(event.Kv.Key), f.watcher.config.Prefix); {
		case isStaged(key):
			f.watcher.applyStaged(newStored(key, event.Kv), event.Type == clientv3.EventTypeDelete, now)
		case isHistory(key):
			documents.takeHistory(newStored(key, event.Kv))
		case event.Type == clientv3.EventTypeDelete:
			documents.remove(key, event.Kv.ModRevision, now)
			documents.noteRevision(key, event.Kv.ModRevision)
		default:
			documents.put(newStored(key, event.Kv), now)
			documents.noteRevision(key, event.Kv.ModRevision)
		}
	}
	if len(events) > 0 && documents.changed { // a watch begins with events that change nothing
		f.watcher.pacer.change(now)
	}
}

func (w *Watcher) currentRevision() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.revision
}
