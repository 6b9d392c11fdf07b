package node

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"maps"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/accounts"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

const (
	keyTimeout = 2 * time.Second // of a look for API keys
	keysAtOnce = 100             // in one transaction of etcd
)

// findKey finds an API key in etcd: a colo server watches no keys.
func (b *behalf) findKey(ctx context.Context, key string) (*fleet.APIKey, error) {
	id := accounts.KeyID(key)
	if document.CheckKey(fleet.KindAPIKey.Key(id)) != nil {
		return nil, accounts.ErrBadKey
	}
	found, err := b.keysByID(ctx, []string{id})
	if err != nil {
		return nil, fmt.Errorf("etcd does not answer: %w", err)
	}
	known := found[id]
	sum := sha256.Sum256([]byte(key))
	switch {
	case known == nil || subtle.ConstantTimeCompare(sum[:], known.SHA256[:]) != 1:
		return nil, accounts.ErrBadKey
	case known.ExpiredAt(time.Now()):
		return nil, accounts.ErrExpiredKey
	}
	return known, nil
}

// keysByID returns the API keys that etcd has under some IDs.
func (b *behalf) keysByID(ctx context.Context, ids []string) (map[string]*fleet.APIKey, error) {
	ctx, cancel := context.WithTimeout(ctx, keyTimeout)
	defer cancel()
	gets := make([]clientv3.Op, 0, len(ids))
	for _, id := range ids {
		gets = append(gets, clientv3.OpGet(Prefix+fleet.KindAPIKey.Key(id)))
	}
	answer, err := b.client.Txn(ctx).Then(gets...).Commit()
	if err != nil {
		return nil, err
	}
	known := map[string]*fleet.APIKey{}
	for i, id := range ids {
		name, set := fleet.KindAPIKey.Key(id), document.NewSet()
		for _, kv := range answer.Responses[i].GetResponseRange().Kvs {
			_ = set.Put(name, kv.Value, kv.ModRevision) // a bad one is no key
		}
		if key, is := set.Noun(name).(*fleet.APIKey); is {
			known[id] = key
		}
	}
	return known, nil
}

// expired returns the endpoints of the colo that were registered by API keys, and that stay in force although their leases have expired.
func (b *behalf) expired() (all []*fleet.Endpoint) {
	t := b.table()
	if t == nil || len(t.ExpiredLeases) == 0 {
		return nil
	}
	for _, e := range t.EndpointsOf(b.colo) {
		if _, expired := slices.BinarySearch(t.ExpiredLeases, fleet.KindEndpoint.Key(e.Colo, e.ID)); expired && e.RegisteredBy != "" {
			all = append(all, e)
		}
	}
	return all
}

// revoked returns the marks of the API keys of workers that etcd says are not valid any more: of all that this server registers, and of engines
// that have no registration left which could end. While etcd is away, none is.
func (b *behalf) revoked(ctx context.Context) map[string]bool {
	marks := map[string]bool{}
	for _, w := range b.registered() {
		if w.mark != "" {
			marks[w.mark] = true
		}
	}
	for _, e := range b.expired() {
		marks[e.RegisteredBy] = true
	}
	bad := map[string]bool{}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(marks)), keysAtOnce) {
		b.checkMarks(ctx, some, bad)
	}
	return bad
}

// checkMarks adds those of some marks to bad whose keys are not valid any more.
func (b *behalf) checkMarks(ctx context.Context, marks []string, bad map[string]bool) {
	ids := make([]string, 0, len(marks))
	for _, mark := range marks {
		ids = append(ids, fleet.MarkedKeyID(mark))
	}
	known, err := b.keysByID(ctx, ids)
	if err != nil {
		return
	}
	for _, mark := range marks {
		key := known[fleet.MarkedKeyID(mark)]
		if key == nil || key.Mark() != mark || !key.ForWorkers() || key.ExpiredAt(time.Now()) {
			bad[mark] = true
		}
	}
}
