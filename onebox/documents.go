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

// unkept returns the documents without those of which etcd has one: somebody may have changed it. Endpoints are put in
// any case, since engines have other addresses with each start.
func (b *box) unkept(ctx context.Context, docs []document.Raw) ([]document.Raw, error) {
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
		b.progress("kept as they are in etcd, and not as the demo has them: " + strings.Join(changed, ", "))
	}
	return docs, nil
}

// replaced returns the documents of base, but for those that are replaced by docs, and then docs.
func replaced(base, docs []document.Raw) []document.Raw {
	kept := slices.DeleteFunc(base, func(b document.Raw) bool {
		return slices.ContainsFunc(docs, func(d document.Raw) bool { return d.Key == b.Key })
	})
	return append(kept, docs...)
}
