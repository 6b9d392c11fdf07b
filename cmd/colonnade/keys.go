package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
)

func newKeys() *cobra.Command {
	return group(&cobra.Command{
		Use: "keys", Short: "Work with the API keys of accounts",
		Long: `Work with the API keys of accounts. Each is a document of its own, keys/ID, with the hash of the
key; the key itself is shown once, when it is made. Nodes notice a change within seconds.`,
		Example: `  key=$(colonnade keys create -account acme)
  colonnade keys list -account acme
  colonnade keys revoke laptop`,
	},
		newKeysCreate(), newKeysList(), newKeysRevoke())
}

// noKeys refuses arguments. Its error does not repeat one that may be an API key.
func noKeys(cmd *cobra.Command, args []string) error {
	for i, arg := range args {
		if err := notAKey(fmt.Sprintf("argument %d", i+1), arg); err != nil {
			return err
		}
	}
	return noMore(cmd, args)
}

// notAKey refuses what looks like an API key. The error does not repeat it: logs and screens would keep it.
func notAKey(what, s string) error {
	if !strings.HasPrefix(s, "cn_") && !strings.HasPrefix(s, "sk-") {
		return nil
	}
	return fmt.Errorf(`%s looks like an API key, and is not repeated here; an id is what stands in a key between "cn_" and its last "_", and colonnade keys list shows all`, what)
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

// apiKeyList is what etcd has about API keys.
type apiKeyList struct {
	docs      []etcd.Stored
	keys      []*fleet.APIKey // sorted by account, and then by id
	conflicts []fleet.Conflict
	bad       []error // one for each document that no node accepts
}

func listAPIKeys(ctx context.Context, client *etcd.Client) (apiKeyList, error) {
	stored, _, err := etcd.List(ctx, client, node.Prefix, apiKeyKey(""))
	if err != nil {
		return apiKeyList{}, err
	}
	docs, l := document.NewSet(), apiKeyList{docs: stored}
	for _, d := range stored {
		if err := docs.Put(d.Key, d.Value, d.Revision); err != nil {
			l.bad = append(l.bad, fmt.Errorf("%w (a node that has an earlier good version uses that one)", err))
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
