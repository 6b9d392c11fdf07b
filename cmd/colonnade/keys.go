package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/node"
)

func newKeys() *cobra.Command {
	return group(&cobra.Command{
		Use: "keys", Short: "Work with the API keys of accounts",
		Long: `Work with the API keys of accounts. They stand in the documents accounts/NAME, by their hashes; a
key itself is shown once, when it is made. Nodes notice a change within seconds.`,
		Example: `  key=$(colonnade keys create -account acme)
  colonnade keys list -account acme
  colonnade keys revoke -account acme laptop`,
	},
		newKeysCreate(), newKeysList(), newKeysRevoke())
}

// noKeys refuses arguments, and repeats none that may be an API key.
func noKeys(cmd *cobra.Command, args []string) error {
	for i, arg := range args {
		if err := notAKey(fmt.Sprintf("argument %d", i+1), arg); err != nil {
			return err
		}
	}
	return noMore(cmd, args)
}

// notAKey refuses what looks like an API key, without repeating it. Shells, logs and screens would remember it.
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

// checkName checks a name that a flag gives.
func checkName(flag, name string) error {
	var invalid *fleet.InvalidError
	if errors.As(fleet.CheckKey(accountKey(name)), &invalid) {
		return fmt.Errorf("%s %q: %s", flag, name, strings.TrimPrefix(invalid.Reason, "in the key: "))
	}
	return nil
}

func accountKey(account string) string { return string(fleet.KindAccount) + "/" + account }

// editAccount changes the document of an account.
func editAccount(ctx context.Context, store *store, account string, change func([]byte) ([]byte, error)) error {
	return store.use(ctx, func(ctx context.Context, client *etcd.Client) error {
		return etcd.Edit(ctx, client, node.Prefix, accountKey(account), change)
	})
}

// accountList is what etcd has about accounts.
type accountList struct {
	accounts  []*fleet.Account // sorted by name
	conflicts []fleet.Conflict
	bad       []error // one for each document that no node accepts
}

// listAccounts reads the document of an account, or all; account is empty then.
func listAccounts(ctx context.Context, store *store, account string) (accountList, error) {
	if account != "" {
		if err := checkAccount(account); err != nil {
			return accountList{}, err
		}
	}
	var stored []etcd.Stored
	if err := store.use(ctx, func(ctx context.Context, client *etcd.Client) (err error) {
		stored, _, err = etcd.List(ctx, client, node.Prefix, accountKey(account))
		return err
	}); err != nil {
		return accountList{}, err
	}
	docs := fleet.NewDocuments()
	var l accountList
	for _, d := range stored {
		if err := docs.Put(d.Key, d.Value, d.Revision); err != nil {
			l.bad = append(l.bad, fmt.Errorf("%w (its keys are not listed; a node that has had a good version keeps that one, with its keys, and any other has none)", err))
		}
	}
	table := docs.Table()
	l.accounts, l.conflicts = table.Accounts(), table.Conflicts
	if account != "" && len(stored) == 0 {
		return l, fmt.Errorf("there is no account %s: no document %s", account, accountKey(account))
	}
	return l, nil
}
