package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/node"
)

func newKeysRevoke() *cli.Command {
	var store store
	return &cli.Command{
		Name: "revoke", Usage: "Revoke API keys, by their ids", ArgsUsage: "ID…", ArgValidator: command.RequireArgs("at least one ID"),
		Flags: []cli.Flag{store.flag()},
		Description: `Deletes the documents of the keys. Nodes refuse the keys within seconds; running requests are
not ended. If one of the ids is unknown, none is revoked.

Examples:
  colonnade keys revoke laptop`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return store.use(ctx, func(ctx context.Context, client *etcd.Client) error {
				return revoke(ctx, client, cmd.Args().Slice(), cmd.Writer)
			})
		},
	}
}

func revoke(ctx context.Context, client *etcd.Client, ids []string, out io.Writer) error {
	list, err := listAPIKeys(ctx, client)
	if err != nil {
		return err
	}
	keys, err := list.documentKeys(ids)
	if err != nil {
		return &refusedError{err.Error()}
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
		fmt.Fprint(out, heldBackNote(many))
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
			failed = append(failed, fmt.Errorf("%s: no key has this id; colonnade keys list shows all", command.Printable(id)))
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return slices.Compact(keys), errors.Join(failed...)
}

// describe returns a key and its account, for messages.
func (l apiKeyList) describe(key string) string {
	i := slices.IndexFunc(l.keys, func(k *fleet.APIKey) bool { return apiKeyKey(k.ID) == key })
	if i < 0 {
		return command.Printable(key) // a rejected document
	}
	return fmt.Sprintf("key %s of account %s", l.keys[i].ID, l.keys[i].Account)
}
