package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"colonnade/fleet"
)

// keyState says whether a key is good.
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
			list, err := listAccounts(cmd.Context(), store, account)
			if err != nil {
				return err
			}
			return printKeys(cmd, list, asJSON)
		},
	}
	store = storeFlag(cmd)
	cmd.Flags().StringVar(&account, "account", "", "only the keys of this account")
	cmd.Flags().BoolVar(&asJSON, "json", false, "a list in JSON")
	return cmd
}

// printKeys fails if the keys are not all there are.
func printKeys(cmd *cobra.Command, list accountList, asJSON bool) error {
	keys := listKeys(list.accounts, time.Now())
	if asJSON {
		text, err := json.MarshalIndent(keys, "", "  ")
		if err != nil {
			return fmt.Errorf("cannot write keys as JSON: %w", err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
	} else if len(keys) > 0 {
		printKeyTable(cmd.OutOrStdout(), keys)
	} else {
		fmt.Fprintln(cmd.ErrOrStderr(), "there are no keys")
	}
	for _, c := range list.conflicts {
		fmt.Fprintf(cmd.ErrOrStderr(), "key %s of %s is also one of %s, and counts as that one's\n",
			c.Value, c.Loser, c.Winner)
	}
	return errors.Join(list.bad...)
}

func listKeys(accounts []*fleet.Account, now time.Time) []listedKey {
	keys := []listedKey{} // in JSON an empty list, not null
	for _, a := range accounts {
		for _, k := range a.Keys {
			state := keyActive
			if !k.Expires.IsZero() && !now.Before(k.Expires) {
				state = keyExpired
			}
			keys = append(keys, listedKey{Account: a.Name, ID: k.ID, Created: k.Created, Expires: k.Expires, State: state})
		}
	}
	return keys
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
	_ = table.Flush() // a terminal that has gone cannot be told
}
