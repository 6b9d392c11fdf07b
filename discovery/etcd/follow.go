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
	relistEvery = 10 * time.Minute
	maxBatch    = 256 // responses that go into one table
)

var (
	errSilent = errors.New("the watch has gone silent")
	errClosed = errors.New("the watch was closed")
)

// follower is one round of watching.
type follower struct {
	watcher   *Watcher
	cache     *cache
	etcd      clientv3.Watcher
	responses chan clientv3.WatchResponse
}

// follow applies changes after revision until the watch fails, or for relistEvery; then it returns nil. It has a stream of its
// own to etcd, so that nobody else's trouble ends it and a stream that hangs is left behind.
func (w *Watcher) follow(ctx context.Context, revision int64, cache *cache) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	f := &follower{
		watcher:   w,
		cache:     cache,
		etcd:      clientv3.NewWatcher(w.config.Client),
		responses: make(chan clientv3.WatchResponse, maxBatch),
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, kind := range w.wanted() {
		// Not from revision+1: etcd answers no question for progress of a watch that begins in the future. What stands at
		// revision is seen twice, and the second time changes nothing.
		group.Go(func() error { return f.receive(groupCtx, kind, revision) })
	}
	err := f.loop(groupCtx)
	cancel()
	_ = f.etcd.Close()
	if failed := group.Wait(); errors.Is(err, context.Canceled) {
		return failed // a receiver ended the round, not the loop
	}
	return err
}

// receive passes on what the watch of one kind says.
func (f *follower) receive(ctx context.Context, kind string, from int64) error {
	options := append(f.watcher.span(kind), clientv3.WithRev(from), clientv3.WithFragment())
	for r := range f.etcd.Watch(ctx, f.watcher.config.Prefix+kind, options...) {
		if err := r.Err(); err != nil {
			return fmt.Errorf("the watch of %s failed: %w", f.watcher.config.Prefix+kind, err)
		}
		select {
		case f.responses <- r:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errClosed
}

func (f *follower) loop(ctx context.Context) error {
	ask := time.NewTicker(f.watcher.callTimeout())
	defer ask.Stop()
	relist := time.NewTimer(relistEvery)
	defer relist.Stop()
	for {
		select {
		case r := <-f.responses:
			f.takeBatch(r)
		case <-ask.C:
			if f.watcher.silentFor() > f.watcher.config.Silence*5/6 { // three questions went without an answer
				return errSilent
			}
			f.askProgress(ctx)
		case <-relist.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// askProgress makes a live watch say something. Its failure needs no look: silence is what counts.
func (f *follower) askProgress(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, f.watcher.callTimeout())
	defer cancel()
	_ = f.etcd.RequestProgress(ctx)
}

// takeBatch takes a response, and those that wait behind it, into one table: a storm of changes costs few tables.
func (f *follower) takeBatch(r clientv3.WatchResponse) {
	for range maxBatch {
		f.take(r)
		select {
		case r = <-f.responses:
			continue
		default:
		}
		break
	}
	f.watcher.publish(f.watcher.heardRevision(), f.cache)
}

func (f *follower) take(r clientv3.WatchResponse) {
	for _, event := range r.Events {
		key := strings.TrimPrefix(string(event.Kv.Key), f.watcher.config.Prefix)
		if event.Type == clientv3.EventTypeDelete {
			f.watcher.remove(key, event.Kv.ModRevision)
		} else {
			f.watcher.put(key, event.Kv.Value, event.Kv.ModRevision)
		}
	}
	f.watcher.hear(max(f.watcher.heardRevision(), r.Header.Revision))
}

func (w *Watcher) heardRevision() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.revision
}
