package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/fleet"
)

// Pages of a list. The first is small, since documents may have 64 KiB. Each further one is to have pageBytes, if its
// documents are like those of the page before it: 100 000 API keys take 26 round trips.
const (
	firstPage = 64
	maxPage   = 4096
	pageBytes = 1 << 20
)

// Stored is a document as it stands in etcd, good or bad.
type Stored struct {
	Key      string // without the prefix
	Value    []byte
	Revision int64 // of the store, when this version was put
	Created  int64 // of the store, when the key was put that did not exist before; 0 = unknown
	Leased   bool  // a node or a registrar put it under a lease
}

// List returns the documents in etcd, sorted by key, as they were at one revision of the store, and that revision. under is
// a key such as models/x, or "models/" for all below it, or "" for all documents and records, always without the prefix.
func List(ctx context.Context, client *clientv3.Client, prefix, under string) ([]Stored, int64, error) {
	l := lister{client: client, prefix: prefix, timeout: applyTimeout}
	if err := l.under(ctx, under); err != nil {
		return nil, 0, err
	}
	return l.found, l.revision, nil
}

// newStored returns a document as etcd sends it.
func newStored(key string, kv *mvccpb.KeyValue) Stored {
	return Stored{Key: key, Value: kv.Value, Revision: kv.ModRevision, Created: kv.CreateRevision, Leased: kv.Lease != 0}
}

// lister collects the pages of one list.
type lister struct {
	client   *clientv3.Client
	prefix   string
	timeout  time.Duration // of each call
	revision int64         // of all pages; 0 before the first one, which is of the newest revision
	found    []Stored
}

func (l *lister) under(ctx context.Context, under string) error {
	from, end := l.prefix+under, ""
	if isPrefix(under) {
		end = clientv3.GetPrefixRangeEnd(from)
	}
	if under == "" { // the history may be larger than all documents
		for _, kind := range []fleet.Kind{fleet.KindHistory, fleet.KindStaged} {
			folder := l.prefix + string(kind) + "/"
			if err := l.between(ctx, from, folder); err != nil {
				return err
			}
			from = clientv3.GetPrefixRangeEnd(folder)
		}
	}
	return l.between(ctx, from, end)
}

// between lists the keys from one to another, which is left out; without the latter, one key. Both are with the prefix.
func (l *lister) between(ctx context.Context, from, end string) error {
	begin, limit := from, int64(firstPage)
	for {
		page, err := l.page(ctx, from, end, limit)
		if err != nil {
			return fmt.Errorf("cannot list %s: %w", begin, err)
		}
		bytes := 0
		for _, kv := range page.Kvs {
			l.found = append(l.found, newStored(strings.TrimPrefix(string(kv.Key), l.prefix), kv))
			bytes += len(kv.Key) + len(kv.Value)
		}
		if !page.More || len(page.Kvs) == 0 {
			return nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		limit = min(max(firstPage, int64(len(page.Kvs))*pageBytes/int64(max(bytes, 1))), maxPage)
	}
}

func (l *lister) page(ctx context.Context, from, end string, limit int64) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	options := []clientv3.OpOption{clientv3.WithLimit(limit), clientv3.WithRev(l.revision)}
	if end != "" {
		options = append(options, clientv3.WithRange(end))
	}
	page, err := l.client.Get(ctx, from, options...)
	if err == nil && l.revision == 0 {
		l.revision = page.Header.Revision
	}
	return page, err
}

// rangeOptions returns the options that make a key a prefix, unless it is a whole key.
func rangeOptions(prefix, under string) []clientv3.OpOption {
	if !isPrefix(under) {
		return nil
	}
	return []clientv3.OpOption{clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix + under))}
}

func isPrefix(under string) bool { return under == "" || strings.HasSuffix(under, "/") }

// wanted returns the keys and prefixes to list and watch, without duplicates.
func (w *Watcher) wanted() []string {
	if len(w.config.Kinds) == 0 {
		return []string{""}
	}
	wanted := append([]string{string(fleet.KindDefaults), string(fleet.KindDeletions)}, w.config.Kinds...)
	slices.Sort(wanted)
	return slices.Compact(wanted)
}

// followed returns the keys and prefixes to watch: those of documents, the author of the newest change, and the change staged on this node.
func (w *Watcher) followed() []string {
	if len(w.config.Kinds) == 0 {
		return w.wanted()
	}
	return append(w.wanted(), w.beside()...)
}

// beside returns the keys that are read beside documents.
func (w *Watcher) beside() []string {
	if w.config.Staged == "" {
		return []string{AuthorKey}
	}
	return []string{AuthorKey, w.config.Staged}
}

// list fetches everything wanted as it was at one revision, takes it, and returns the revision. After an error, the next
// table is built when another list has succeeded, unless a node starts from its cache.
func (w *Watcher) list(ctx context.Context) (int64, error) {
	began := time.Now()
	listed, revision, err := w.listAt(ctx, 0)
	if err != nil {
		return 0, err
	}
	w.takeDead() // marked before this list, and perhaps alive by now
	now := time.Now()
	w.takeListedStaged(listed, began)
	for _, d := range w.documents.inClaimOrder(listed) {
		switch {
		case isStaged(d.Key):
		case isHistory(d.Key):
			w.documents.takeHistory(d)
		default:
			w.documents.put(d, now)
			w.documents.noteRevision(d.Key, d.Revision)
		}
	}
	w.documents.clampRevision(revision)
	w.documents.listed = revision
	missing := w.documents.missing(listed)
	confirmed, err := w.deletedWhenConfirmed(ctx, missing)
	if err != nil {
		return 0, err
	}
	for _, key := range missing {
		noticed := revision
		if confirmed[key] {
			noticed = w.documents.confirmed()
		}
		w.documents.remove(key, noticed, now)
	}
	return revision, nil
}

// deletedWhenConfirmed returns which of the missing documents the store already lacked at the confirmed revision, if the
// confirmation came while this watcher followed nothing. Without it, a node that was away would hold back deletions that all
// other nodes have carried out. If the store has that revision no more, or not yet, the deletions must be confirmed again.
func (w *Watcher) deletedWhenConfirmed(ctx context.Context, missing []string) (map[string]bool, error) {
	confirmed := w.documents.confirmed()
	if len(missing) == 0 || confirmed <= w.currentRevision() {
		return nil, nil
	}
	listed, _, err := w.listAt(ctx, confirmed)
	if errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, rpctypes.ErrFutureRev) {
		w.config.Logger.Info("cannot list the confirmed revision; its deletions stay pending", "revision", confirmed, "error", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	gone := make(map[string]bool, len(missing))
	for _, key := range missing {
		gone[key] = true
	}
	for _, d := range listed {
		delete(gone, d.Key)
	}
	return gone, nil
}

// listAt lists everything wanted at a revision, the author of the newest change, and the change staged on this node; 0 = the newest.
func (w *Watcher) listAt(ctx context.Context, revision int64) ([]Stored, int64, error) {
	l := lister{client: w.config.Client, prefix: w.config.Prefix, timeout: w.callTimeout(), revision: revision}
	for _, kind := range append(w.wanted(), w.beside()...) {
		if err := l.under(ctx, kind); err != nil {
			return nil, 0, err
		}
	}
	return l.found, l.revision, nil
}

// Watches reports whether documents of that key are watched.
func (w *Watcher) Watches(key string) bool {
	return slices.ContainsFunc(w.wanted(), func(kind string) bool {
		return key == kind || isPrefix(kind) && strings.HasPrefix(key, kind)
	})
}
