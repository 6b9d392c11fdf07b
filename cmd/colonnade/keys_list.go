package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
)

// keyState says whether a key is valid.
type keyState string

const (
	keyActive  keyState = "active"
	keyExpired keyState = "expired"
)

// listedKey is one key as it is listed.
type listedKey struct {
	Account string    `json:"account"`
	ID      string    `json:"id"`
	Created time.Time `json:"created,omitzero"`
	Expires time.Time `json:"expires,omitzero"` // zero = never
	State   keyState  `json:"state"`
}

func newKeysList() *cobra.Command {
	var store *store
	var account string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the API keys of all accounts, or of one",
		Example: `  colonnade keys list
  colonnade keys list -account acme -json`,
		Args: noKeys,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if account != "" {
				if err := checkAccount(account); err != nil {
					return err
				}
			}
			var list apiKeyList
			if err := store.use(cmd.Context(), func(ctx context.Context, client *etcd.Client) (err error) {
				list, err = listAPIKeys(ctx, client)
				return err
			}); err != nil {
				return err
			}
			return printKeys(cmd, list, account, asJSON)
		},
	}
	store = storeFlag(cmd)
	cmd.Flags().StringVar(&account, "account", "", "only the keys of this account")
	cmd.Flags().BoolVar(&asJSON, "json", false, "a list in JSON")
	return cmd
}

// printKeys prints the keys of an account, or all if that is empty. Its error names the documents that no node accepts.
func printKeys(cmd *cobra.Command, list apiKeyList, account string, asJSON bool) error {
	keys := []listedKey{} // in JSON an empty list, not null
	for _, k := range list.keys {
		if account == "" || k.Account == account {
			keys = append(keys, newListedKey(k, time.Now()))
		}
	}
	if asJSON {
		text, err := json.MarshalIndent(keys, "", "  ")
		if err != nil {
			return fmt.Errorf("cannot write keys as JSON: %w", err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
	} else if len(keys) > 0 {
		printKeyTable(cmd.OutOrStdout(), keys)
	} else if account != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "account %s has no keys\n", account)
	} else {
		fmt.Fprintln(cmd.ErrOrStderr(), "there are no keys")
	}
	for _, c := range list.conflicts {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s has no effect, since %s has the same hash\n", c.Loser, c.Winner)
	}
	return errors.Join(list.bad...)
}

func newListedKey(k *fleet.APIKey, now time.Time) listedKey {
	state := keyActive
	if k.ExpiredAt(now) {
		state = keyExpired
	}
	return listedKey{Account: k.Account, ID: k.ID, Created: k.Created, Expires: k.Expires, State: state}
}

func printKeyTable(out io.Writer, keys []listedKey) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ACCOUNT\tID\tCREATED\tEXPIRES\tSTATE")
	for _, k := range keys {
		created, expires := "-", "never"
		if !k.Created.IsZero() {
			created = stamp(k.Created)
		}
		if !k.Expires.IsZero() {
			expires = stamp(k.Expires)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", k.Account, k.ID, created, expires, k.State)
	}
	_ = table.Flush() // see failUnwritten
}
