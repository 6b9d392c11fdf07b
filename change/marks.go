package change

import (
	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
)

// Unmarked returns documents that an operator puts without [document.RegisteredBy]: they are the operator's, also if they are copies of what an API
// key has registered. A document keeps the field if it means what the one there means, as a backup that is applied again; and under a lease, since its
// registrar puts it again, and until then no server may send it a credential of the defaults. before is sorted by key.
func Unmarked(before []etcd.Stored, docs []document.Raw) ([]document.Raw, error) {
	all := make([]document.Raw, 0, len(docs))
	for _, d := range docs {
		if there, ok := WithKey(before, d.Key); !ok || !there.Leased && !sameMeaning(there, d) {
			var err error
			if d, err = d.SetField(document.RegisteredBy, ""); err != nil {
				return nil, err
			}
		}
		all = append(all, d)
	}
	return all, nil
}

func sameMeaning(there etcd.Stored, d document.Raw) bool {
	different, err := document.Differences(d.Key, there.Value, d.Value)
	return err == nil && len(different) == 0
}
