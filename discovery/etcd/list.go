package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/fleet"
)

// pageSize keeps an answer far below gRPC's limits: documents have at most 64 KiB, and hundreds of bytes as a rule.
const pageSize = 64

// wanted returns the keys and prefixes to list and watch, without duplicates.
func (w *Watcher) wanted() []string {
	if len(w.config.Kinds) == 0 {
		return []string{""}
	}
	wanted := append([]string{string(fleet.KindDefaults)}, w.config.Kinds...)
	slices.Sort(wanted)
	return slices.Compact(wanted)
}

// span returns the options that make a key a prefix, unless it is a whole key.
func (w *Watcher) span(kind string) []clientv3.OpOption {
	if kind != "" && !strings.HasSuffix(kind, "/") {
		return nil
	}
	return []clientv3.OpOption{clientv3.WithRange(clientv3.GetPrefixRangeEnd(w.config.Prefix + kind))}
}

// list fetches everything wanted as it was at one revision, takes it, and returns the revision. Nothing is taken of a list
// that did not come to its end.
func (w *Watcher) list(ctx context.Context) (int64, error) {
	l := lister{watcher: w}
	for _, kind := range w.wanted() {
		if err := l.kind(ctx, kind); err != nil {
			return 0, fmt.Errorf("cannot list %s: %w", w.config.Prefix+kind, err)
		}
	}
	listed := make(map[string]bool, len(l.found))
	for _, kv := range l.found {
		listed[kv.key] = true
		w.put(kv.key, kv.value, kv.revision)
	}
	w.removeAllBut(listed, l.revision)
	return l.revision, nil
}

// lister collects the pages of one list.
type lister struct {
	watcher  *Watcher
	revision int64 // 0 before the first page, which is the newest there is; the others are of the same revision
	found    []keyValue
}

type keyValue struct {
	key      string // without the prefix
	value    []byte
	revision int64
}

func (l *lister) kind(ctx context.Context, kind string) error {
	from := l.watcher.config.Prefix + kind
	for {
		page, err := l.page(ctx, from, kind)
		if err != nil {
			return err
		}
		for _, kv := range page.Kvs {
			key := strings.TrimPrefix(string(kv.Key), l.watcher.config.Prefix)
			l.found = append(l.found, keyValue{key, kv.Value, kv.ModRevision})
		}
		if !page.More || len(page.Kvs) == 0 {
			return nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

func (l *lister) page(ctx context.Context, from, kind string) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, l.watcher.callTimeout())
	defer cancel()
	options := append(l.watcher.span(kind), clientv3.WithLimit(pageSize), clientv3.WithRev(l.revision))
	page, err := l.watcher.config.Client.Get(ctx, from, options...)
	if err == nil && l.revision == 0 {
		l.revision = page.Header.Revision
	}
	return page, err
}

// isWanted reports whether a list would have the key.
func (w *Watcher) isWanted(key string) bool {
	return slices.ContainsFunc(w.wanted(), func(kind string) bool {
		if kind == "" || strings.HasSuffix(kind, "/") {
			return strings.HasPrefix(key, kind)
		}
		return key == kind
	})
}
