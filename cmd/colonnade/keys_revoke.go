package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/node"
)

func newKeysRevoke() *cobra.Command {
	var store *store
	cmd := &cobra.Command{
		Use:   "revoke ID…",
		Short: "Revoke API keys, by their ids",
		Long: `Revoke API keys, by their ids: delete their documents. Nodes refuse them within seconds; requests
that run are not ended. If one of the ids is wrong, none is revoked.`,
		Example: `  colonnade keys revoke laptop`,
		Args:    atLeastOne("at least one ID"),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return store.use(cmd.Context(), func(ctx context.Context, client *etcd.Client) error {
				return revoke(ctx, client, ids, cmd.OutOrStdout())
			})
		},
	}
	store = storeFlag(cmd)
	return cmd
}

func revoke(ctx context.Context, client *etcd.Client, ids []string, out io.Writer) error {
	list, err := listAPIKeys(ctx, client)
	if err != nil {
		return err
	}
	keys, err := list.documentKeys(ids)
	if err != nil {
		return &refusal{err.Error()}
	}
	found, err := etcd.Delete(ctx, client, node.Prefix, keys)
	for _, key := range keys {
		switch {
		case slices.Contains(found, key):
			fmt.Fprintln(out, "revoked", list.describe(key))
		case err == nil:
			fmt.Fprintln(out, list.describe(key), "was revoked by another command")
		}
	}
	if many := tooMany(list.docs, found); len(many) > 0 {
		fmt.Fprint(out, heldBackText(many))
	}
	return err
}

// documentKeys returns the keys of the documents of these ids, sorted. The error names every id that has none.
func (l apiKeyList) documentKeys(ids []string) ([]string, error) {
	var keys []string
	var failed []error
	for i, id := range ids {
		key := apiKeyKey(id)
		if err := notAKey(fmt.Sprintf("argument %d", i+1), id); err != nil {
			failed = append(failed, err)
		} else if !slices.ContainsFunc(l.docs, func(d etcd.Stored) bool { return d.Key == key }) {
			failed = append(failed, fmt.Errorf("%s: there is no key of this id; colonnade keys list shows all", shown(id)))
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return slices.Compact(keys), errors.Join(failed...)
}

// describe names a key and its account, for people.
func (l apiKeyList) describe(key string) string {
	i := slices.IndexFunc(l.keys, func(k *fleet.APIKey) bool { return apiKeyKey(k.ID) == key })
	if i < 0 {
		return shown(key) // no good document
	}
	return fmt.Sprintf("key %s of account %s", l.keys[i].ID, l.keys[i].Account)
}
