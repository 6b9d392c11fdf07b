package onebox

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
)

// notStored returns the documents that etcd does not have: an operator may have changed one that it has. Endpoints are
// always returned, since engines have other addresses with each start.
func (b *allInOne) notStored(ctx context.Context, docs []document.Raw) ([]document.Raw, error) {
	stored, _, err := etcd.List(ctx, b.fleet.client, node.Prefix, "")
	if err != nil {
		return nil, err
	}
	there := map[string][]byte{}
	for _, d := range stored {
		there[d.Key] = d.Value
	}
	var changed []string
	docs = slices.DeleteFunc(docs, func(d document.Raw) bool {
		old, found := there[d.Key]
		kept := found && !strings.HasPrefix(d.Key, string(fleet.KindEndpoint)+"/")
		if kept && !bytes.Equal(old, d.Value) {
			changed = append(changed, d.Key)
		}
		return kept
	})
	if len(changed) > 0 {
		b.progress("documents in etcd that differ from the demo are kept: " + strings.Join(changed, ", "))
	}
	return docs, nil
}

// override returns the documents of base, except those that docs replaces, followed by docs.
func override(base, docs []document.Raw) []document.Raw {
	kept := slices.DeleteFunc(base, func(b document.Raw) bool {
		return slices.ContainsFunc(docs, func(d document.Raw) bool { return d.Key == b.Key })
	})
	return append(kept, docs...)
}
