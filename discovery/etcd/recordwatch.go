package etcd

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/homes"
)

// recordView has the records at one revision of the store, as Run knows them.
type recordView struct {
	records  *Records
	stored   map[homes.Process]storedRecord
	listed   int64 // revision of the last list
	revision int64 // of the newest change that was observed
	failing  bool  // the last list failed, and that was logged
}

// Run follows the records until ctx ends; then it returns nil. It must be called once. Like [Watcher.Run] it works in rounds: a
// list, and a watch from its revision on until that fails, or is silent for too long.
func (r *Records) Run(ctx context.Context) error {
	if r.config.Client == nil || r.config.Prefix == "" || r.config.Colo == "" {
		return errors.New("cannot follow the records: RecordsConfig needs a Client, a Prefix and a Colo")
	}
	v := recordView{records: r}
	backoff := minBackoff
	for {
		started := time.Now()
		err := v.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil || time.Since(started) > 2*maxBackoff {
			backoff = minBackoff
		}
		if err == nil {
			continue // it is time for another list
		}
		v.logFailure(ctx, err)
		r.sleep(ctx, backoff/2+rand.N(backoff))
		backoff = min(2*backoff, maxBackoff)
	}
}

// sleep waits for d, or until another list is requested.
func (r *Records) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.relist:
	case <-ctx.Done():
	}
}

func (v *recordView) round(ctx context.Context) error {
	if err := v.list(ctx); err != nil {
		return err
	}
	v.failing = false
	return v.follow(ctx)
}

// logFailure logs the end of a watch, and the beginning of an outage.
func (v *recordView) logFailure(ctx context.Context, err error) {
	level := slog.LevelInfo
	if v.failing {
		level = slog.LevelDebug
	}
	v.failing = true
	v.records.config.Logger.Log(ctx, level, "cannot follow the records of the colo; listing them again", "error", err)
}

// list reads all records at one revision, and observes them as one change.
func (v *recordView) list(ctx context.Context) error {
	r := v.records
	select {
	case <-r.relist: // this list is the requested one
	default:
	}
	before := r.newestRevision()
	l := lister{client: r.config.Client, prefix: r.config.Prefix, timeout: r.callTimeout()}
	if err := l.under(ctx, r.relativePrefix()); err != nil {
		return err
	}
	r.sawRevision(before, l.revision)
	var order []homes.Process
	v.stored, order = storedRecords(l.found, r.relativePrefix())
	change := homes.Change{Revision: l.revision, Listed: true, Restored: r.takeRestored() || l.revision < v.revision}
	if change.Restored {
		r.config.Logger.Warn("etcd was restored to an older revision, or a record was changed by hand", "revision", l.revision, "earlier", max(before, v.revision))
	}
	v.listed = l.revision
	v.observe(change, order)
	return nil
}

// notNil returns the value of a key that exists.
func notNil(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}

// takeRestored reports whether the store may have been restored since the last list.
func (r *Records) takeRestored() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	restored := r.restored
	r.restored = false
	return restored
}

// observe calls Observe with a change of the records of some processes.
func (v *recordView) observe(change homes.Change, changed []homes.Process) {
	for _, p := range changed {
		if s := v.stored[p]; !s.isAbsent() {
			change.Put = append(change.Put, s.parse(p))
		} else {
			delete(v.stored, p)
			change.Deleted = append(change.Deleted, p)
		}
	}
	v.revision = change.Revision
	v.records.config.Observe(change)
}

// follow observes changes after the list until the watch fails. It returns nil when it is time for another list.
func (v *recordView) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	stream := clientv3.NewWatcher(v.records.config.Client)
	responses, failed := make(chan clientv3.WatchResponse), make(chan error, 1)
	// The watch begins at the listed revision, not at the next one: etcd reports no progress of a watch that begins in the future.
	watch := watchOf{stream, v.records.config.Prefix, v.records.relativePrefix(), v.listed}
	var receiver sync.WaitGroup
	receiver.Go(func() {
		failed <- receive(ctx, watch, func(r clientv3.WatchResponse) {
			select {
			case responses <- r:
			case <-ctx.Done():
			}
		})
	})
	err := v.loop(ctx, stream, responses, failed)
	cancel()
	_ = stream.Close()
	receiver.Wait()
	return err
}

// loop observes responses until the watch fails or is silent.
func (v *recordView) loop(ctx context.Context, stream clientv3.Watcher, responses <-chan clientv3.WatchResponse, failed <-chan error) error {
	timeout := v.records.config.WatchTimeout
	ask := time.NewTicker(timeout / 3)
	defer ask.Stop()
	relist := time.NewTimer(relistInterval)
	defer relist.Stop()
	silent := time.NewTimer(timeout)
	defer silent.Stop()
	for {
		select {
		case r := <-responses:
			silent.Reset(timeout)
			v.applyResponse(r)
		case err := <-failed:
			return err
		case <-ask.C:
			v.requestProgress(ctx, stream)
		case <-silent.C:
			select {
			case r := <-responses: // a response that has arrived counts, however late it is
				silent.Reset(timeout)
				v.applyResponse(r)
			default:
				return errWatchTimeout
			}
		case <-v.records.relist:
			return nil
		case <-relist.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// requestProgress requests progress, so that a live watch sends something.
func (v *recordView) requestProgress(ctx context.Context, stream clientv3.Watcher) {
	ctx, cancel := context.WithTimeout(ctx, v.records.callTimeout())
	defer cancel()
	_ = stream.RequestProgress(ctx)
}

// applyResponse observes the events of a response, those of each revision as one change. It skips events that the list includes.
func (v *recordView) applyResponse(response clientv3.WatchResponse) {
	v.records.followed(response.Header.Revision)
	for events := response.Events; len(events) > 0; {
		revision := events[0].Kv.ModRevision
		n := slices.IndexFunc(events, func(e *clientv3.Event) bool { return e.Kv.ModRevision != revision })
		if n < 0 {
			n = len(events)
		}
		if revision > v.listed {
			v.applyEvents(revision, events[:n])
		}
		events = events[n:]
	}
}

func (v *recordView) applyEvents(revision int64, events []*clientv3.Event) {
	var changed []homes.Process
	for _, e := range events {
		p, isHeld := parseKey(strings.TrimPrefix(string(e.Kv.Key), v.records.config.Prefix+v.records.relativePrefix()))
		s := v.stored[p]
		if e.Type == clientv3.EventTypeDelete {
			s.set(isHeld, nil, 0)
		} else {
			s.set(isHeld, notNil(e.Kv.Value), e.Kv.ModRevision)
		}
		v.stored[p] = s
		if !slices.Contains(changed, p) {
			changed = append(changed, p)
		}
	}
	v.observe(homes.Change{Revision: revision}, changed)
}

// followed notes that the watch has reached a revision.
func (r *Records) followed(revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest = max(r.newest, revision)
}
