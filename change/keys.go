package change

import (
	"slices"
	"strings"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

// KindIn returns the kind in a document's key.
func KindIn(key string) fleet.Kind {
	kind, _, _ := strings.Cut(key, "/")
	return fleet.Kind(kind)
}

// IsRecordKey reports whether a key belongs to the record of a colo server's process, or looks as if it did. Records are no documents.
func IsRecordKey(key string) bool {
	return KindIn(key) == fleet.KindRecord && key != string(fleet.KindRecord)
}

// IsRegistered reports whether a document belongs to a node or a registrar.
func IsRegistered(d etcd.Stored) bool {
	kind := KindIn(d.Key)
	return d.Leased || IsRecordKey(d.Key) || d.Key != string(kind) && kind.OfNode()
}

// WithKey returns the document of a key. The documents are sorted by key.
func WithKey(docs []etcd.Stored, key string) (etcd.Stored, bool) {
	at, found := slices.BinarySearchFunc(docs, key, func(d etcd.Stored, key string) int { return strings.Compare(d.Key, key) })
	if !found {
		return etcd.Stored{}, false
	}
	return docs[at], true
}

// Prunable returns the keys of the operators' documents that are not among others, of the kinds that those have.
func Prunable(before []etcd.Stored, docs []document.Raw) (keys []string) {
	kinds, wanted := map[fleet.Kind]bool{}, map[string]bool{}
	for _, d := range docs {
		kinds[KindIn(d.Key)], wanted[d.Key] = true, true
	}
	for _, d := range before {
		if kinds[KindIn(d.Key)] && !wanted[d.Key] && !IsRegistered(d) {
			keys = append(keys, d.Key)
		}
	}
	return keys
}
