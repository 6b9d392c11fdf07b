package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
)

func newKeys() *cli.Command {
	return &cli.Command{
		Name: "keys", Usage: "Administer the API keys of accounts",
		Commands: []*cli.Command{newKeysCreate(), newKeysList(), newKeysRevoke()},
		Description: `Each API key is a document, keys/ID, with the hash of the key; the key itself is shown once,
when it is created. Nodes notice a change within seconds.

Examples:
  key=$(colonnade keys create -account acme)
  colonnade keys list -account acme
  colonnade keys revoke laptop`,
	}
}

// rejectKeys refuses arguments. Its error does not repeat one that may be an API key.
func rejectKeys(ctx context.Context, cmd *cli.Command) error {
	for i, arg := range cmd.Args().Slice() {
		if err := notAKey(fmt.Sprintf("argument %d", i+1), arg); err != nil {
			return err
		}
	}
	return command.RejectArgs(ctx, cmd)
}

// notAKey refuses what looks like an API key. The error does not repeat it: logs and screens would keep it.
func notAKey(what, s string) error {
	if !strings.HasPrefix(s, "cn_") && !strings.HasPrefix(s, "sk-") {
		return nil
	}
	return fmt.Errorf(`%s looks like an API key, and is not repeated here; the id of a key is the part between "cn_" and its last "_", and colonnade keys list shows all`, what)
}

// checkAccount checks the flag -account.
func checkAccount(name string) error {
	if err := notAKey("-account", name); err != nil {
		return err
	}
	return checkName("-account", name)
}

// checkName checks a name that a flag gives, of an account or of an API key.
func checkName(flag, name string) error {
	var invalid *document.InvalidError
	if errors.As(document.CheckKey(accountKey(name)), &invalid) {
		return fmt.Errorf("%s %q: %s", flag, name, strings.TrimPrefix(invalid.Reason, "in the key: "))
	}
	return nil
}

func accountKey(account string) string { return string(fleet.KindAccount) + "/" + account }

func apiKeyKey(id string) string { return string(fleet.KindAPIKey) + "/" + id }

// apiKeyList holds the API keys in etcd.
type apiKeyList struct {
	docs      []etcd.Stored
	keys      []*fleet.APIKey // sorted by account, and then by id
	conflicts []fleet.Conflict
	rejected  []error // one for each document that nodes reject
}

func listAPIKeys(ctx context.Context, client *etcd.Client) (apiKeyList, error) {
	stored, _, err := etcd.List(ctx, client, node.Prefix, apiKeyKey(""))
	if err != nil {
		return apiKeyList{}, err
	}
	docs, l := document.NewSet(), apiKeyList{docs: stored}
	for _, d := range stored {
		if err := docs.Put(d.Key, d.Value, d.Revision); err != nil {
			l.rejected = append(l.rejected, fmt.Errorf("%w (a node that has an earlier valid version uses that one)", err))
			continue
		}
		if k, ok := docs.Noun(d.Key).(*fleet.APIKey); ok {
			l.keys = append(l.keys, k)
		}
	}
	slices.SortFunc(l.keys, func(a, b *fleet.APIKey) int {
		return cmp.Or(strings.Compare(a.Account, b.Account), strings.Compare(a.ID, b.ID))
	})
	l.conflicts = docs.Table().Conflicts
	return l, nil
}
