package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

func newKeys() *cli.Command {
	return &cli.Command{
		Name: "keys", Usage: "Administer the API keys of accounts, and the keys of the fleet",
		Commands: []*cli.Command{newKeysCreate(), newKeysList(), newKeysRevoke(), newKeysRotateFleet()},
		Description: `Each API key is a document, keys/ID, with the hash of the key; the key itself is shown once,
when it is created. Nodes notice a change within seconds. -config names the files of a
colonnade serve; without it, the documents are in etcd.

Examples:
  key=$(colonnade keys create -account acme)
  colonnade keys list -account acme
  colonnade keys revoke laptop
  colonnade keys create -account acme -config conf`,
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

// checkName checks the name of an account or of an API key that a flag gives.
func checkName(flag, name string) error {
	if err := notAKey(flag, name); err != nil {
		return err
	}
	var invalid *document.InvalidError
	if errors.As(document.CheckKey(accountKey(name)), &invalid) {
		return fmt.Errorf("%s %q: %s", flag, name, strings.TrimPrefix(invalid.Reason, "in the key: "))
	}
	return nil
}

func accountKey(account string) string { return string(fleet.KindAccount) + "/" + account }

func apiKeyKey(id string) string { return string(fleet.KindAPIKey) + "/" + id }

// apiKeyList holds the API keys in etcd, or in files.
type apiKeyList struct {
	docs      []etcd.Stored
	keys      []*fleet.APIKey // sorted by account, and then by id
	conflicts []fleet.Conflict
	rejected  []error // one for each document that nodes reject
}

func listAPIKeys(ctx context.Context, d *change.Documents) (apiKeyList, error) {
	stored, err := d.List(ctx, apiKeyKey(""))
	if err != nil && len(stored) == 0 {
		return apiKeyList{}, err
	}
	docs, l := document.NewSet(), apiKeyList{docs: stored}
	if err != nil {
		l.rejected = append(l.rejected, err)
	}
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

// describe returns a key and what it is for, for messages.
func (l apiKeyList) describe(key string) string {
	i := slices.IndexFunc(l.keys, func(k *fleet.APIKey) bool { return apiKeyKey(k.ID) == key })
	if i < 0 {
		return command.Printable(key) // a rejected document
	}
	return keyText(l.keys[i])
}

// keyText names an API key in messages.
func keyText(k *fleet.APIKey) string {
	if k.ForWorkers() {
		return fmt.Sprintf("key %s for workers", k.ID)
	}
	return fmt.Sprintf("key %s of account %s", k.ID, k.Account)
}
