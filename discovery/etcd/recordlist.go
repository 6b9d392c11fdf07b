package etcd

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/homes"
)

// ListRecords returns the records of the server processes of a colo, as they are at one revision of the store.
func ListRecords(ctx context.Context, client *clientv3.Client, prefix, colo string) ([]homes.Record, error) {
	folder := recordsKind + colo + "/"
	found, _, err := List(ctx, client, prefix, folder)
	if err != nil {
		return nil, err
	}
	stored, order := storedRecords(found, folder)
	all := make([]homes.Record, 0, len(order))
	for _, p := range order {
		s := stored[p]
		all = append(all, s.parse(p))
	}
	return all, nil
}

// storedRecords returns the records of the keys below a folder, and their processes in the order of the keys.
func storedRecords(found []Stored, folder string) (stored map[homes.Process]storedRecord, order []homes.Process) {
	stored = map[homes.Process]storedRecord{}
	for _, d := range found {
		p, isHeld := parseKey(strings.TrimPrefix(d.Key, folder))
		s, known := stored[p]
		if !known {
			order = append(order, p)
		}
		s.set(isHeld, notNil(d.Value), d.Revision)
		stored[p] = s
	}
	return stored, order
}
