package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/fleet"
)

// keyState says whether a key is valid.
type keyState string

const (
	keyActive  keyState = "active"
	keyExpired keyState = "expired"
)

// listedKey is an API key as the list shows it.
type listedKey struct {
	Account string    `json:"account,omitempty"`
	Role    string    `json:"role,omitempty"`
	ID      string    `json:"id"`
	Created time.Time `json:"created,omitzero"`
	Expires time.Time `json:"expires,omitzero"` // zero = never
	State   keyState  `json:"state"`
}

func newKeysList() *cli.Command {
	var store store
	var account string
	var asJSON bool
	return &cli.Command{
		Name: "list", Usage: "List the API keys of all accounts, or of one", ArgValidator: rejectKeys,
		Flags: []cli.Flag{
			store.etcdFlag(), store.configFlag(),
			&cli.StringFlag{Name: "account", Destination: &account, Usage: "only the keys of this `ACCOUNT`"},
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON"},
		},
		Description: `Examples:
  colonnade keys list
  colonnade keys list -account acme -json
  colonnade keys list -config conf`,
		Action: store.action(func(ctx context.Context, cmd *cli.Command, d *change.Documents) error {
			if account != "" {
				if err := checkName("-account", account); err != nil {
					return err
				}
			}
			list, err := listAPIKeys(ctx, d)
			if err != nil {
				return err
			}
			return printKeys(cmd, list, account, asJSON)
		}),
	}
}

// printKeys prints the keys of an account, or all if that is empty. Its error names the documents that nodes reject.
func printKeys(cmd *cli.Command, list apiKeyList, account string, asJSON bool) error {
	keys := []listedKey{} // an empty list in JSON, not null
	for _, k := range list.keys {
		if account == "" || k.Account == account {
			keys = append(keys, newListedKey(k, time.Now()))
		}
	}
	var err error
	switch {
	case asJSON:
		err = writeJSON(cmd.Writer, keys, false)
	case len(keys) > 0:
		err = show(cmd.Writer, func(out *screen) { drawKeys(out, keys) })
	case account != "":
		fmt.Fprintf(cmd.ErrWriter, "account %s has no keys\n", account)
	default:
		fmt.Fprintln(cmd.ErrWriter, "there are no keys")
	}
	for _, c := range list.conflicts {
		fmt.Fprintf(cmd.ErrWriter, "%s has no effect, since %s has the same hash\n", c.Loser, c.Winner)
	}
	return errors.Join(append(list.rejected, err)...)
}

func newListedKey(k *fleet.APIKey, now time.Time) listedKey {
	state := keyActive
	if k.ExpiredAt(now) {
		state = keyExpired
	}
	return listedKey{Account: k.Account, Role: k.Role, ID: k.ID, Created: k.Created, Expires: k.Expires, State: state}
}

func drawKeys(out *screen, keys []listedKey) {
	var rows [][]any
	for _, k := range keys {
		created, expires := "-", "never"
		if !k.Created.IsZero() {
			created = stamp(k.Created)
		}
		if !k.Expires.IsZero() {
			expires = stamp(k.Expires)
		}
		rows = append(rows, []any{cmp.Or(k.Account, "("+k.Role+")"), k.ID, created, expires, k.State})
	}
	out.table("", []string{"~ACCOUNT", "~ID", "CREATED", "EXPIRES", "STATE"}, rows)
}
