package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colonnade/fleet"
)

func newKeysRevoke() *cobra.Command {
	var store *store
	var account string
	cmd := &cobra.Command{
		Use:   "revoke ID…",
		Short: "Revoke API keys, by their ids",
		Long: `Revoke API keys, by their ids. Nodes refuse them within seconds; requests that run are not ended.
If one of the ids is wrong, none is revoked.`,
		Example: `  colonnade keys revoke -account acme laptop`,
		Args:    atLeastOne("at least one ID"),
		RunE: func(cmd *cobra.Command, ids []string) error {
			list, err := listAccounts(cmd.Context(), store, account)
			if err != nil {
				return err
			}
			keys, err := list.owners(ids)
			if err != nil {
				return err
			}
			return revoke(cmd, store, keys)
		},
	}
	store = storeFlag(cmd)
	cmd.Flags().StringVar(&account, "account", "", "the account that the keys are of (default: found by the ids)")
	return cmd
}

// ownedKey is a key and whose it is.
type ownedKey struct{ account, id string }

// owners finds the account of each id. The error names every id that has none, or several.
func (l accountList) owners(ids []string) ([]ownedKey, error) {
	var owned []ownedKey
	var failed []error
	for i, id := range ids {
		var names []string
		for _, a := range l.accounts {
			if slices.ContainsFunc(a.Keys, func(k fleet.Key) bool { return k.ID == id }) {
				names = append(names, a.Name)
			}
		}
		switch len(names) {
		case 0:
			failed = append(failed, l.noKey(i, id))
		case 1:
			owned = append(owned, ownedKey{names[0], id})
		default:
			failed = append(failed, fmt.Errorf("%s: several accounts have a key of this id (%s); say with -account whose is meant", id, strings.Join(names, ", ")))
		}
	}
	if len(failed) > 0 {
		failed = append(failed, l.bad...) // the key may be in one of them
		return nil, errors.Join(failed...)
	}
	slices.SortFunc(owned, func(a, b ownedKey) int {
		return strings.Compare(a.account+"\x00"+a.id, b.account+"\x00"+b.id)
	})
	return slices.Compact(owned), nil
}

func (l accountList) noKey(i int, id string) error {
	if err := notAKey(fmt.Sprintf("argument %d", i+1), id); err != nil {
		return err
	}
	return fmt.Errorf("%s: there is no key of this id; colonnade keys list shows all", shown(id))
}

func revoke(cmd *cobra.Command, store *store, keys []ownedKey) error {
	for _, k := range keys {
		err := editAccount(cmd.Context(), store, k.account, func(old []byte) ([]byte, error) {
			return fleet.RemoveKey(k.account, old, k.id)
		})
		switch {
		case errors.Is(err, fleet.ErrKeyUnknown):
			fmt.Fprintf(cmd.OutOrStdout(), "key %s of account %s was revoked by somebody else\n", k.id, k.account)
		case err != nil:
			return err
		default:
			fmt.Fprintf(cmd.OutOrStdout(), "revoked key %s of account %s\n", k.id, k.account)
		}
	}
	return nil
}
